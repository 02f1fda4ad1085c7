-- One row: known dollars (simulated users included) and the agent's tokens of some runs. Params: $run_ids
select
    sum(coalesce(cost_usd, 0) + coalesce(simulator_cost_usd, 0)) as cost_usd,
    sum(
        input_tokens
        + output_tokens
        + coalesce(cache_write_5m_tokens, 0)
        + coalesce(cache_write_1h_tokens, 0)
        + coalesce(cache_read_tokens, 0)
    ) as token_count
from trial_attempts
where list_contains($run_ids, run_id);
