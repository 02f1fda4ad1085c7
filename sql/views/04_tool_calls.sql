-- One row per tool call of a trial's counting attempt. Params: none
create view tool_calls as
with spread as (
    select
        run_id,
        trial_id,
        attempt,
        endpoint,
        suite,
        case_id,
        category,
        round_index,
        is_barren,
        unnest(tool_calls) as call,
        generate_subscripts(tool_calls, 1) as position
    from rounds
)

select
    run_id,
    trial_id,
    attempt,
    endpoint,
    suite,
    case_id,
    category,
    round_index,
    position - 1 as call_index,
    call.tool as tool,
    call.status as status,
    call.is_silent as is_silent,
    call.latency_ms as latency_ms,
    is_barren as is_in_barren_round
from spread;
