-- One row per (endpoint, suite, served model, tool): how often it is called in a trial that uses it, and how often for nothing. Params: none
with per_trial as (
    select
        trial_id,
        tool,
        count(*) as calls,
        count(*) filter (where status != 'ok' and not is_silent) as fruitless
    from tool_calls
    group by trial_id, tool
)

select
    trials.endpoint,
    trials.suite,
    trials.served_model,
    per_trial.tool,
    count(*) as trials,
    avg(per_trial.calls) as calls_per_trial,
    avg(per_trial.fruitless) as fruitless_per_trial
from per_trial
inner join trials on per_trial.trial_id = trials.trial_id
where trials.purpose = 'nightly'
group by trials.endpoint, trials.suite, trials.served_model, per_trial.tool
order by trials.endpoint, trials.suite, per_trial.tool, trials.served_model;
