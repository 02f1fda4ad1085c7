-- One row per (attempt at a trial, assertion). Params: none
create view grades as
select
    grade_records.*,
    run_records.endpoint,
    run_records.suite,
    run_records.purpose,
    run_records.slot_at
from grade_records
inner join run_records on grade_records.run_id = run_records.run_id;
