-- One row per attempt at a trial: what was paid for it, unresolved attempts included. Params: none
create view costs as
select
    attempts.run_id,
    attempts.trial_id,
    attempts.attempt,
    attempts.endpoint,
    attempts.suite,
    attempts.case_id,
    attempts.category,
    run_records.endpoint_owner as owner,
    run_records.purpose,
    attempts.served_model,
    attempts.started_at,
    attempts.outcome,
    attempts.input_tokens,
    attempts.cache_write_5m_tokens,
    attempts.cache_write_1h_tokens,
    attempts.cache_read_tokens,
    attempts.output_tokens,
    attempts.cost_usd,
    attempts.simulator_cost_usd,
    attempts.cost_usd is null as is_unpriced
from attempts
inner join run_records on attempts.run_id = run_records.run_id;
