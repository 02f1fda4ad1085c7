-- One row: dollars paid for all attempts of some runs. Params: $run_ids
select sum(cost_usd) as cost_usd
from trial_attempts
where list_contains($run_ids, run_id);
