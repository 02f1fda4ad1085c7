"""Counts, comparisons, findings and gates, with what most tests want as defaults."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from watchkeeper.domain.run import OutcomeCounts
from watchkeeper.domain.suite import GateAction
from watchkeeper.domain.verdict import (
    Finding,
    GateResult,
    GateState,
    Level,
    Measured,
    Metric,
    Verdict,
    VerdictState,
)

SLOT = datetime(2026, 5, 22, 2, 30, tzinfo=UTC)
RUN_ID = "20260522T023000Z-demo-agent-discovery-3f9c1a20"


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


def verdict(**given: object) -> Verdict:
    """A quiet night of the demo agent; any field can be given."""
    fields: dict[str, object] = {
        "run_id": RUN_ID,
        "endpoint": "demo-agent",
        "suite": "discovery",
        "purpose": "nightly",
        "slot_at": SLOT,
        "decided_at": SLOT + timedelta(minutes=41),
        "state": "no_worse",
        "reason": "",
        "broken": None,
        "counts": counts(36),
        "gates": (gate("read_only", 1.0, counts(36), "passed_not_proven", 0.904, 1.0),),
        "findings": quiet_findings(),
        "screen_runs": tuple(
            f"202605{day:02d}T023000Z-demo-agent-discovery" for day in range(15, 22)
        ),
        "confirm_runs": tuple(
            f"202605{day:02d}T023000Z-demo-agent-discovery" for day in range(1, 15)
        ),
        "compared_case_count": 12,
    }
    return Verdict(**{**fields, **given})  # type: ignore[arg-type]


def quiet_findings() -> tuple[Finding, ...]:
    """Nothing moved, and the pass rate is as perfect as before."""
    return (
        finding(
            "pass_rate",
            "suite",
            "suite",
            "no_worse",
            screened=measured(
                0.0,
                -0.018,
                0.018,
                baseline_mean=1.0,
                candidate_mean=1.0,
                smallest_detectable=0.043,
                p_worse=0.5,
                z=0.0,
            ),
        ),
        finding(
            "rounds",
            "suite",
            "suite",
            "inconclusive",
            "within_noise",
            screened=measured(
                1.02,
                0.93,
                1.12,
                baseline_mean=4.2,
                candidate_mean=4.3,
                smallest_detectable=0.16,
                p_worse=0.3,
                z=0.5,
            ),
        ),
        finding(
            "cost_usd",
            "suite",
            "suite",
            "no_worse",
            screened=measured(
                1.01,
                0.95,
                1.07,
                baseline_mean=0.031,
                candidate_mean=0.0313,
                smallest_detectable=0.09,
            ),
        ),
    )
