"""Absolute gates, one a category, never averaged; a failure is examined before it wakes anybody.

Source: docs/statistics.md#gates
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.facts import TrialFact, outcome_counts
from watchkeeper.domain.run import GateStamp, Purpose
from watchkeeper.domain.verdict import GateResult, GateState
from watchkeeper.stats.intervals import effective_count, wilson_interval

HARD_GATE_CASE_TRIALS = 5
HARD_GATE_FRESH_TRIALS = 60


def judge_gate(
    gate: GateStamp,
    facts: Sequence[TrialFact],
    planned: int,
    purpose: Purpose,
    constants: DecisionConstants,
    phi: float = 1.0,
) -> GateResult:
    """A declared category held against its threshold, before any rerun.

    Where too many trials have no score, only a failure that they could not undo is one: the gate
    has no verdict unless the category would be below it had all of them passed.

    Args:
        gate: The gate as it stood.
        facts: The category's trials.
        planned: Trials that were promised for it.
        purpose: A ``ci`` run acts on any rate below the gate, other runs after a rerun.
        constants: The constants of the procedure.
        phi: Over-dispersion of pass rates, at least 1.
    """
    counts = outcome_counts(facts, planned)
    failing = tuple(sorted({fact.case_id for fact in facts if fact.outcome == "failed"}))
    rate, coverage = counts.pass_rate, counts.coverage
    interval = None
    if counts.graded:
        effective = effective_count(counts.graded, phi)
        interval = wilson_interval(counts.passed, counts.graded, effective_n=effective)
    low, high = interval if interval is not None else (None, None)
    result = GateResult(
        category=gate.category,
        threshold=gate.threshold,
        action=gate.action,
        owner=gate.owner,
        state="passed",
        acts=False,
        counts=counts,
        low=low,
        high=high,
        failing_cases=failing,
    )
    may_act = gate.action != "report"
    is_thin = coverage is None or coverage < constants.minimum_coverage
    best = 1 - counts.failed / planned if planned else 1.0
    if rate is None or (is_thin and best >= gate.threshold):
        return replace(result, state="no_verdict")
    if rate < gate.threshold:
        is_clear = gate.threshold < 1.0 and high is not None and high < gate.threshold
        state: GateState = "failed" if is_clear or purpose == "ci" else "failed_marginal"
        return replace(result, state=state, acts=may_act and state == "failed")
    if low is not None and low < gate.threshold:
        return replace(result, state="passed_not_proven")
    return result


@dataclass(slots=True)
class GateRerun:
    """The rerun that examines a gate's marginal failure, batch by batch.

    A hard gate reruns the failing cases first and, where none of them fails again, the whole
    category up to 60 fresh trials. Any other gate reruns its category once.
    """

    result: GateResult
    cases: tuple[str, ...]
    trials: int
    fresh: list[TrialFact] = field(default_factory=list)
    asked_count: int = 0

    @property
    def is_due(self) -> bool:
        """Whether a rerun is called for at all."""
        return self.result.state == "failed_marginal" and self.result.action != "report"

    def next_need(self) -> Mapping[str, int]:
        """Fresh trials wanted by case; empty when nothing more is wanted."""
        if not self.is_due:
            return {}
        if self.result.threshold < 1.0:
            return dict.fromkeys(self.cases, self.trials) if self.asked_count == 0 else {}
        if self.asked_count == 0:
            return dict.fromkeys(self.result.failing_cases, HARD_GATE_CASE_TRIALS)
        if self.asked_count == 1 and not self._failed_again:
            missing = HARD_GATE_FRESH_TRIALS - len(self.fresh)
            each = math.ceil(missing / len(self.cases)) if missing > 0 else 0
            return dict.fromkeys(self.cases, each) if each else {}
        return {}

    def add(self, facts: Sequence[TrialFact]) -> None:
        """Takes the fresh trials of one batch."""
        self.asked_count += 1
        self.fresh.extend(fact for fact in facts if fact.case_id in self.cases)

    def conclude(self) -> GateResult:
        """The gate after its rerun."""
        if not self.is_due:
            return self.result
        graded = [fact for fact in self.fresh if fact.is_resolved]
        passed = sum(fact.outcome == "passed" for fact in graded)
        result = replace(self.result, fresh_graded=len(graded), fresh_passed=passed)
        if not graded:
            return result
        is_below = passed / len(graded) < self.result.threshold
        state: GateState = "failed" if is_below else "failed_unreproduced"
        return replace(result, state=state, acts=state == "failed")

    @property
    def _failed_again(self) -> bool:
        return any(fact.outcome == "failed" for fact in self.fresh)
