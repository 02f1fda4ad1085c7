-- One row per (endpoint, suite, served model): trials begun since a time, their rounds, and how many of those with tool calls that count brought nothing. Params: $since
with per_trial as (
    select
        trial_id,
        count(*) as round_count,
        count(*) filter (
            where len(list_filter(tool_calls, lambda call: not call.is_silent)) > 0
        ) as calling_round_count,
        count(*) filter (where is_barren) as barren_round_count
    from rounds
    group by trial_id
)

select
    trials.endpoint,
    trials.suite,
    trials.served_model,
    count(*) as trial_count,
    coalesce(sum(per_trial.round_count), 0)::bigint as round_count,
    coalesce(sum(per_trial.calling_round_count), 0)::bigint as calling_round_count,
    coalesce(sum(per_trial.barren_round_count), 0)::bigint as barren_round_count
from trials
left join per_trial on trials.trial_id = per_trial.trial_id
where
    trials.started_at >= $since::timestamptz
    and trials.status = 'completed'
group by trials.endpoint, trials.suite, trials.served_model
order by trials.endpoint, trials.suite, trials.served_model;
