-- One row per (trial, assertion that did not pass) of one run. Params: $run_id
with counting as (
    select
        trial_id,
        max(attempt) as attempt
    from trial_attempts
    where run_id = $run_id
    group by trial_id
)

select
    grade_records.trial_id,
    grade_records.case_id,
    grade_records.category,
    grade_records.assertion,
    grade_records.severity,
    grade_records.outcome,
    grade_records.reason
from grade_records
inner join counting
    on
        grade_records.trial_id = counting.trial_id
        and grade_records.attempt = counting.attempt
where
    grade_records.run_id = $run_id
    and grade_records.outcome != 'passed'
    and grade_records.grading = 'original'
order by grade_records.case_id, grade_records.trial_id, grade_records.assertion;
