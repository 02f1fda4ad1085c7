-- One row per incident as its events leave it. Params: none
create table incident_records (
    incident_id varchar not null,
    dedup_key varchar not null,
    endpoint varchar not null,
    suite varchar not null,
    env varchar not null,
    root_kind varchar not null,
    root varchar not null,
    owner varchar not null,
    severity varchar not null,
    state varchar not null,
    resolution varchar,
    opened_at timestamptz not null,
    resolved_at timestamptz,
    first_run varchar not null,
    last_run varchar not null,
    night_count integer not null,
    page_count integer not null
);
