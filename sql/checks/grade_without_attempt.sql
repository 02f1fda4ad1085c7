-- One row per grade of a run that belongs to no recorded attempt. Params: $run_id
select
    grade_records.trial_id,
    grade_records.attempt,
    grade_records.assertion
from grade_records
left join trial_attempts
    on
        grade_records.trial_id = trial_attempts.trial_id
        and grade_records.attempt = trial_attempts.attempt
where
    grade_records.run_id = $run_id
    and trial_attempts.trial_id is null
order by grade_records.trial_id, grade_records.attempt, grade_records.assertion;
