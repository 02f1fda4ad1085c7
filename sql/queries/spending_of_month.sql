-- One row: dollars paid for attempts that began in a calendar month (UTC). Params: $month
select sum(coalesce(cost_usd, 0) + coalesce(simulator_cost_usd, 0)) as cost_usd
from trial_attempts
where strftime(started_at, '%Y-%m') = $month;
