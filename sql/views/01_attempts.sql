-- One row per attempt at a trial, with what it counts as. Params: none
create view attempts as
with graded as (
    select
        trial_id,
        attempt,
        count(*) as grade_count,
        count(*) filter (where outcome in ('error', 'unresolved')) as error_count,
        count(*) filter (where outcome = 'failed') as failed_count,
        count(*) filter (where outcome = 'failed' and severity = 'critical') as critical_count
    from grade_records
    where grading = 'original'
    group by trial_id, attempt
)

select
    trial_attempts.run_id,
    trial_attempts.trial_id,
    trial_attempts.attempt,
    trial_attempts.endpoint,
    trial_attempts.suite,
    trial_attempts.case_id,
    trial_attempts.trial_index,
    trial_attempts.category,
    trial_attempts.cluster_id,
    trial_attempts.dimension,
    trial_attempts.tags,
    trial_attempts.weight,
    trial_attempts.execution_hash,
    trial_attempts.status,
    case
        when trial_attempts.status in ('harness_error', 'skipped') then trial_attempts.status
        when coalesce(graded.grade_count, 0) = 0 or graded.error_count > 0 then 'grader_error'
        when graded.failed_count > 0 then 'failed'
        else 'passed'
    end as outcome,
    coalesce(graded.critical_count, 0) as critical_failure_count,
    trial_attempts.stop_reason,
    trial_attempts.error_kind,
    trial_attempts.error,
    trial_attempts.requested_model,
    trial_attempts.served_model,
    trial_attempts.started_at,
    trial_attempts.ended_at,
    trial_attempts.latency_ms,
    trial_attempts.waited_ms,
    trial_attempts.latency_ms - trial_attempts.waited_ms as work_ms,
    trial_attempts.first_token_ms,
    trial_attempts.round_count,
    trial_attempts.barren_round_count,
    trial_attempts.tool_call_count,
    trial_attempts.retry_count,
    trial_attempts.input_tokens,
    trial_attempts.cache_write_5m_tokens,
    trial_attempts.cache_write_1h_tokens,
    trial_attempts.cache_read_tokens,
    trial_attempts.output_tokens,
    trial_attempts.thinking_tokens,
    trial_attempts.cost_usd,
    trial_attempts.simulator,
    trial_attempts.simulator_round_count,
    trial_attempts.simulator_tokens,
    trial_attempts.simulator_cost_usd,
    trial_attempts.changed_file_count,
    trial_attempts.rounds
from trial_attempts
left join graded
    on
        trial_attempts.trial_id = graded.trial_id
        and trial_attempts.attempt = graded.attempt;
