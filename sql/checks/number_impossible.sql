-- One row per attempt of a run whose numbers cannot be: negative, or ended before it began. Params: $run_id
select
    trial_id,
    attempt,
    cost_usd,
    latency_ms,
    waited_ms,
    round_count,
    barren_round_count
from trial_attempts
where
    run_id = $run_id
    and (
        cost_usd < 0
        or latency_ms < 0
        or waited_ms < 0
        or ended_at < started_at
        or barren_round_count > round_count
        or round_count != len(rounds)
    )
order by trial_id, attempt;
