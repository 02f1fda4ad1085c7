-- One row: how one run ended. Params: $run_id
select
    run_id,
    endpoint,
    suite,
    purpose,
    slot_at,
    planned_count,
    passed,
    failed,
    graded,
    pass_rate,
    mean_rounds,
    served_model,
    cost_usd
from runs
where run_id = $run_id;
