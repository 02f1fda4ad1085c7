-- One row: dollars paid for attempts that began in a calendar month (UTC). Params: $month
select sum(cost_usd) as cost_usd
from trial_attempts
where strftime(started_at, '%Y-%m') = $month;
