"""Incidents and messages: opened once, told once, kept until they are delivered."""

from __future__ import annotations

from dataclasses import replace

from watchkeeper.domain.incident import Incident, IncidentEvent, IncidentRoot, fold, incident_id
from watchkeeper.domain.ports import Message, Recipient, Section
from watchkeeper.domain.run import Manifest
from watchkeeper.domain.verdict import RegressionRoot, Verdict
from watchkeeper.errors import NotifierFault
from watchkeeper.notifiers.message import broken_message, page_message, recovery_message
from watchkeeper.pipeline.steps.comparing import open_and_past_incidents
from watchkeeper.store.payloads import (
    event_from_json,
    manifest_from_json,
    message_from_json,
    recipient_from_json,
    to_json,
)
from watchkeeper.wiring import Services

_STILL_SUSPECTED = frozenset(
    {"suspect", "budget", "not_confirmed", "unresolved", "served_changed", "totals_disagree"}
)


def open_incidents(services: Services, verdict: Verdict) -> list[Incident]:
    """The open incidents that this verdict touches, new ones included; messages are queued.

    The same verdict may come again after a crash: every event and message is stored once.
    """
    commit = services.records.commit_of(verdict.run_id)
    if commit is None:
        return []
    manifest = manifest_from_json(commit.manifest)
    roots = [_incident_root(services, manifest, root) for root in _roots(services, verdict)]
    known = open_and_past_incidents(services)
    touched: list[Incident] = []
    for root in roots:
        current = _incident_of_root(known, root, verdict)
        identity = current.id if current is not None else incident_id(root, verdict.run_id)
        kind = "seen" if current is not None and current.first_run != verdict.run_id else "opened"
        event = IncidentEvent(
            incident_id=identity,
            key=f"{identity}/{verdict.run_id}/{kind}",
            kind="opened" if kind == "opened" else "seen",
            at=verdict.decided_at,
            run_id=verdict.run_id,
            root=root if kind == "opened" else None,
        )
        _store(services, event)
        incident = _incident(services, identity)
        touched.append(incident)
        if kind == "opened":
            _queue(services, _page(verdict, incident), manifest)
    keys = {root.dedup_key for root in roots}
    for incident in known:
        is_ours = incident.root.endpoint == verdict.endpoint and (
            incident.root.suite == verdict.suite
        )
        if incident.state == "open" and is_ours and incident.root.dedup_key not in keys:
            _count_quiet_night(services, verdict, incident, manifest)
    return touched


async def deliver(services: Services) -> int:
    """How many messages are still waiting after everything deliverable was sent, in order.

    A message that cannot be delivered stays; trouble of the notifier never changes a verdict.
    """
    waiting = 0
    down: set[str] = set()
    for stored in services.records.unsent_messages():
        message = message_from_json(stored["message"])
        recipient = recipient_from_json(stored["recipient"])
        identity = str(stored["incident_id"])
        if recipient.owner in down:
            waiting += 1
            continue
        events = _events(services, identity) if identity else []
        if events:
            message = replace(message, thread=fold(events)[identity].thread)
        # A kill may have come between this event and the receipt, which ends a message.
        sent = next((one for one in events if one.message_key == message.key), None)
        if sent is None:
            try:
                receipt = await services.notifier.send(message, recipient)
            except NotifierFault as fault:
                waiting += 1
                down.add(recipient.owner)
                services.tell(
                    f"message to {recipient.owner} not delivered, kept for later: "
                    f"{services.redactor.text(str(fault))}"
                )
                continue
            sent = IncidentEvent(
                incident_id=identity,
                key=f"{message.key}/sent",
                kind="sent",
                at=services.clock.now(),
                run_id=str(stored["run_id"]),
                message_key=message.key,
                receipt=receipt,
            )
            if identity:
                _store(services, sent)
        services.records.put_receipt(
            message.key,
            {"key": message.key, "at": sent.at.isoformat(), **to_json(sent.receipt)},
        )
    return waiting


def tell(services: Services, message: Message) -> None:
    """Queues a message that belongs to no incident; the same key is queued once."""
    _put(services, message, _recipient(services, message.owner), "", message.key)


def tell_platform_owner(services: Services, key: str, title: str, lines: tuple[str, ...]) -> None:
    """Queues a message about the evaluation itself, which belongs to no incident."""
    owner = services.project.platform_owner
    message = Message(
        key=key,
        severity="broken",
        owner=owner,
        title=title,
        sections=(Section("Why", tuple(services.redactor.text(line) for line in lines)),),
    )
    tell(services, message)


def resolve_incident(services: Services, incident: Incident, event: IncidentEvent) -> Incident:
    """The incident after somebody's word on it."""
    _store(services, event)
    return _incident(services, incident.id)


def _roots(services: Services, verdict: Verdict) -> list[RegressionRoot]:
    roots = list(verdict.roots)
    is_silent = any(gate.state == "no_verdict" for gate in verdict.gates)
    if verdict.broken is not None or is_silent:
        owner = services.project.platform_owner
        roots.append(RegressionRoot("harness", verdict.endpoint, owner, "broken"))
    return roots


