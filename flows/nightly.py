"""The main job as a flow, and the same for the command line: every endpoint × suite of a slot."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run
from prefect.states import Cancelled

from watchkeeper.flows.handover import Handover, handed, handing, services_of
from watchkeeper.flows.pair import PairFlows
from watchkeeper.flows.runs import FLOW, plain, publish, with_services
from watchkeeper.flows.server import prefect_server
from watchkeeper.flows.slots import choose_slot, latest_slot
from watchkeeper.flows.states import night_state
from watchkeeper.flows.summary import night_summary
from watchkeeper.flows.termination import raising_sigterm
from watchkeeper.pipeline import nightly as pipeline
from watchkeeper.pipeline.steps.bundle import plain_steps
from watchkeeper.pipeline.steps.comparing import open_and_past_incidents
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.tasks.bundle import prefect_steps
from watchkeeper.wiring import Services

NIGHT_KEY = "watchkeeper-night"


def _run_name() -> str:
    """``night of 2026-05-22 00:30 UTC``, by the slot that was asked for or scheduled."""
    given = (flow_run.parameters or {}).get("slot")
    at = scheduled_at()
    if given is None and at is None:
        return "night of the latest slot"
    return f"night of {given}" if at is None or given else f"night of {at:%Y-%m-%d %H:%M} UTC"


@flow(name="watchkeeper-nightly", flow_run_name=_run_name, **FLOW)
async def nightly(project: str | None = None, slot: str | None = None) -> State[Any]:
    """Evaluates every endpoint × suite of a night, compares it, and tells whoever must know.

    Args:
        project: The project folder; by default the one that WATCHKEEPER_PROJECT names.
        slot: The slot as ISO 8601 with its zone; by default the time that this run was scheduled
            for, and for a run that was not scheduled the latest time of the project's schedule.
    """

    async def body(services: Services) -> State[Any]:
        mine = handed()
        planned_at = scheduled_at()
        slot_at, newest = await asyncio.to_thread(_slots, services, slot, planned_at)
        if slot is None and slot_at < newest:
            return _superseded(slot_at, newest)
        result = await pipeline.nightly(
            slot_at,
            prefect_steps(plain_steps(Workshop(services))),
            PairFlows(),
            trigger=mine.trigger if mine is not None else _trigger(planned_at),
        )
        if mine is not None:
            mine.result = result
        await publish(services, NIGHT_KEY, partial(_summary, services, result))
        return night_state(result, services.redactor)

    return await with_services(project, body)


def run_nightly(
    project_root: Path | None,
    slot: str | None = None,
    *,
    services: Services | None = None,
    trigger: str = "command line",
) -> pipeline.NightResult:
    """The whole night through Prefect, and what became of it.

    Prefect shows the night and does not decide it: where its server cannot be started, or is lost
    before the night was done, the night goes on without it and leaves the same records.

    Args:
        project_root: The project folder; by default the one that the environment names.
        slot: The slot as ISO 8601 with its zone; by default the latest of the schedule.
        services: The parts to work with, in place of the project's own.
        trigger: Who or what started the night.

    Raises:
        UsageError: Bad configuration or a bad slot, found before Prefect is started.
        WatchkeeperError: What ended the night as a whole.
        SystemExit: The process was told to end (SIGTERM); the code is 143, no verdict's.
    """
    parts = services if services is not None else services_of(project_root)
    slot_at = choose_slot(parts.project, parts.clock.now(), slot)
    handover = Handover(parts, trigger)
    try:
        with raising_sigterm(), prefect_server(), handing(handover):
            asyncio.run(_in_prefect(parts.project.root, slot_at))
    except TerminationSignal as ended:
        # As an error it would end with 1, which says: regressed.
        parts.tell("stopped; finished trials are kept")
        raise SystemExit(128 + ended.signal) from None
    except Exception as trouble:  # noqa: BLE001 - Prefect never costs a night
        parts.tell(f"Prefect: {plain(trouble, parts)}")
    if handover.result is not None:
        return handover.result
    if handover.error is not None:
        raise handover.error
    parts.tell("the night goes on without Prefect; its records are the same")
    steps = plain_steps(Workshop(parts))
    return asyncio.run(pipeline.nightly(slot_at, steps, trigger=trigger))


async def _in_prefect(root: Path, slot_at: datetime) -> None:
    await nightly(project=str(root), slot=slot_at.isoformat(), return_state=True)


def _summary(services: Services, result: pipeline.NightResult) -> str:
    return night_summary(result, open_and_past_incidents(services), services.redactor)


def scheduled_at() -> datetime | None:
    """When the scheduler meant this run to start; ``None`` where somebody started it."""
    context = FlowRunContext.get()
    run = context.flow_run if context is not None else None
    if run is None or not run.auto_scheduled or run.expected_start_time is None:
        return None
    return datetime.fromtimestamp(run.expected_start_time.timestamp(), UTC)


def _slots(
    services: Services, given: str | None, planned_at: datetime | None
) -> tuple[datetime, datetime]:
    """The slot of this run, and the latest one of the project's schedule."""
    project, now = services.project, services.clock.now()
    slot_at = choose_slot(project, now, given, planned_at)
    return slot_at, latest_slot(project.nightly_cron, project.timezone, now)


def _superseded(slot_at: datetime, newest: datetime) -> State[Any]:
    """A night that begins after the next one was due would date today's answers wrongly."""
    return Cancelled(
        name="Superseded",
        message=f"the night of {slot_at:%Y-%m-%d %H:%M} UTC begins after that of "
        f"{newest:%Y-%m-%d %H:%M} UTC was due; nothing was run. To run it nevertheless, start it "
        "with its slot as a parameter",
    )


def _trigger(planned_at: datetime | None) -> str:
    return "Prefect schedule" if planned_at is not None else "Prefect"
