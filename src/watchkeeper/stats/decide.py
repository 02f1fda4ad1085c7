"""From trials to a verdict: comparability, gates, screen, fresh trials, decision. No I/O.

Source: docs/statistics.md#the-night
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeVar

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.facts import FactTable, TrialFact, outcome_counts
from watchkeeper.domain.run import Manifest, OutcomeCounts
from watchkeeper.domain.verdict import (
    CriticalFailure,
    Finding,
    GateResult,
    Metric,
    RegressionRoot,
    Verdict,
    VerdictState,
)
from watchkeeper.stats import evidence
from watchkeeper.stats.changes import unverified_identities, what_changed, what_stayed
from watchkeeper.stats.comparison import Compared, Comparison
from watchkeeper.stats.confirmation import Confirmation, Outcome, Suspect
from watchkeeper.stats.gates import GateRerun, judge_gate
from watchkeeper.stats.hypotheses import Hypothesis, build_hypotheses
from watchkeeper.stats.multiplicity import holm
from watchkeeper.stats.roots import Root, group_by_root
from watchkeeper.stats.screen import Screened, screen
from watchkeeper.stats.summaries import overdispersion

PHI_NIGHTS = 28

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Baseline:
    """One of the two disjoint sides of history that a night is held against."""

    manifests: tuple[Manifest, ...]
    facts: FactTable

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs, oldest first."""
        return tuple(manifest.run_id for manifest in self.manifests)


