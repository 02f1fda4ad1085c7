"""What the flows have in common: their parts, their errors, and the end of a single run."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State

from watchkeeper.domain.redaction import Redactor
from watchkeeper.errors import WatchkeeperError
from watchkeeper.flows.handover import handed, services_of
from watchkeeper.flows.states import error_state, verdict_state
from watchkeeper.flows.summary import run_summary
from watchkeeper.pipeline.compare import compare
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.pipeline.steps.committing import refresh_catalog
from watchkeeper.wiring import Services

RUN_KEY = "watchkeeper-run"
PAGED_PURPOSES = frozenset({"nightly", "version_change"})


class FlowOptions(TypedDict):
    """The options of Prefect's ``flow`` that are used here."""

    retries: int
    persist_result: bool
    log_prints: bool
    result_storage: Any


# A flow is not repeated by Prefect: starting the same slot again is what makes up for a night, and
# the store is the only memory. All is said because a profile may set other defaults. Without a
# place for results, which none of these flows has, Prefect would ask its server for one at every
# start, twice, and block the event loop meanwhile.
FLOW = FlowOptions(
    retries=0,
    persist_result=False,
    log_prints=False,
    result_storage=Path(tempfile.gettempdir(), "watchkeeper-no-results"),
)


async def with_services(
    project: str | None, body: Callable[[Services], Awaitable[State[Any]]]
) -> State[Any]:
    """The final state of a flow run over the parts of a project.

    An error becomes a state whose message holds no secret; whoever started the flow in this
    process gets the error itself.

    Args:
        project: The project folder; by default the one that WATCHKEEPER_PROJECT names.
        body: What the flow does with the parts.
    """
    mine = handed()
    redactor = Redactor({})
    try:
        services = services_of(project) if mine is None else mine.services
        redactor = services.redactor
        return await body(services)
    except Exception as error:  # noqa: BLE001 - it becomes the state
        if mine is not None:
            mine.error = error
        elif not isinstance(error, WatchkeeperError):
            sys.stderr.write(redactor.text(traceback.format_exc()))
        return error_state(error, redactor)


async def conclude(run_id: str, steps: Steps) -> State[Any]:
    """The final state of a flow run about one committed run: compared, told, shown.

    Owners hear of a verdict that is new and whose run was not made on demand.
    """
    services = steps.workshop.services
    is_new = await steps.stored_verdict(run_id) is None
    verdict = await compare(run_id, steps)
    if is_new and verdict.purpose in PAGED_PURPOSES:
        await steps.open_incidents(verdict)
        await steps.deliver()
    await asyncio.to_thread(refresh_catalog, steps.workshop)
    await publish(services, RUN_KEY, partial(run_summary, verdict))
    return verdict_state(verdict)


async def publish(services: Services, key: str, markdown: Callable[[], str]) -> None:
    """Shows something on Prefect's pages; trouble with that is told and changes nothing."""
    try:
        text = await asyncio.to_thread(markdown)
        await acreate_markdown_artifact(markdown=text, key=key)
    except Exception as trouble:  # noqa: BLE001 - what is shown is stored already
        services.tell(f"Prefect: {key} is not shown: {plain(trouble, services)}")


def plain(trouble: Exception, services: Services) -> str:
    """An error of Prefect's on one line, without secrets."""
    text = services.redactor.text(f"{type(trouble).__name__}: {trouble}")
    return " ".join(text.split())[:300]
