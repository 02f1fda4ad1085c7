"""Counts, comparisons, findings and gates, with what most tests want as defaults."""

from __future__ import annotations

from watchkeeper.domain.run import OutcomeCounts
from watchkeeper.domain.suite import GateAction
from watchkeeper.domain.verdict import (
    Finding,
    GateResult,
    GateState,
    Level,
    Measured,
    Metric,
    VerdictState,
)


def counts(passed: int, failed: int = 0, **lost: int) -> OutcomeCounts:
    """Counts whose planned trials are those with an outcome plus ``missing``."""
    missing = lost.pop("missing", 0)
    planned = passed + failed + missing + sum(lost.values())
    return OutcomeCounts(planned=planned, passed=passed, failed=failed, **lost)


def measured(estimate: float, low: float, high: float, **given: float | None) -> Measured:
    """A comparison of 12 cases: 36 trials against 504 unless said otherwise."""
    values: dict[str, float | None] = {
        "z": 9.8,
        "p_worse": 1e-7,
        "p_better": 1.0,
        "case_count": 12,
        "baseline_trial_count": 504,
        "candidate_trial_count": 36,
        "baseline_mean": None,
        "candidate_mean": None,
        "smallest_detectable": None,
        **given,
    }
    return Measured(estimate=estimate, low=low, high=high, **values)  # type: ignore[arg-type]


def finding(
    metric: Metric,
    level: Level,
    group: str,
    state: VerdictState,
    reason: str = "",
    *,
    screened: Measured | None = None,
    confirmed: Measured | None = None,
) -> Finding:
    """A finding with the default margin of its metric and level."""
    margin = (0.02 if level == "suite" else 0.05) if metric == "pass_rate" else 0.10
    return Finding(metric, level, group, state, reason, margin, screened, confirmed)


def gate(
    category: str,
    threshold: float,
    tally: OutcomeCounts,
    state: GateState,
    low: float | None,
    high: float | None,
    *,
    acts: bool = False,
    failing: tuple[str, ...] = (),
    fresh: tuple[int, int] = (0, 0),
    action: GateAction = "page",
    owner: str = "tools-team",
) -> GateResult:
    """A gate; ``fresh`` is (passed, graded) of its rerun."""
    return GateResult(
        category=category,
        threshold=threshold,
        action=action,
        owner=owner,
        state=state,
        acts=acts,
        counts=tally,
        low=low,
        high=high,
        failing_cases=failing,
        fresh_passed=fresh[0],
        fresh_graded=fresh[1],
    )