@dataclass(frozen=True, slots=True)
class Night:
    """All that a decision is made from.

    ``screening`` and ``confirming`` are empty where history is too short. ``past_z`` are the z
    values of earlier nights by ``metric/level``, oldest night first. ``allowed_fresh`` bounds the
    fresh trials by money and time. ``unsound`` counts rows of the run's records that a check
    found faulty, by check.
    """

    manifest: Manifest
    facts: tuple[TrialFact, ...]
    screening: Baseline
    confirming: Baseline
    critical: tuple[CriticalFailure, ...]
    past_z: Mapping[str, Sequence[Sequence[float]]]
    constants: DecisionConstants
    allowed_fresh: int | None = None
    unsound: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Decision:
    """A night's decision in the making; ``confirmation`` says which fresh trials it needs.

    Build it, give ``confirmation`` its batches until it wants no more, then ask for ``verdict``.
    """

    night: Night
    counts: OutcomeCounts = field(init=False)
    broken: str | None = field(init=False)
    confirmation: Confirmation = field(init=False)
    roots: list[Root] = field(init=False, default_factory=list)
    _candidate: FactTable = field(init=False)
    _comparison: Comparison | None = field(init=False, default=None)
    _screened: list[Screened] = field(init=False, default_factory=list)
    _gates: list[GateRerun] = field(init=False)
    _phi: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        night, manifest = self.night, self.night.manifest
        self._candidate = FactTable(night.facts)
        self.counts = outcome_counts(night.facts, manifest.planned_count)
        self.broken = broken_reason(self.counts, night.facts, night.constants)
        if night.unsound:
            told = ", ".join(f"{name} {count}" for name, count in sorted(night.unsound.items()))
            self.broken = f"the records of the run are not sound, rows by check: {told}"
        self._phi = {
            key: overdispersion([list(values) for values in nights[-PHI_NIGHTS:]])
            for key, nights in night.past_z.items()
        }
        hard = frozenset(gate.category for gate in manifest.gates if gate.threshold >= 1.0)
        self._gates = [self._gate(gate_index) for gate_index in range(len(manifest.gates))]
        has_history = night.screening.manifests and night.confirming.manifests
        if has_history and self.broken is None:
            self._comparison = Comparison(night.screening.facts, self._candidate)
            self._screened = self._screen(self._comparison, hard)
        suspects = [one for one in self._screened if one.is_suspect]
        self.confirmation = Confirmation(
            suspects=suspects,
            gates=[] if manifest.purpose == "ci" else self._gates,
            baseline=night.confirming.facts,
            phi=self._phi,
            constants=night.constants,
            night_trials={stamp.case_id: stamp.trials for stamp in manifest.cases},
            seed=manifest.seed,
            allowed_trials=night.allowed_fresh,
        )

    def verdict(
        self, decided_at: datetime, fresh_runs: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> Verdict:
        """What is concluded, once every wanted batch was given."""
        night, manifest = self.night, self.night.manifest
        outcomes = self.confirmation.decide()
        confirmed = [suspect for suspect, outcome in outcomes if outcome == "confirmed"]
        findings = self._findings(outcomes)
        gates = tuple(gate.conclude() for gate in self._gates)
        if self._comparison is not None:
            self.roots = group_by_root(confirmed, self._comparison, night.constants)
        added, removed, changed = self._case_changes()
        state, reason = self._state(findings, gates)
        shown = self._shown_cases(gates)
        metric: Metric = self.roots[0].members[0].metric if self.roots else "pass_rate"
        baseline = night.screening.facts
        shifts = evidence.tool_shifts(baseline, self._candidate, shown)
        examples = evidence.exemplars(
            metric, baseline, self._candidate, shown, evidence.EXEMPLAR_COUNT
        ) or evidence.failing_exemplars(baseline, self._candidate, shown, evidence.EXEMPLAR_COUNT)
        return Verdict(
            run_id=manifest.run_id,
            endpoint=manifest.endpoint,
            suite=manifest.suite,
            purpose=manifest.purpose,
            slot_at=manifest.slot_at,
            decided_at=decided_at,
            state=state,
            reason=reason,
            broken=self.broken,
            counts=self.counts,
            gates=gates,
            findings=tuple(findings),
            critical=night.critical,
            changes=self._changes(what_changed),
            unchanged=self._changes(what_stayed),
            screen_runs=night.screening.run_ids,
            confirm_runs=night.confirming.run_ids,
            fresh_runs=tuple(fresh_runs),
            compared_case_count=self._compared_count(),
            added_cases=added,
            removed_cases=removed,
            changed_cases=changed,
            tool_shifts=evidence.moved(shifts),
            exemplars=tuple(examples),
            barren_before=evidence.barren_rate(baseline, shown),
            barren_after=evidence.barren_rate(self._candidate, shown),
            overdispersion=self._phi or None,
            roots=self._regression_roots(gates),
            notes=(*notes, *unverified_identities(manifest, night.facts), *self._phi_notes()),
        )

    def _regression_roots(self, gates: Sequence[GateResult]) -> tuple[RegressionRoot, ...]:
        """Who is told of what: critical failures and gates first, then what fresh trials confirmed.

        The owner is the gate's where all cases are of one category, else the suite's.
        """
        manifest = self.night.manifest
        owners = {gate.category: gate.owner for gate in manifest.gates}
        roots: list[RegressionRoot] = []
        critical = {one.category for one in self.night.critical}
        for gate in gates:
            if gate.acts or gate.category in critical:
                severity: Literal["page", "critical"] = (
                    "critical" if gate.category in critical else "page"
                )
                roots.append(RegressionRoot("gate", gate.category, gate.owner, severity))
        told = {root.name for root in roots}
        for root in self.roots:
            own = root.members[0]
            categories = {stamp.category for stamp in manifest.cases if stamp.case_id in root.cases}
            if own.metric == "pass_rate" and categories <= told:
                continue
            owner = owners.get(next(iter(categories))) if len(categories) == 1 else None
            roots.append(
                RegressionRoot(
                    kind=own.level,
                    name=manifest.suite if own.level == "suite" else own.group,
                    owner=owner or manifest.suite_owner or manifest.endpoint_owner,
                    severity="page",
                    members=tuple(f"{m.metric}/{m.level}/{m.group}" for m in root.members),
                )
            )
        return tuple(roots)

    def _gate(self, index: int) -> GateRerun:
        manifest, constants = self.night.manifest, self.night.constants
        gate = manifest.gates[index]
        stamps = [stamp for stamp in manifest.cases if stamp.category == gate.category]
        result = judge_gate(
            gate,
            [fact for fact in self.night.facts if fact.category == gate.category],
            sum(stamp.trials for stamp in stamps),
            manifest.purpose,
            constants,
            self._phi.get("pass_rate/category", 1.0),
        )
        trials = max((stamp.trials for stamp in stamps), default=1)
        return GateRerun(result, tuple(stamp.case_id for stamp in stamps), trials)

    def _screen(self, comparison: Comparison, hard: frozenset[str]) -> list[Screened]:
        night = self.night
        tools = evidence.tools_of(night.screening.facts)
        shifts = evidence.tool_shifts(night.screening.facts, self._candidate, comparison.case_ids)
        categories: dict[str, list[str]] = {}
        for stamp in night.manifest.cases:
            categories.setdefault(stamp.category, []).append(stamp.case_id)
        hypotheses = build_hypotheses(
            comparison,
            categories,
            hard,
            {one.tool: abs(one.calls_after - one.calls_before) for one in shifts},
            tools,
        )
        hard_cases = frozenset(
            stamp.case_id for stamp in night.manifest.cases if stamp.category in hard
        )
        screened = screen(comparison, hypotheses, self._phi, night.constants, hard_cases)
        return [
            one
            if self._is_group_comparable(one.hypothesis) is None
            else replace(one, is_suspect=False)
            for one in screened
        ]

    def _is_group_comparable(self, hypothesis: Hypothesis) -> str | None:
        """Why a group is not comparable, or ``None``: it is."""
        constants, manifest = self.night.constants, self.night.manifest
        cases = self._group_cases(hypothesis)
        planned = sum(stamp.trials for stamp in manifest.cases if stamp.case_id in cases)
        resolved = sum(fact.is_resolved for case in cases for fact in self._candidate.of(case))
        if planned and resolved / planned < constants.minimum_coverage:
            return "coverage"
        before = self._baseline_cases(hypothesis)
        if manifest.is_partial:
            return None
        if before and len(before & set(hypothesis.cases)) / len(before) < constants.minimum_matched:
            return "unmatched"
        return None

    def _group_cases(self, hypothesis: Hypothesis) -> set[str]:
        manifest = self.night.manifest
        if hypothesis.level == "suite":
            return {stamp.case_id for stamp in manifest.cases}
        if hypothesis.level == "category":
            return {stamp.case_id for stamp in manifest.cases if stamp.category == hypothesis.group}
        return set(hypothesis.cases)

    def _baseline_cases(self, hypothesis: Hypothesis) -> set[str]:
        newest = self.night.screening.manifests[-1]
        if hypothesis.level == "suite":
            return {stamp.case_id for stamp in newest.cases}
        if hypothesis.level == "category":
            return {stamp.case_id for stamp in newest.cases if stamp.category == hypothesis.group}
        return set(hypothesis.cases)

    def _findings(self, outcomes: Sequence[tuple[Suspect, Outcome]]) -> list[Finding]:
        by_hypothesis = {suspect.hypothesis: (suspect, outcome) for suspect, outcome in outcomes}
        better = self._improved()
        findings: list[Finding] = []
        for one in self._screened:
            hypothesis = one.hypothesis
            suspect, outcome = by_hypothesis.get(hypothesis, (None, None))
            why_not = self._is_group_comparable(hypothesis)
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
        worst = Comparison(self.night.screening.facts, self._candidate, unresolved_as=0.0)
        compared = worst.compare(
            hypothesis.metric, hypothesis.cases, self._factor(hypothesis), 0.05
        )
        return compared is not None and compared.is_no_worse(hypothesis.metric, margin)

    def _improved(self) -> set[Hypothesis]:
        """Hypotheses whose mirror image holds against both baselines; nothing is rerun for it."""
        constants = self.night.constants
        if self._comparison is None:
            return set()
        hits = [
            one
            for one in self._screened
            if one.hypothesis.level != "case"
            and one.compared.result.p_better <= one.hypothesis.screen_level(constants, 10)
            and _is_past_floor(one, constants)
        ]
        if not hits:
            return set()
        other = Comparison(self.night.confirming.facts, self._candidate)
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

    def _state(  # noqa: PLR0911 - one line a rule, in order of precedence
        self, findings: Sequence[Finding], gates: Sequence[GateResult]
    ) -> tuple[VerdictState, str]:
        if self.night.critical:
            return "regressed", "critical"
        if any(one.state == "regressed" for one in findings):
            return "regressed", "confirmed"
        if any(gate.acts for gate in gates):
            return "regressed", "gate"
        if self.broken is not None:
            return "inconclusive", "no_verdict"
        if self._comparison is None:
            return "inconclusive", "no_history"
        if not findings:
            return "not_comparable", "no_matched_case"
        if all(one.state == "not_comparable" for one in findings):
            return "not_comparable", findings[0].reason
        if any(one.reason in ("budget", "suspect") for one in findings):
            return "inconclusive", "suspect"
        if any(one.state == "improved" for one in findings):
            return "improved", "both_baselines"
        suite = [one for one in findings if one.level == "suite"]
        if suite and all(one.state == "no_worse" for one in suite):
            return "no_worse", "within_margin"
        return "inconclusive", "within_noise"

    def _changes(self, told: Callable[..., tuple[T, ...]]) -> tuple[T, ...]:
        """What changed, or stayed, since the newest baseline run."""
        both = (*self.night.screening.manifests, *self.night.confirming.manifests)
        if not both:
            return ()
        ordered = sorted(both, key=lambda manifest: (manifest.planned_at, manifest.run_id))
        facts = (*self.night.screening.facts, *self.night.confirming.facts)
        return told(ordered, facts, self.night.manifest, self.night.facts)

    def _case_changes(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Cases that were added, removed, or changed in what is asked or demanded."""
        if not self.night.screening.manifests:
            return (), (), ()
        newest = max(
            (*self.night.screening.manifests, *self.night.confirming.manifests),
            key=lambda manifest: manifest.planned_at,
        )
        before = {stamp.case_id: stamp for stamp in newest.cases}
        after = {stamp.case_id: stamp for stamp in self.night.manifest.cases}
        changed = (
            case_id
            for case_id in sorted(before.keys() & after.keys())
            if (before[case_id].execution_hash, before[case_id].grading_hash)
            != (after[case_id].execution_hash, after[case_id].grading_hash)
        )
        return (
            tuple(sorted(after.keys() - before.keys())),
            () if self.night.manifest.is_partial else tuple(sorted(before.keys() - after.keys())),
            tuple(changed),
        )

    def _compared_count(self) -> int:
        if self._comparison is None:
            return 0
        return len(self._comparison.matched("rounds", self._comparison.case_ids))

    def _shown_cases(self, gates: Sequence[GateResult]) -> tuple[str, ...]:
        """The cases that the evidence is about: the first root's, else the failing ones."""
        if self.roots:
            return self.roots[0].members[0].cases
        acting = [case for gate in gates if gate.acts for case in gate.failing_cases]
        failing = acting or [one.case_id for one in self.night.critical]
        return tuple(dict.fromkeys(failing)) or self._candidate.case_ids

    def _phi_notes(self) -> tuple[str, ...]:
        return tuple(
            f"night effects in {key}: over-dispersion {phi:.1f}, the false-page budget may not hold"
            for key, phi in sorted(self._phi.items())
            if phi > 2
        )


def broken_reason(
    counts: OutcomeCounts, facts: Sequence[TrialFact], constants: DecisionConstants
) -> str | None:
    """Why there can be no verdict at all, or ``None``."""
    coverage = counts.coverage
    if coverage is None:
        return "no case was selected: nothing was planned, so nothing is known"
    if coverage >= constants.minimum_coverage:
        return None
    kinds: dict[str, int] = {}
    for fact in facts:
        if not fact.is_resolved:
            kind = fact.error_kind or fact.outcome
            kinds[kind] = kinds.get(kind, 0) + 1
    if counts.missing:
        kinds["no record"] = counts.missing
    told = ", ".join(
        f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda i: -i[1])
    )
    return (
        f"only {counts.graded} of {counts.planned} planned trials were graded "
        f"({coverage:.0%}, at least {constants.minimum_coverage:.0%} are needed): {told}"
    )


def _is_past_floor(one: Screened, constants: DecisionConstants) -> bool:
    floor, estimate = one.hypothesis.floor(constants), one.compared.result.estimate
    if one.hypothesis.metric == "pass_rate":
        return estimate >= floor
    return estimate <= -math.log1p(floor)
