"""The version watch as a flow: what every endpoint serves now, and an event for what changed."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.events import DeploymentEventTrigger
from prefect.events.clients import get_events_client
from prefect.events.schemas.events import Event, Resource
from prefect.states import Cancelled

from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.sighting import Sighting
from watchkeeper.flows.events import RECONNECTIONS
from watchkeeper.flows.nightly import scheduled_at
from watchkeeper.flows.runs import FLOW, with_services
from watchkeeper.flows.slots import latest_slot
from watchkeeper.flows.states import watch_state
from watchkeeper.pipeline.watch import watch
from watchkeeper.wiring import Services

EVENT = "model.version.changed"
RESOURCE_PREFIX = "watchkeeper.endpoint."
PROJECT_LABEL = "watchkeeper.project"
EMIT_TIMEOUT_S = 30.0
# Another id space than that of anybody else who derives ids from names.
_EVENT_IDS = uuid.UUID("3a0f2c1e-7f0e-5d57-9c38-6f1d0f4b8c11")


@flow(name="watchkeeper-watch", flow_run_name="version watch", **FLOW)
async def watch_versions(project: str | None = None) -> State[Any]:
    """Asks every endpoint what it serves and emits an event for each suite of one that changed.

    Args:
        project: The project folder; by default the one that WATCHKEEPER_PROJECT names.
    """

    async def body(services: Services) -> State[Any]:
        newest = await asyncio.to_thread(_newest_slot, services)
        scheduled = scheduled_at()
        if scheduled is not None and newest is not None and scheduled < newest:
            return Cancelled(
                name="Superseded", message="a later watch is due already; nothing was asked"
            )

        async def announce(endpoint: Endpoint, sighting: Sighting) -> None:
            await emit(change_events(services.project.root, endpoint, sighting))

        return watch_state(await watch(services, announce), services.redactor)

    return await with_services(project, body)


def change_events(root: Path, endpoint: Endpoint, sighting: Sighting) -> list[Event]:
    """One event for every suite of an endpoint that changed; the same sighting, the same ids.

    Args:
        root: The project folder, which tells projects on one server apart.
        endpoint: The endpoint.
        sighting: What was seen of it.
    """
    resource = Resource(
        {
            "prefect.resource.id": f"{RESOURCE_PREFIX}{endpoint.name}",
            "prefect.resource.name": endpoint.name,
            PROJECT_LABEL: str(root),
        }
    )
    changes = [asdict(change) for change in sighting.changes]
    return [
        Event(
            event=EVENT,
            id=uuid.uuid5(_EVENT_IDS, f"{root}/{sighting.id}/{suite}"),
            resource=resource,
            payload={
                "endpoint": endpoint.name,
                "suite": suite,
                "sighting": sighting.id,
                "seen_at": sighting.seen_at.isoformat(),
                "requested_model": sighting.requested_model,
                "resolved_model": sighting.resolved_model,
                "changes": changes,
            },
        )
        for suite in endpoint.suites
    ]


def version_trigger(root: Path) -> DeploymentEventTrigger:
    """Starts ``evaluate`` for a changed endpoint and suite of this project."""
    return DeploymentEventTrigger(
        name=f"watchkeeper: a model version changed in {root.name}",
        expect={EVENT},
        match={"prefect.resource.id": f"{RESOURCE_PREFIX}*", PROJECT_LABEL: str(root)},
        parameters={
            "project": str(root),
            "purpose": "version_change",
            "endpoint": _from_payload("endpoint"),
            "suite": _from_payload("suite"),
            "sighting": _from_payload("sighting"),
        },
    )


async def emit(events: list[Event]) -> None:
    """Hands events to Prefect's server, which has them when this returns.

    Raises:
        Exception: Whatever kept them from it.
    """
    client = get_events_client(reconnection_attempts=RECONNECTIONS, checkpoint_every=1)
    async with asyncio.timeout(EMIT_TIMEOUT_S), client:
        for event in events:
            await client.emit(event)


def _from_payload(name: str) -> dict[str, Any]:
    """A parameter from the event; through JSON, because a bare template makes ``"007"`` a 7."""
    return {
        "__prefect_kind": "json",
        "value": {
            "__prefect_kind": "jinja",
            "template": f"{{{{ event.payload.{name} | tojson }}}}",
        },
    }


def _newest_slot(services: Services) -> datetime | None:
    project = services.project
    if project.watch_cron is None:
        return None
    return latest_slot(project.watch_cron, project.timezone, services.clock.now(), "watch")
