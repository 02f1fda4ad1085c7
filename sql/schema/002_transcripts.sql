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
    )[],
    simulator_rounds struct(
        text varchar,
        stop_reason varchar,
        served_model varchar,
        latency_ms double,
        input_tokens bigint,
        cache_write_5m_tokens bigint,
        cache_write_1h_tokens bigint,
        cache_read_tokens bigint,
        output_tokens bigint,
        thinking_tokens bigint
    )[],
    changes struct(
        path varchar, change varchar, sha256 varchar, byte_count bigint, diff varchar
    )[]
);
