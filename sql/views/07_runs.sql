-- One row per committed run, with how its planned trials ended. Params: none
create view runs as
with counted as (
    select
        run_id,
        count(*) filter (where outcome = 'passed') as passed,
        count(*) filter (where outcome = 'failed') as failed,
        count(*) filter (where outcome = 'harness_error') as harness_error,
        count(*) filter (where outcome = 'grader_error') as grader_error,
        count(*) filter (where outcome = 'skipped') as skipped,
        avg(round_count) filter (where outcome in ('passed', 'failed')) as mean_rounds,
        string_agg(distinct served_model, '+' order by served_model) as served_model
    from trials
    group by run_id
),

paid as (
    select
        run_id,
        case when bool_or(cost_usd is null) then null else sum(cost_usd) end as cost_usd,
        case
            when bool_or(simulator is not null and simulator_cost_usd is null) then null
            else coalesce(sum(simulator_cost_usd), 0)
        end as simulator_cost_usd
    from attempts
    group by run_id
)

select
    run_records.*,
    coalesce(counted.passed, 0) as passed,
    coalesce(counted.failed, 0) as failed,
    coalesce(counted.harness_error, 0) as harness_error,
    coalesce(counted.grader_error, 0) as grader_error,
    coalesce(counted.skipped, 0) as skipped,
    coalesce(counted.passed + counted.failed, 0) as graded,
    counted.passed / nullif(counted.passed + counted.failed, 0) as pass_rate,
    coalesce(counted.passed + counted.failed, 0)
    / nullif(run_records.planned_count, 0) as coverage,
    counted.mean_rounds,
    counted.served_model,
    paid.cost_usd,
    paid.simulator_cost_usd
from run_records
left join counted on run_records.run_id = counted.run_id
left join paid on run_records.run_id = paid.run_id;
