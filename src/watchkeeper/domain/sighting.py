"""What was seen to be served by an endpoint, one after another, and what changed between two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.identity import content_hash
from watchkeeper.domain.verdict import Change

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What an endpoint was seen to serve from a time on, until the next sighting.

    ``number`` counts the endpoint's sightings from 1. What could not be told when it was seen is
    taken over from the sighting before: not to be told is no change. ``changes`` say what differs
    from the one before, empty for the first.
    """

    endpoint: str
    number: int
    seen_at: datetime
    requested_model: str | None
    resolved_model: str | None
    lifecycle: str | None
    retires_at: datetime | None
    harness_revision: str | None
    changes: tuple[Change, ...] = ()

    @property
    def id(self) -> str:
        """The same for the same sight at the same place in the row, whoever sees it and when."""
        return content_hash([self.endpoint, self.number, *_told(self)])

    @property
    def wants_evaluation(self) -> bool:
        """Whether something changed that can change the agent, or its provider's word on it."""
        return any(change.what != "retirement" for change in self.changes)


def next_sighting(
    endpoint: str, last: Sighting | None, seen: ServedIdentity, at: datetime
) -> Sighting | None:
    """The sighting that follows, or ``None``: nothing is seen that was not seen last.

    Args:
        endpoint: Its name.
        last: What was seen last; ``None`` for the first time.
        seen: What is served now.
        at: Now.
    """
    following = Sighting(
        endpoint=endpoint,
        number=1 if last is None else last.number + 1,
        seen_at=at,
        requested_model=seen.requested_model,
        resolved_model=seen.resolved_model,
        lifecycle=seen.lifecycle,
        retires_at=seen.retires_at,
        harness_revision=seen.harness_revision,
    )
    if last is None:
        return following
    # Whoever tells of the life cycle and names no date has withdrawn it.
    is_dated = seen.lifecycle is not None or seen.retires_at is not None
    following = replace(
        following,
        requested_model=seen.requested_model or last.requested_model,
        resolved_model=seen.resolved_model or last.resolved_model,
        lifecycle=seen.lifecycle or last.lifecycle,
        retires_at=seen.retires_at if is_dated else last.retires_at,
        harness_revision=seen.harness_revision or last.harness_revision,
    )
    if _told(last) == _told(following):
        return None
    return replace(following, changes=changes_between(last, following))


def changes_between(before: Sighting, after: Sighting) -> tuple[Change, ...]:
    """What differs; what was unknown before and is known now is no change."""
    pairs = (
        ("requested model", before.requested_model, after.requested_model),
        ("served model", before.resolved_model, after.resolved_model),
        ("lifecycle", before.lifecycle, after.lifecycle),
        ("harness revision", before.harness_revision, after.harness_revision),
    )
    changes = [Change(what, old, new) for what, old, new in pairs if old and new and old != new]
    if before.retires_at != after.retires_at:
        changes.append(Change("retirement", _day(before.retires_at), _day(after.retires_at)))
    return tuple(changes)


def _told(sighting: Sighting) -> list[str | None]:
    return [
        sighting.requested_model,
        sighting.resolved_model,
        sighting.lifecycle,
        sighting.retires_at.isoformat() if sighting.retires_at else None,
        sighting.harness_revision,
    ]


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d}" if at is not None else UNKNOWN
