-- One row per trial: the attempt that counts, which is the last one. Params: none
create view trials as
select
    attempts.* exclude (rounds),
    run_records.purpose,
    run_records.slot_at,
    run_records.harness_revision
from attempts
inner join run_records on attempts.run_id = run_records.run_id
qualify
    row_number() over (partition by attempts.trial_id order by attempts.attempt desc) = 1;
