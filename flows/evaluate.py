"""One endpoint × suite as a flow, whenever somebody asks for it."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from watchkeeper.domain.identity import content_hash, run_id_with_token
from watchkeeper.domain.run import RunRequest
from watchkeeper.errors import BrokenEvaluation, UsageError
from watchkeeper.flows.progress import shown_progress
from watchkeeper.flows.runs import FLOW, conclude, with_services
from watchkeeper.pipeline.evaluate import evaluate as evaluate_run
from watchkeeper.pipeline.nightly import shared_spending
from watchkeeper.pipeline.steps.bundle import plain_steps
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.store.sightings import Sightings
from watchkeeper.tasks.bundle import prefect_steps
from watchkeeper.wiring import Services

Reason = Literal["on_demand", "version_change"]


@flow(name="watchkeeper-evaluate", flow_run_name="{endpoint} × {suite}", **FLOW)
async def evaluate(
    endpoint: str,
    suite: str,
    project: str | None = None,
    purpose: Reason = "on_demand",
    sighting: str | None = None,
) -> State[Any]:
    """Evaluates one endpoint × suite now and compares it with its accepted nights.

    The same flow run, started again, is the same run and pays for its missing trials alone.

    Args:
        endpoint: A name of config/endpoints.yaml.
        suite: A name of config/suites/.
        project: The project folder; by default the one that WATCHKEEPER_PROJECT names.
        purpose: Why; owners are paged after a version change, not after a run on demand.
        sighting: The id of the change that was seen; the same change is evaluated once, however
            often this flow is started for it.
    """

    async def body(services: Services) -> State[Any]:
        services.prove_store()
        request = await asyncio.to_thread(_request, services, endpoint, suite, purpose, sighting)
        if sighting is not None and _is_worked_on(services, request.run_id):
            return Completed(name="AlreadyRunning", message=f"{request.run_id} is being made")
        night = shared_spending(services, [request], is_night=False)
        steps = prefect_steps(plain_steps(Workshop(services, night=night)))
        async with shown_progress(services, endpoint, suite):
            await evaluate_run(request, steps)
        return await conclude(request.run_id, steps)

    return await with_services(project, body)


def _request(
    services: Services, endpoint: str, suite: str, purpose: Reason, sighting: str | None
) -> RunRequest:
    """The request of this flow run, with an id that stays the same if it comes again.

    Raises:
        UsageError: There is no such endpoint, suite or sighting.
    """
    project = services.project
    known_endpoint, known_suite = project.endpoint(endpoint), project.suite(suite)
    started_at = flow_run.scheduled_start_time or services.clock.now()
    token = flow_run.id or services.token()
    if sighting is not None:
        seen = Sightings(services.records.objects).find(endpoint, sighting)
        if seen is None:
            raise UsageError(
                f"endpoint '{endpoint}' has no sighting {sighting!r:.80} in this store; the watch "
                "that saw it wrote to another one"
            )
        started_at, token = seen.seen_at, seen.id
    run_id = run_id_with_token(known_endpoint.name, known_suite.name, started_at, token)
    return RunRequest(
        run_id=run_id,
        endpoint=endpoint,
        suite=suite,
        purpose=purpose,
        trigger="Prefect" if sighting is None else "version watch",
        seed=int(content_hash(run_id)[:8], 16),
    )


def _is_worked_on(services: Services, run_id: str) -> bool:
    """Whether another process of this machine works on the run."""
    try:
        with Workshop(services).lock(run_id):
            return False
    except BrokenEvaluation:
        return True
