"""What a run will take and what it can see, before any call."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.suite import Suite
from watchkeeper.stats.power import mde80
from watchkeeper.wiring import Services

RECENT_RUNS = 5
_GUESSED_PASS_RATE = 0.9


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected size of a run; ``None`` where there is no history to tell it from.

    Dollars and seconds are those of the night's own trials; ``worst_*`` adds every rerun that
    the procedure allows. ``smallest_drop`` is the fall of the suite's pass rate, in rate points,
    that the screen sees 8 times in 10.
    """

    case_count: int
    trial_count: int
    worst_trial_count: int
    run_count: int
    cost_usd: float | None
    worst_cost_usd: float | None
    minutes: float | None
    budget_usd: float | None
    pass_rate: float | None
    smallest_drop: float | None
    is_over_budget: bool


def forecast(services: Services, endpoint: Endpoint, suite: Suite) -> Forecast:
    """The forecast from the newest complete runs of the same endpoint and suite."""
    rows = services.history().rows(
        "recent_runs",
        {"endpoint": endpoint.name, "suite": suite.name, "run_count": RECENT_RUNS},
    )
    constants = services.project.constants
    trials = suite.trials * len(suite.cases)
    worst = trials + math.floor(constants.rerun_share * trials) + constants.rerun_extra
    a_trial = [
        row["cost_usd"] / row["attempt_count"]
        for row in rows
        if row["cost_usd"] is not None and row["attempt_count"]
    ]
    cost = statistics.fmean(a_trial) * trials if a_trial else None
    seconds = [row["mean_latency_ms"] / 1000 for row in rows if row["mean_latency_ms"] is not None]
    minutes = None
    if seconds:
        minutes = statistics.fmean(seconds) * trials / endpoint.concurrency / 60
    rates = [row["pass_rate"] for row in rows if row["pass_rate"] is not None]
    rate = statistics.fmean(rates) if rates else None
    bounds = [
        bound
        for bound in (endpoint.run_budget_usd, services.project.night_budget_usd)
        if bound is not None
    ]
    budget = min(bounds) if bounds else None
    return Forecast(
        case_count=len(suite.cases),
        trial_count=trials,
        worst_trial_count=worst,
        run_count=len(rows),
        cost_usd=cost,
        worst_cost_usd=None if cost is None else cost * worst / trials,
        minutes=minutes,
        budget_usd=budget,
        pass_rate=rate,
        smallest_drop=_smallest_drop(suite, rate, constants.suite_screen, constants.history_nights),
        is_over_budget=cost is not None and budget is not None and cost > budget,
    )


def _smallest_drop(
    suite: Suite, rate: float | None, level: float, history_nights: int
) -> float | None:
    """For a suite of equal cases at this pass rate, with a full history on the screening side."""
    if not suite.cases:
        return None
    passed = rate if rate is not None else _GUESSED_PASS_RATE
    before = suite.trials * max(1, history_nights // 2)
    smoothed = (passed * before + 0.5) / (before + 1)
    variance = smoothed * (1 - smoothed) * (1 / suite.trials + 1 / before) / len(suite.cases)
    return mde80(math.sqrt(variance), level)
