"""One endpoint × suite as a flow, whenever somebody asks for it."""

from __future__ import annotations

from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from watchkeeper.domain.identity import content_hash, run_id_with_token
from watchkeeper.domain.run import RunRequest
from watchkeeper.flows.progress import shown_progress
from watchkeeper.flows.runs import FLOW, conclude, with_services
from watchkeeper.pipeline.evaluate import evaluate as evaluate_run
from watchkeeper.pipeline.nightly import shared_spending
from watchkeeper.pipeline.steps.bundle import plain_steps
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.tasks.bundle import prefect_steps
from watchkeeper.wiring import Services

Reason = Literal["on_demand", "version_change"]


@flow(name="watchkeeper-evaluate", flow_run_name="{endpoint} × {suite}", **FLOW)
async def evaluate(
    endpoint: str, suite: str, project: str | None = None, purpose: Reason = "on_demand"
) -> State[Any]:
    """Evaluates one endpoint × suite now and compares it with its accepted nights.

    The same flow run, started again, is the same run and pays for its missing trials alone.

    Args:
        endpoint: A name of config/endpoints.yaml.
        suite: A name of config/suites/.
        project: The project folder; by default the one that WATCHKEEPER_PROJECT names.
        purpose: Why; owners are paged after a version change, not after a run on demand.
    """

    async def body(services: Services) -> State[Any]:
        services.prove_store()
        request = _request(services, endpoint, suite, purpose)
        night = shared_spending(services, [request], is_night=False)
        steps = prefect_steps(plain_steps(Workshop(services, night=night)))
        async with shown_progress(services, endpoint, suite):
            await evaluate_run(request, steps)
        return await conclude(request.run_id, steps)

    return await with_services(project, body)


def _request(services: Services, endpoint: str, suite: str, purpose: Reason) -> RunRequest:
    """The request of this flow run, with an id that stays the same if the flow run comes again."""
    project = services.project
    run_id = run_id_with_token(
        project.endpoint(endpoint).name,
        project.suite(suite).name,
        flow_run.scheduled_start_time or services.clock.now(),
        flow_run.id or services.token(),
    )
    return RunRequest(
        run_id=run_id,
        endpoint=endpoint,
        suite=suite,
        purpose=purpose,
        trigger="Prefect",
        seed=int(content_hash(run_id)[:8], 16),
    )
