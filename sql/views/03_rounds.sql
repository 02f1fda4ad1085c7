-- One row per round of a trial's counting attempt. Params: none
create view rounds as
with counting as (
    select
        run_id,
        trial_id,
        attempt,
        endpoint,
        suite,
        case_id,
        category,
        unnest(rounds) as one
    from attempts
    qualify row_number() over (partition by trial_id order by attempt desc) = 1
)

select
    run_id,
    trial_id,
    attempt,
    endpoint,
    suite,
    case_id,
    category,
    one.round_index as round_index,
    one.stop_reason as stop_reason,
    one.served_model as served_model,
    one.latency_ms as latency_ms,
    one.first_token_ms as first_token_ms,
    one.agent as agent,
    one.is_barren as is_barren,
    one.input_tokens as input_tokens,
    one.cache_write_5m_tokens as cache_write_5m_tokens,
    one.cache_write_1h_tokens as cache_write_1h_tokens,
    one.cache_read_tokens as cache_read_tokens,
    one.output_tokens as output_tokens,
    one.thinking_tokens as thinking_tokens,
    len(one.tool_calls) as tool_call_count,
    one.tool_calls as tool_calls
from counting;
