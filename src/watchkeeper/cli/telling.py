"""Commands about incidents: list, show, and what a person says of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context
    from watchkeeper.domain.incident import Incident
    from watchkeeper.wiring import Services

Word = Literal["acknowledged", "accepted", "invalid"]
_STATES = {"open": "open", "resolved": "ended"}


def incidents(context: Context, *, everything: bool, as_json: bool) -> None:
    """Lists incidents, the newest first."""
    from watchkeeper.pipeline.steps.comparing import open_and_past_incidents
    from watchkeeper.store.payloads import to_json

    services = context.services(sources="copies")
    found = sorted(open_and_past_incidents(services), key=lambda one: one.opened_at, reverse=True)
    listed = [one for one in found if everything or one.state == "open"]
    if as_json:
        print(json.dumps([to_json(one) for one in listed], ensure_ascii=False, default=sorted))
        return
    if not listed:
        ended = len(found) - len(listed)
        print(f"no open incident; {ended} ended (--all shows them)")
    for one in listed:
        print(_line(one))


def show(context: Context, incident_id: str) -> None:
    """Shows an incident, what happened to it, and the report of the run that opened it.

    Raises:
        UsageError: There is no such incident.
    """
    from watchkeeper.cli.running import print_verdict
    from watchkeeper.notifiers.text import one_line
    from watchkeeper.pipeline.steps.comparing import stored_verdict
    from watchkeeper.store.payloads import event_from_json

    services = context.services(sources="copies")
    incident = _find(services, incident_id)
    print(_line(incident))
    stored = (event_from_json(event) for event in services.records.events())
    events = [event for event in stored if event.incident_id == incident.id]
    for event in sorted(events, key=lambda one: (one.at, one.key)):
        said = ""
        if event.by or event.reason:
            said = f", by {event.by or 'unknown'}: {event.reason or 'no reason given'}"
        where = f", message {event.receipt.message_id}" if event.receipt else ""
        what = event.resolution or event.kind
        print(f"  {event.at:%Y-%m-%d %H:%M} UTC  {what}  run {event.run_id}{where}{one_line(said)}")
    verdict = stored_verdict(services, incident.first_run)
    if verdict is not None:
        print()
        print_verdict(verdict, as_json=False)


def say(context: Context, incident_id: str, word: Word, by: str, reason: str) -> None:
    """Keeps what a person says of an incident.

    Raises:
        UsageError: There is no such incident, it has ended, or no reason was given.
    """
    from watchkeeper.domain.identity import content_hash
    from watchkeeper.domain.incident import IncidentEvent
    from watchkeeper.pipeline.steps.telling import resolve_incident

    services = context.services(sources="copies")
    incident = _find(services, incident_id)
    if incident.state != "open":
        raise UsageError(f"{incident.id} has ended ({incident.resolution}); nothing was changed")
    by = by or context.settings.variables.get("USER") or ""
    if not by:
        raise UsageError("who says so is unknown: give --by NAME")
    if word != "acknowledged" and not reason.strip():
        raise UsageError("--reason is empty; say why, it is kept with the incident")
    at = services.clock.now()
    event = IncidentEvent(
        incident_id=incident.id,
        key=f"{incident.id}/{word}/{content_hash([at.isoformat(), by, reason])}",
        kind="acknowledged" if word == "acknowledged" else "resolved",
        at=at,
        run_id=incident.last_run,
        resolution=None if word == "acknowledged" else word,
        by=by,
        reason=reason or None,
    )
    changed = resolve_incident(services, incident, event)
    print(_line(changed))
    if word == "accepted":
        print("nights from the first of this incident on are the new baseline")


def _find(services: Services, incident_id: str) -> Incident:
    from watchkeeper.parsing.suggest import known_names
    from watchkeeper.pipeline.steps.comparing import open_and_past_incidents

    found = {one.id: one for one in open_and_past_incidents(services)}
    if incident_id not in found:
        raise UsageError(f"there is no incident '{incident_id}'; {known_names(incident_id, found)}")
    return found[incident_id]


def _line(one: Incident) -> str:
    from watchkeeper.notifiers.text import one_line
    from watchkeeper.notifiers.wording import count

    state = one.resolution or _STATES[one.state]
    if one.state == "open" and one.acknowledged_by:
        state = f"open, taken by {one.acknowledged_by}"
    root = one.root
    nights = count(one.night_count, "night")
    return one_line(
        f"{one.id}  {state}  {root.severity}  {root.endpoint} × {root.suite}: {root.kind} "
        f"{root.name}  since {one.opened_at:%Y-%m-%d %H:%M} UTC, {nights}  "
        f"owner {root.owner}"
    )
