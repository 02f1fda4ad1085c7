-- One row per (endpoint, suite, whether anything was repeated): how its trials ended. Params: none
select
    endpoint,
    suite,
    retry_count > 0 or attempt > 1 as was_retried,
    count(*) as trial_count,
    count(*) filter (where outcome in ('passed', 'failed')) as graded_count,
    count(*) filter (where outcome = 'passed') as passed_count,
    count(*) filter (where outcome = 'passed')
    / nullif(count(*) filter (where outcome in ('passed', 'failed')), 0) as pass_rate,
    avg(round_count) filter (where outcome in ('passed', 'failed')) as mean_rounds,
    avg(waited_ms) as mean_waited_ms,
    sum(retry_count) as repeated_request_count
from trials
group by endpoint, suite, was_retried
order by endpoint, suite, was_retried;
