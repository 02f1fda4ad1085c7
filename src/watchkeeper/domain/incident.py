"""An open regression with an owner, as a fold over its append-only events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from watchkeeper.domain.identity import content_hash
from watchkeeper.domain.ports import Receipt
from watchkeeper.domain.verdict import RootKind

EventKind = Literal["opened", "seen", "quiet", "acknowledged", "resolved", "sent"]
Resolution = Literal["recovered", "accepted", "invalid"]
IncidentState = Literal["open", "resolved"]


@dataclass(frozen=True, slots=True)
class IncidentRoot:
    """What an incident is about; metric, run, date and size are not part of it."""

    endpoint: str
    suite: str
    env: str
    kind: RootKind
    name: str
    owner: str
    severity: Literal["page", "critical", "broken"]

    @property
    def dedup_key(self) -> str:
        """Equal for two nights of the same trouble."""
        return content_hash([self.endpoint, self.suite, self.env, self.kind, self.name, "worse"])


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """One thing that happened to an incident; never edited.

    ``key`` is the idempotency key: the same event of the same run is stored once. ``message_key``
    and ``receipt`` belong to ``sent``: which message was delivered, and where it is.
    """

    incident_id: str
    key: str
    kind: EventKind
    at: datetime
    run_id: str
    root: IncidentRoot | None = None
    resolution: Resolution | None = None
    by: str | None = None
    reason: str | None = None
    message_key: str | None = None
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident as its events leave it."""

    id: str
    root: IncidentRoot
    state: IncidentState
    opened_at: datetime
    first_run: str
    last_run: str
    night_count: int
    quiet_count: int
    thread: Receipt | None = None
    sent_keys: frozenset[str] = frozenset()
    resolution: Resolution | None = None
    resolved_at: datetime | None = None
    acknowledged_by: str | None = None


def incident_id(root: IncidentRoot, run_id: str) -> str:
    """The id of the incident that ``run_id`` would open for ``root``."""
    return f"inc-{content_hash([root.dedup_key, run_id])[:12]}"


def fold(events: Iterable[IncidentEvent]) -> dict[str, Incident]:
    """The incidents that a history of events leaves, by id; events may come in any order."""
    incidents: dict[str, Incident] = {}
    order = {"opened": 0, "seen": 1, "quiet": 1, "acknowledged": 2, "sent": 2, "resolved": 3}
    for event in sorted(events, key=lambda one: (one.at, order[one.kind], one.key)):
        if event.kind == "opened" and event.root is not None:
            incidents.setdefault(
                event.incident_id,
                Incident(
                    id=event.incident_id,
                    root=event.root,
                    state="open",
                    opened_at=event.at,
                    first_run=event.run_id,
                    last_run=event.run_id,
                    night_count=1,
                    quiet_count=0,
                ),
            )
        elif event.incident_id in incidents:
            incidents[event.incident_id] = _apply(incidents[event.incident_id], event)
    return incidents


def _apply(incident: Incident, event: IncidentEvent) -> Incident:
    if event.kind == "seen":
        return replace(
            incident,
            last_run=event.run_id,
            night_count=incident.night_count + 1,
            quiet_count=0,
        )
    if event.kind == "quiet":
        return replace(incident, quiet_count=incident.quiet_count + 1)
    if event.kind == "acknowledged":
        return replace(incident, acknowledged_by=event.by)
    if event.kind == "resolved":
        return replace(
            incident, state="resolved", resolution=event.resolution, resolved_at=event.at
        )
    if event.kind == "sent" and event.message_key is not None:
        return replace(
            incident,
            sent_keys=incident.sent_keys | {event.message_key},
            thread=incident.thread or event.receipt,
        )
    return incident
