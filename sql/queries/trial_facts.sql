-- One row per trial of some runs: what a comparison needs of it. Params: $run_ids
with counting as (
    select *
    from attempts
    where list_contains($run_ids, run_id)
    qualify row_number() over (partition by trial_id order by attempt desc) = 1
)

select
    counting.run_id,
    counting.trial_id,
    counting.case_id,
    counting.trial_index,
    counting.category,
    counting.cluster_id,
    counting.outcome,
    counting.critical_failure_count,
    counting.stop_reason,
    counting.error_kind,
    counting.execution_hash,
    planned_cases.grading_hash,
    counting.served_model,
    counting.round_count,
    counting.barren_round_count,
    counting.cost_usd,
    flatten(
        list_transform(
            counting.rounds,
            lambda one: list_transform(one.tool_calls, lambda call: call.tool)
        )
    ) as tools,
    flatten(
        list_transform(
            counting.rounds,
            lambda one: list_transform(
                one.tool_calls, lambda call: call.status != 'ok' and not call.is_silent
            )
        )
    ) as fruitless
from counting
left join planned_cases
    on counting.run_id = planned_cases.run_id and counting.case_id = planned_cases.case_id
order by counting.run_id, counting.case_id, counting.trial_index;
