"""Fresh trials for suspects alone, in batches, and what they confirm against the other baseline.

Source: docs/statistics.md#decision
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.stats.comparison import Compared, Comparison
from watchkeeper.stats.exact import rank_permutation_greater
from watchkeeper.stats.gates import GateRerun
from watchkeeper.stats.hypotheses import Hypothesis
from watchkeeper.stats.multiplicity import holm
from watchkeeper.stats.screen import Screened
from watchkeeper.stats.summaries import scaled_phi

SUITE_RERUN_SHARE = 0.15
SMALLEST_SUITE_RERUN = 60
SMALLEST_CASE_RISE_ROUNDS = 1.0
_ORDER = {"case": 0, "tool": 1, "category": 1, "suite": 2}

Outcome = Literal[
    "confirmed",
    "not_confirmed",
    "suspect",
    "budget",
    "unresolved",
    "served_changed",
    "totals_disagree",
]


@dataclass(slots=True)
class Suspect:
    """A suspect with its fresh trials so far."""

    screened: Screened
    cases: tuple[str, ...]
    trials_a_batch: int
    batch_limit: int
    batches: int = 0
    is_active: bool = True
    is_over_budget: bool = False
    fresh: list[TrialFact] = field(default_factory=list)
    compared: Compared | None = None
    p: float = 1.0
    reaches_floor: bool = False

    @property
    def hypothesis(self) -> Hypothesis:
        """What is suspected."""
        return self.screened.hypothesis


class Confirmation:
    """Plans the batches of a night's rerun and decides on all of them at once.

    Args:
        suspects: The screen's suspects.
        gates: The reruns that gates ask for; they come first and are not capped.
        baseline: The confirmation baseline, disjoint from the one that screened.
        phi: Over-dispersion by ``metric/level``.
        constants: The constants of the procedure.
        night_trials: Trials of the night by case.
        seed: Draws the cases of a suite's rerun.
        allowed_trials: Fresh trials that money and time allow; ``None`` means that only the
            procedure's own cap holds.
    """

    def __init__(
        self,
        suspects: Sequence[Screened],
        gates: Sequence[GateRerun],
        baseline: FactTable,
        phi: Mapping[str, float],
        constants: DecisionConstants,
        night_trials: Mapping[str, int],
        seed: int,
        allowed_trials: int | None = None,
    ) -> None:
        self._gates = [gate for gate in gates if gate.is_due]
        self._baseline = baseline
        self._phi = phi
        self._constants = constants
        self._night_trials = night_trials
        self._planned = sum(night_trials.values())
        self._cap = constants.rerun_share * self._planned + constants.rerun_extra
        self._allowed = allowed_trials
        self.used_trials = 0
        self.is_abandoned = False
        rng = random.Random(seed)
        ordered = sorted(
            suspects, key=lambda one: (_ORDER[one.hypothesis.level], one.p, one.hypothesis.group)
        )
        self.suspects = [self._suspect(one, rng) for one in ordered]

    def next_batch(self) -> dict[str, int]:
        """Fresh trials wanted by case; empty when the night can be decided."""
        need: dict[str, int] = {}
        if self.is_abandoned:
            return need
        for gate in self._gates:
            _merge(need, gate.next_need())
        for suspect in self.suspects:
            if not suspect.is_active or suspect.batches >= suspect.batch_limit:
                continue
            wanted = dict.fromkeys(suspect.cases, suspect.trials_a_batch)
            extra = sum(max(0, count - need.get(case, 0)) for case, count in wanted.items())
            if self._is_beyond(sum(need.values()) + extra, suspect.hypothesis):
                suspect.is_active = False
                suspect.is_over_budget = suspect.batches == 0
                continue
            _merge(need, wanted)
        return {case: count for case, count in need.items() if count > 0}

    def add(self, facts: Sequence[TrialFact]) -> None:
        """Takes the fresh trials of the batch that was asked for last."""
        self.used_trials += len(facts)
        table = FactTable(facts)
        for gate in self._gates:
            if gate.next_need():
                gate.add(facts)
        for suspect in self.suspects:
            if not suspect.is_active or suspect.batches >= suspect.batch_limit:
                continue
            for case in suspect.cases:
                suspect.fresh.extend(
                    sorted(table.of(case), key=lambda fact: fact.trial_index)[
                        : suspect.trials_a_batch
                    ]
                )
            suspect.batches += 1
            if any(fact.outcome == "skipped" for fact in suspect.fresh):
                # Money or time ran out: too few trials are no evidence for either side.
                suspect.is_active, suspect.is_over_budget = False, True
                continue
            self._examine(suspect)

    def abandon(self) -> None:
        """Drops every suspect: the fresh trials were served by something else than the night."""
        self.is_abandoned = True
        for suspect in self.suspects:
            suspect.is_active = False

    def decide(self) -> list[tuple[Suspect, Outcome]]:
        """What became of every suspect: Holm over all that were examined, and their floors."""
        if self.is_abandoned:
            return [(one, "served_changed") for one in self.suspects]
        examined = [one for one in self.suspects if one.batches > 0 and not one.is_over_budget]
        p_values = [one.p if one.reaches_floor else 1.0 for one in examined]
        rejected = (
            holm(p_values, self._constants.night_alpha).reject if examined else np.array([], bool)
        )
        outcomes: list[tuple[Suspect, Outcome]] = [
            (one, "budget" if one.is_over_budget else "suspect")
            for one in self.suspects
            if one.batches == 0 or one.is_over_budget
        ]
        for suspect, is_rejected in zip(examined, rejected, strict=True):
            if not is_rejected:
                outcomes.append((suspect, self._why_not_confirmed(suspect)))
            elif _totals_disagree(suspect):
                outcomes.append((suspect, "totals_disagree"))
            elif self._depends_on_unresolved(suspect):
                outcomes.append((suspect, "unresolved"))
            else:
                outcomes.append((suspect, "confirmed"))
        return outcomes

    def _suspect(self, screened: Screened, rng: random.Random) -> Suspect:
        hypothesis, constants = screened.hypothesis, self._constants
        if hypothesis.level == "case":
            return Suspect(screened, hypothesis.cases, constants.case_rerun_trials, 1)
        if hypothesis.level == "suite":
            wanted = max(SMALLEST_SUITE_RERUN, math.ceil(SUITE_RERUN_SHARE * self._planned))
            count = min(len(hypothesis.cases), wanted)
            chosen = tuple(sorted(rng.sample(hypothesis.cases, count)))
            return Suspect(screened, chosen, 1, constants.batch_count)
        return Suspect(
            screened, hypothesis.cases, constants.group_rerun_trials, constants.batch_count
        )

    def _is_beyond(self, batch_trials: int, hypothesis: Hypothesis) -> bool:
        total = self.used_trials + batch_trials
        if self._allowed is not None and total > self._allowed:
            return True
        return hypothesis.level != "suite" and total > self._cap

    def _examine(self, suspect: Suspect) -> None:
        """Compares the fresh trials so far; drops a suspect that has become hopeless."""
        suspect.compared, suspect.p, suspect.reaches_floor = self._confirm(suspect, None)
        if not suspect.reaches_floor or suspect.p > self._constants.futility_p:
            suspect.is_active = False

    def _confirm(
        self, suspect: Suspect, unresolved_as: float | None
    ) -> tuple[Compared | None, float, bool]:
        hypothesis = suspect.hypothesis
        comparison = Comparison(self._baseline, FactTable(suspect.fresh), unresolved_as)
        phi = 1.0
        if hypothesis.level != "case":
            base = self._phi.get(f"{hypothesis.metric}/{hypothesis.level}", 1.0)
            night = (
                self._planned
                if hypothesis.level == "suite"
                else sum(self._night_trials.get(case, 0) for case in hypothesis.cases)
            )
            phi = scaled_phi(base, len(suspect.fresh), max(night, 1))
        compared = comparison.compare(
            hypothesis.metric, suspect.cases, phi, self._constants.night_alpha
        )
        if compared is None:
            return None, 1.0, False
        floor = hypothesis.floor(self._constants)
        estimate = compared.result.estimate
        if hypothesis.metric == "pass_rate":
            return compared, compared.result.p_worse, -estimate >= floor - 1e-12
        if hypothesis.level == "case":
            p, reaches = _case_rounds(comparison, hypothesis, floor)
            return compared, p, reaches
        return compared, compared.result.p_worse, estimate >= math.log1p(floor)

    def _why_not_confirmed(self, suspect: Suspect) -> Outcome:
        """Fresh trials without a score say nothing against a suspect."""
        resolved = sum(fact.is_resolved for fact in suspect.fresh)
        wanted = suspect.batches * suspect.trials_a_batch * len(suspect.cases)
        is_enough = resolved >= self._constants.minimum_coverage * wanted
        return "not_confirmed" if is_enough else "unresolved"

    def _depends_on_unresolved(self, suspect: Suspect) -> bool:
        """Whether the confirmation would fall if every unresolved fresh trial had passed."""
        if suspect.hypothesis.metric != "pass_rate":
            return False
        if all(fact.is_resolved for fact in suspect.fresh):
            return False
        _, p, reaches = self._confirm(suspect, 1.0)
        return not reaches or p > self._constants.night_alpha


def _totals_disagree(suspect: Suspect) -> bool:
    """Whether the invoice fell while the typical case rose: then neither speaks for the other."""
    if suspect.compared is None or suspect.hypothesis.metric == "pass_rate":
        return False
    ratio = suspect.compared.measured.total_ratio
    return ratio is not None and ratio < 1.0


def _case_rounds(
    comparison: Comparison, hypothesis: Hypothesis, floor: float
) -> tuple[float, bool]:
    """P of the exact permutation, and whether the median rose by share and by whole rounds."""
    before_sample, after_sample = comparison.samples("rounds", hypothesis.cases)
    before = before_sample.values[~np.isnan(before_sample.values)]
    after = after_sample.values[~np.isnan(after_sample.values)]
    if len(after) < 2 or len(before) < 3:
        return 1.0, False
    rise = float(np.median(after) - np.median(before))
    reaches = rise >= SMALLEST_CASE_RISE_ROUNDS and rise >= floor * float(np.median(before))
    return rank_permutation_greater(list(after), list(before)), reaches


def _merge(need: dict[str, int], more: Mapping[str, int]) -> None:
    for case, count in more.items():
        need[case] = max(need.get(case, 0), count)
