-- One row per tool: its calls in trials begun since a time, by what they brought, and the barren rounds that they stand in. Params: $since
with calls as (
    select tool_calls.*
    from tool_calls
    inner join trials on tool_calls.trial_id = trials.trial_id
    where
        trials.started_at >= $since::timestamptz
        and trials.status = 'completed'
)

select
    tool,
    count(*) as call_count,
    count(*) filter (where is_silent) as silent_count,
    count(*) filter (where not is_silent and status = 'empty') as empty_count,
    count(*) filter (where not is_silent and status = 'error') as error_count,
    count(*) filter (where not is_silent and status = 'missing_path') as missing_path_count,
    count(*) filter (where not is_silent and status = 'unanswered') as unanswered_count,
    count(distinct row(trial_id, round_index)) filter (
        where is_in_barren_round and not is_silent
    ) as barren_round_count
from calls
group by tool
order by tool;
