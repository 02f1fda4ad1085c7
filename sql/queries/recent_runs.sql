-- One row per run: the newest complete runs of an endpoint and suite. Params: $endpoint, $suite, $run_count
with paid as (
    select
        run_id,
        count(*) as attempt_count,
        avg(latency_ms) as mean_latency_ms
    from trial_attempts
    group by run_id
)

select
    runs.run_id,
    runs.slot_at,
    runs.pass_rate,
    runs.cost_usd,
    paid.attempt_count,
    paid.mean_latency_ms
from runs
inner join paid on runs.run_id = paid.run_id
where
    runs.endpoint = $endpoint
    and runs.suite = $suite
    and runs.purpose != 'confirm'
    and runs.graded = runs.planned_count
order by runs.planned_at desc
limit $run_count;
