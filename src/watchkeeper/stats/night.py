"""All that a decision is made from, and whether it can be compared at all.

Source: docs/statistics.md#comparability
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.run import Manifest, OutcomeCounts
from watchkeeper.domain.verdict import CriticalFailure
from watchkeeper.stats.hypotheses import Hypothesis


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


def why_not_comparable(night: Night, candidate: FactTable, hypothesis: Hypothesis) -> str | None:
    """Why a group of cases is not comparable, or ``None``: it is.

    Enough of its trials must be graded and, unless cases were chosen, enough of the baseline's
    cases matched. Source: docs/statistics.md#comparability
    """
    constants, manifest = night.constants, night.manifest
    cases = _cases_of(manifest, hypothesis)
    planned = sum(stamp.trials for stamp in manifest.cases if stamp.case_id in cases)
    resolved = sum(fact.is_resolved for case in cases for fact in candidate.of(case))
    if planned and resolved / planned < constants.minimum_coverage:
        graded = sum(fact.is_resolved for fact in night.facts if fact.case_id in cases)
        is_split = graded / planned >= constants.minimum_coverage
        return "served_split" if is_split else "coverage"
    if manifest.is_partial:
        return None
    before = _cases_of(night.screening.manifests[-1], hypothesis)
    if before and len(before & set(hypothesis.cases)) / len(before) < constants.minimum_matched:
        return "unmatched"
    return None


def _cases_of(manifest: Manifest, hypothesis: Hypothesis) -> set[str]:
    if hypothesis.level == "suite":
        return {stamp.case_id for stamp in manifest.cases}
    if hypothesis.level == "category":
        return {stamp.case_id for stamp in manifest.cases if stamp.category == hypothesis.group}
    return set(hypothesis.cases)


def case_changes(night: Night) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Cases that were added, removed, or changed in what is asked or demanded."""
    if not night.screening.manifests:
        return (), (), ()
    newest = max(
        (*night.screening.manifests, *night.confirming.manifests),
        key=lambda manifest: manifest.planned_at,
    )
    before = {stamp.case_id: stamp for stamp in newest.cases}
    after = {stamp.case_id: stamp for stamp in night.manifest.cases}
    changed = (
        case_id
        for case_id in sorted(before.keys() & after.keys())
        if (before[case_id].execution_hash, before[case_id].grading_hash)
        != (after[case_id].execution_hash, after[case_id].grading_hash)
    )
    return (
        tuple(sorted(after.keys() - before.keys())),
        () if night.manifest.is_partial else tuple(sorted(before.keys() - after.keys())),
        tuple(changed),
    )


_STOPPED_BY = {
    "provider_down": "the provider was down",
    "rate_limited": "the provider's limits left no room",
    "quota_exhausted": "the account's quota or credit is spent",
    "authentication": "the provider refused the key",
    "model_not_found": "the provider does not know the model",
    "redirected": "the address leads to another one",
}


def _stopped_by(facts: Sequence[TrialFact]) -> str:
    """How the reason begins where the run was stopped because nobody answered, else nothing."""
    skipped = {fact.error_kind for fact in facts if fact.outcome == "skipped"}
    why = next((text for kind, text in _STOPPED_BY.items() if kind in skipped), None)
    return "" if why is None else f"the run was stopped because {why}: "


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
        f"{_stopped_by(facts)}only {counts.graded} of {counts.planned} planned trials were graded "
        f"({coverage:.0%}, at least {constants.minimum_coverage:.0%} are needed): {told}"
    )
