"""What became of every hypothesis: regressed, improved, no worse, or not known.

Source: docs/statistics.md#verdicts
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.facts import FactTable
from watchkeeper.domain.verdict import Finding, VerdictState
from watchkeeper.stats.comparison import Compared, Comparison
from watchkeeper.stats.confirmation import Outcome, Suspect
from watchkeeper.stats.hypotheses import Hypothesis
from watchkeeper.stats.multiplicity import holm
from watchkeeper.stats.night import Night, why_not_comparable
from watchkeeper.stats.screen import Screened


class Conclusions:
    """Turns a night's screened hypotheses and the outcomes of its rerun into findings."""

    def __init__(self, night: Night, candidate: FactTable, phi: Mapping[str, float]) -> None:
        self._night = night
        self._candidate = candidate
        self._phi = phi

    def findings(
        self, screened: Sequence[Screened], outcomes: Sequence[tuple[Suspect, Outcome]]
    ) -> list[Finding]:
        """One finding for every hypothesis that was screened."""
        by_hypothesis = {suspect.hypothesis: (suspect, outcome) for suspect, outcome in outcomes}
        better = self._improved(screened)
        findings: list[Finding] = []
        for one in screened:
            hypothesis = one.hypothesis
            suspect, outcome = by_hypothesis.get(hypothesis, (None, None))
            why_not = why_not_comparable(self._night, self._candidate, hypothesis)
            state: VerdictState
            if why_not is not None:
                state, reason = "not_comparable", why_not
            elif outcome == "confirmed":
                state, reason = "regressed", "confirmed"
            elif outcome is not None:
                state, reason = "inconclusive", outcome
            elif hypothesis in better:
                state, reason = "improved", "both_baselines"
            elif self._is_no_worse(one):
                state, reason = "no_worse", "within_margin"
            else:
                state, reason = "inconclusive", "within_noise"
            confirmed = suspect.compared if suspect is not None else None
            findings.append(
                Finding(
                    metric=hypothesis.metric,
                    level=hypothesis.level,
                    group=hypothesis.group,
                    state=state,
                    reason=reason,
                    margin=hypothesis.margin(),
                    screened=one.compared.measured,
                    confirmed=confirmed.measured if confirmed is not None else None,
                )
            )
        return findings

    def _is_no_worse(self, one: Screened) -> bool:
        """No worse also if every trial without a score had failed."""
        hypothesis = one.hypothesis
        margin = hypothesis.margin()
        if not one.compared.is_no_worse(hypothesis.metric, margin):
            return False
        if hypothesis.metric != "pass_rate":
            return True
        cases = set(hypothesis.cases)
        if all(fact.is_resolved for fact in self._candidate if fact.case_id in cases):
            return True
        worst = Comparison(self._night.screening.facts, self._candidate, unresolved_as=0.0)
        compared = worst.compare(
            hypothesis.metric, hypothesis.cases, self._factor(hypothesis), 0.05
        )
        return compared is not None and compared.is_no_worse(hypothesis.metric, margin)

    def _improved(self, screened: Sequence[Screened]) -> set[Hypothesis]:
        """Hypotheses whose mirror image holds against both baselines; nothing is rerun for it."""
        constants = self._night.constants
        hits = [
            one
            for one in screened
            if one.hypothesis.level != "case"
            and one.compared.result.p_better <= one.hypothesis.screen_level(constants, 10)
            and _is_past_floor(one, constants)
        ]
        if not hits:
            return set()
        other = Comparison(self._night.confirming.facts, self._candidate)
        compared: list[Compared | None] = [
            other.compare(
                one.hypothesis.metric, one.hypothesis.cases, self._factor(one.hypothesis), 0.05
            )
            for one in hits
        ]
        p_values = [1.0 if one is None else one.result.p_better for one in compared]
        rejected = holm(p_values, constants.night_alpha).reject
        return {one.hypothesis for one, is_better in zip(hits, rejected, strict=True) if is_better}

    def _factor(self, hypothesis: Hypothesis) -> float:
        return self._phi.get(f"{hypothesis.metric}/{hypothesis.level}", 1.0)


def _is_past_floor(one: Screened, constants: DecisionConstants) -> bool:
    floor, estimate = one.hypothesis.floor(constants), one.compared.result.estimate
    if one.hypothesis.metric == "pass_rate":
        return estimate >= floor
    return estimate <= -math.log1p(floor)
