"""Which nights a run is held against, and how they are split into two disjoint sides.

Source: docs/statistics.md#baselines
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.incident import Incident
from watchkeeper.domain.run import Manifest
from watchkeeper.domain.verdict import Verdict


@dataclass(frozen=True, slots=True)
class PastNight:
    """A committed nightly run with its verdict; without a verdict it is never accepted."""

    manifest: Manifest
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Split:
    """Accepted nights, oldest first, each on one side only."""

    screening: tuple[PastNight, ...]
    confirming: tuple[PastNight, ...]

    @property
    def accepted(self) -> tuple[PastNight, ...]:
        """Both sides together, oldest first."""
        both = (*self.screening, *self.confirming)
        return tuple(sorted(both, key=lambda night: _time(night.manifest)))


def accepted_nights(
    candidate: Manifest,
    nights: Iterable[PastNight],
    incidents: Iterable[Incident],
    constants: DecisionConstants,
) -> list[PastNight]:
    """The nights before the candidate that may be a baseline for it, oldest first.

    A night counts when it was nightly, of the same endpoint and suite, has a verdict that is
    neither broken nor a regression, was graded well enough, and stood under no open incident of a
    regression. An accepted incident is the new level: nights before it count no more, and those
    under it do. An incident that was declared invalid changes nothing.
    """
    related = [
        one
        for one in incidents
        if one.root.endpoint == candidate.endpoint
        and one.root.suite == candidate.suite
        and one.root.severity != "broken"
    ]
    new_level_at = max(
        (one.opened_at for one in related if one.resolution == "accepted"), default=None
    )
    accepted: list[PastNight] = []
    for night in sorted(nights, key=lambda one: _time(one.manifest)):
        manifest, verdict = night.manifest, night.verdict
        if (
            manifest.purpose != "nightly"
            or manifest.endpoint != candidate.endpoint
            or manifest.suite != candidate.suite
            or manifest.run_id == candidate.run_id
            or _time(manifest) >= _time(candidate)
            or verdict is None
            or verdict.broken is not None
            or (verdict.counts.coverage or 0.0) < constants.minimum_coverage
        ):
            continue
        if new_level_at is not None and verdict.decided_at < new_level_at:
            continue
        excused = {one.id for one in related if one.resolution in ("accepted", "invalid")}
        blocking = [
            one
            for one in related
            if one.id not in excused
            and verdict.decided_at >= one.opened_at
            and (one.resolved_at is None or verdict.decided_at <= one.resolved_at)
        ]
        if blocking or (verdict.state == "regressed" and not _is_excused(verdict, related)):
            continue
        accepted.append(night)
    return accepted


def split_history(accepted: Sequence[PastNight], constants: DecisionConstants) -> Split:
    """The newest accepted nights in two disjoint sides: 2nd, 4th … screen, 1st, 3rd … confirm.

    A night keeps its side for good, because its place among all accepted nights decides. Both
    sides are empty until enough nights were accepted.
    """
    if len(accepted) < constants.first_verdict_history:
        return Split((), ())
    first = max(0, len(accepted) - constants.history_nights)
    numbered = list(enumerate(accepted, start=1))[first:]
    return Split(
        screening=tuple(night for number, night in numbered if number % 2 == 0),
        confirming=tuple(night for number, night in numbered if number % 2 == 1),
    )


def past_z_values(accepted: Sequence[PastNight]) -> dict[str, list[list[float]]]:
    """The z values of every accepted night's group hypotheses, by ``metric/level``."""
    values: dict[str, list[list[float]]] = {}
    for night in accepted:
        if night.verdict is None:
            continue
        of_night: dict[str, list[float]] = {}
        for finding in night.verdict.findings:
            if finding.screened is not None and finding.level != "case":
                key = f"{finding.metric}/{finding.level}"
                of_night.setdefault(key, []).append(finding.screened.z)
        for key, z_values in of_night.items():
            values.setdefault(key, []).append(z_values)
    return values


def _is_excused(verdict: Verdict, related: Sequence[Incident]) -> bool:
    """Whether a human said of every incident of this regression that it was none, or is wanted."""
    touching = [
        one
        for one in related
        if one.opened_at <= verdict.decided_at
        and (one.resolved_at is None or one.resolved_at >= verdict.decided_at)
    ]
    return bool(touching) and all(one.resolution in ("accepted", "invalid") for one in touching)


def _time(manifest: Manifest) -> str:
    return (manifest.slot_at or manifest.planned_at).isoformat()
