-- One row per (committed run, case): how many trials were promised. Params: none
create table planned_cases (
    run_id varchar not null,
    case_id varchar not null,
    category varchar not null,
    cluster_id varchar not null,
    execution_hash varchar not null,
    grading_hash varchar not null,
    trials integer not null,
    source varchar
);
