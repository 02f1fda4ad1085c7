-- One row per attempt at a trial: what was said and what tools answered. Params: none
create table transcripts (
    run_id varchar not null,
    trial_id varchar not null,
    attempt integer not null,
    case_id varchar not null,
    answer varchar,
    action varchar,
    state varchar,
    rounds struct(
        round_index integer,
        text varchar,
        request_id varchar,
        tool_calls struct(tool varchar, call_id varchar, arguments varchar, result varchar)[]
    )[]
);