def _incident_root(services: Services, manifest: Manifest, root: RegressionRoot) -> IncidentRoot:
    owner = root.owner if root.owner in services.project.owners else manifest.suite_owner
    return IncidentRoot(
        endpoint=manifest.endpoint,
        suite=manifest.suite,
        env=manifest.env,
        kind=root.kind,
        name=root.name,
        owner=owner,
        severity=root.severity,
    )


def _incident_of_root(
    known: list[Incident], root: IncidentRoot, verdict: Verdict
) -> Incident | None:
    """The incident that this root belongs to: an open one, or one that the run is part of.

    A past night that is started again belongs to the incident that stood open then.
    """
    same = [one for one in known if one.root.dedup_key == root.dedup_key]
    for incident in same:
        is_part = incident.opened_at <= verdict.decided_at and (
            incident.resolved_at is None or verdict.decided_at <= incident.resolved_at
        )
        if is_part or incident.first_run == verdict.run_id:
            return incident
    return next((one for one in same if one.state == "open"), None)


def _could_have_shown(verdict: Verdict, incident: Incident) -> bool:
    """Whether the night had looked where the incident is, and nothing there is still suspected."""
    if verdict.broken is not None or any(gate.state == "no_verdict" for gate in verdict.gates):
        return False
    root = incident.root
    if root.severity == "broken":
        return True
    if root.kind == "gate":
        own = [gate.state for gate in verdict.gates if gate.category == root.name]
        return bool(own) and all(state.startswith("passed") for state in own)
    own_findings = [one for one in verdict.findings if one.group in (root.name, "suite")]
    return any(one.state != "not_comparable" for one in own_findings) and not any(
        one.reason in _STILL_SUSPECTED for one in own_findings
    )


def _count_quiet_night(
    services: Services, verdict: Verdict, incident: Incident, manifest: Manifest
) -> None:
    """A night that could have shown the incident and did not; enough of them end it."""
    if verdict.purpose != "nightly" or not _could_have_shown(verdict, incident):
        return
    if verdict.run_id == incident.first_run:
        return
    quiet = IncidentEvent(
        incident_id=incident.id,
        key=f"{incident.id}/{verdict.run_id}/quiet",
        kind="quiet",
        at=verdict.decided_at,
        run_id=verdict.run_id,
    )
    _store(services, quiet)
    current = _incident(services, incident.id)
    if current.quiet_count < services.project.constants.recovery_nights:
        return
    resolved = IncidentEvent(
        incident_id=incident.id,
        key=f"{incident.id}/{verdict.run_id}/resolved",
        kind="resolved",
        at=verdict.decided_at,
        run_id=verdict.run_id,
        resolution="recovered",
    )
    ended = replace(
        current, state="resolved", resolution="recovered", resolved_at=verdict.decided_at
    )
    try:
        message = recovery_message(verdict, ended)
    except ValueError:
        return  # the night cannot vouch for it in words; it stays open until one can
    _store(services, resolved)
    _queue(services, message, manifest, incident)


def _page(verdict: Verdict, incident: Incident) -> Message:
    if incident.root.severity == "broken":
        return broken_message(verdict, owner=incident.root.owner, incident=incident)
    return page_message(verdict, incident, unchanged=verdict.unchanged)


def _queue(
    services: Services, message: Message, manifest: Manifest, incident: Incident | None = None
) -> None:
    owner = message.owner if message.owner in services.project.owners else manifest.suite_owner
    identity = incident.id if incident is not None else _incident_of(message)
    _put(services, message, _recipient(services, owner), identity, manifest.run_id)


def _incident_of(message: Message) -> str:
    return message.key.split("/", 1)[0]


def _put(
    services: Services, message: Message, recipient: Recipient, identity: str, run_id: str
) -> None:
    stored = {
        "key": message.key,
        "queued_at": services.clock.now().isoformat(),
        "incident_id": identity,
        "run_id": run_id,
        "message": to_json(message),
        "recipient": to_json(recipient),
    }
    cleaned = services.redactor.value(stored)
    assert isinstance(cleaned, dict)  # noqa: S101 - a mapping stays one
    services.records.put_message(message.key, cleaned)


def _recipient(services: Services, owner: str) -> Recipient:
    return services.project.owners.get(owner, Recipient(owner))


def _store(services: Services, event: IncidentEvent) -> None:
    cleaned = services.redactor.value(to_json(event))
    assert isinstance(cleaned, dict)  # noqa: S101 - a mapping stays one
    services.records.put_event(event.incident_id, event.key, cleaned)


def _incident(services: Services, identity: str) -> Incident:
    return fold(_events(services, identity))[identity]


def _events(services: Services, identity: str) -> list[IncidentEvent]:
    return [
        event_from_json(event)
        for event in services.records.events()
        if event["incident_id"] == identity
    ]
