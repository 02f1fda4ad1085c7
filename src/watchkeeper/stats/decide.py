"""From trials to a verdict: comparability, gates, screen, fresh trials, decision. No I/O.

Source: docs/statistics.md#the-night
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from watchkeeper.domain.facts import FactTable, outcome_counts
from watchkeeper.domain.run import OutcomeCounts
from watchkeeper.domain.verdict import (
    Finding,
    GateResult,
    Metric,
    Verdict,
    VerdictState,
)
from watchkeeper.stats import evidence
from watchkeeper.stats.changes import (
    unpriced_trials,
    unverified_identities,
    what_changed,
    what_stayed,
)
from watchkeeper.stats.comparison import Comparison
from watchkeeper.stats.confirmation import Confirmation
from watchkeeper.stats.findings import Conclusions
from watchkeeper.stats.gates import GateRerun, judge_gate
from watchkeeper.stats.hypotheses import build_hypotheses
from watchkeeper.stats.night import (
    Baseline,
    Night,
    broken_reason,
    case_changes,
    why_not_comparable,
)
from watchkeeper.stats.roots import Root, group_by_root, regression_roots
from watchkeeper.stats.screen import Screened, screen
from watchkeeper.stats.served import (
    ServedSplit,
    split_by_served,
    usual_models,
    without_strays,
)
from watchkeeper.stats.summaries import overdispersion

__all__ = ["Baseline", "Decision", "Night", "broken_reason"]

PHI_NIGHTS = 28

T = TypeVar("T")


@dataclass(slots=True)
class Decision:
    """A night's decision in the making; ``confirmation`` says which fresh trials it needs.

    Build it, give ``confirmation`` its batches until it wants no more, then ask for ``verdict``.
    """

    night: Night
    counts: OutcomeCounts = field(init=False)
    broken: str | None = field(init=False)
    served: ServedSplit = field(init=False)
    confirmation: Confirmation = field(init=False)
    roots: list[Root] = field(init=False, default_factory=list)
    _candidate: FactTable = field(init=False)
    _comparison: Comparison | None = field(init=False, default=None)
    _screened: list[Screened] = field(init=False, default_factory=list)
    _gates: list[GateRerun] = field(init=False)
    _phi: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        usual = usual_models((*self.night.screening.facts, *self.night.confirming.facts))
        night = self.night = replace(
            self.night,
            screening=without_strays(self.night.screening, usual),
            confirming=without_strays(self.night.confirming, usual),
        )
        manifest = night.manifest
        self.served = split_by_served(night)
        self._candidate = FactTable(self.served.compared(night.facts))
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
        conclusions = Conclusions(night, self._candidate, self._phi)
        findings = conclusions.findings(self._screened, outcomes)
        gates = tuple(gate.conclude() for gate in self._gates)
        if self._comparison is not None:
            self.roots = group_by_root(
                confirmed, self._comparison, night.constants, self._told_cases(gates)
            )
        added, removed, changed = case_changes(night)
        state, reason = self._state(findings, gates)
        shown = self._shown_cases(gates)
        metric: Metric = self.roots[0].members[0].metric if self.roots else "pass_rate"
        baseline = night.screening.facts
        shifts = evidence.tool_shifts(baseline, self._candidate, shown)
        examples = evidence.exemplars(
            metric, baseline, self._candidate, shown, evidence.EXEMPLAR_COUNT
        ) or evidence.failing_exemplars(
            baseline, FactTable(night.facts), shown, evidence.EXEMPLAR_COUNT
        )
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
            roots=regression_roots(manifest, self.roots, gates, night.critical),
            notes=(
                *notes,
                *unverified_identities(manifest, night.facts),
                *unpriced_trials(night.facts),
                *self._phi_notes(),
            ),
            served=self.served.shares,
        )

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
        if self.broken is not None and result.state.startswith("failed"):
            # A broken evaluation says nothing about the agent, and nothing is rerun for it.
            result = replace(result, state="no_verdict", acts=False)
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
            if why_not_comparable(night, self._candidate, one.hypothesis) is None
            else replace(one, is_suspect=False)
            for one in screened
        ]

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
        for reason in ("served_changed", "unresolved"):
            if any(one.reason == reason for one in findings):
                return "inconclusive", reason
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

    def _told_cases(self, gates: Sequence[GateResult]) -> frozenset[str]:
        """The cases whose wrong answers an acting gate or a critical failure pages."""
        told = {gate.category for gate in gates if gate.acts}
        told |= {one.category for one in self.night.critical}
        stamps = self.night.manifest.cases
        return frozenset(stamp.case_id for stamp in stamps if stamp.category in told)

    def _phi_notes(self) -> tuple[str, ...]:
        return tuple(
            f"night effects in {key}: over-dispersion {phi:.1f}, the false-page budget may not hold"
            for key, phi in sorted(self._phi.items())
            if phi > 2
        )
