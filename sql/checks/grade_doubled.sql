-- One row per assertion of an attempt that was graded more than once. Params: $run_id
select
    trial_id,
    attempt,
    assertion,
    count(*) as records
from grade_records
where run_id = $run_id and grading = 'original'
group by trial_id, attempt, assertion
having count(*) > 1
order by trial_id, attempt, assertion;
