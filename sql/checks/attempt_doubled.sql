-- One row per attempt of a run that is recorded more than once. Params: $run_id
select
    trial_id,
    attempt,
    count(*) as records
from trial_attempts
where run_id = $run_id
group by trial_id, attempt
having count(*) > 1
order by trial_id, attempt;
