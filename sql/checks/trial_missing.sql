-- One row per case of a run with fewer or more trials than were promised. Params: $run_id
with recorded as (
    select
        case_id,
        count(distinct trial_id) as trials
    from trial_attempts
    where run_id = $run_id
    group by case_id
)

select
    planned_cases.case_id,
    planned_cases.trials as planned,
    coalesce(recorded.trials, 0) as recorded
from planned_cases
left join recorded on planned_cases.case_id = recorded.case_id
where
    planned_cases.run_id = $run_id
    and planned_cases.trials != coalesce(recorded.trials, 0)
order by planned_cases.case_id;
