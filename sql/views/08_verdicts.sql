-- One row per (run, metric, level, group): a finding of the run's verdict. Params: none
create view verdicts as
select * from verdict_records;
