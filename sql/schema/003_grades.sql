-- One row per (attempt at a trial, assertion). Params: none
create table grade_records (
    run_id varchar not null,
    trial_id varchar not null,
    attempt integer not null,
    case_id varchar not null,
    category varchar not null,
    grader varchar not null,
    grader_version integer not null,
    assertion varchar not null,
    severity varchar not null,
    evidence varchar not null,
    outcome varchar not null,
    reason varchar,
    grading_hash varchar not null,
    grading varchar not null,
    graded_at timestamptz not null
);
