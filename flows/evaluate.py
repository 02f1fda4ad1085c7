"""One endpoint × suite as a flow, whenever somebody asks for it."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext

from watchkeeper.domain.identity import content_hash, run_id_with_token
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.run import RunRequest
from watchkeeper.flows.handover import handed, services_of
from watchkeeper.flows.options import FLOW
from watchkeeper.flows.runs import conclude
from watchkeeper.flows.states import error_state
from watchkeeper.pipeline.evaluate import evaluate as evaluate_run
from watchkeeper.pipeline.nightly import shared_spending
from watchkeeper.pipeline.steps.bundle import plain_steps
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.tasks.bundle import prefect_steps
from watchkeeper.wiring import Services


@flow(name="watchkeeper-evaluate", flow_run_name="{endpoint} × {suite}", **FLOW)
async def evaluate(
    endpoint: str,
    suite: str,
    project: str | None = None,
    purpose: Literal["on_demand", "version_change"] = "on_demand",
) -> State[Any]:
    """Evaluates one endpoint × suite now and compares it with its accepted nights.

    A run that is started again by Prefect (the same flow run) is the same run and pays for its
    missing trials alone.

    Args:
        endpoint: A name of config/endpoints.yaml.
        suite: A name of config/suites/.
        project: The project folder; by default the one that WATCHKEEPER_PROJECT names.
        purpose: Why; the owners hear of a version change, not of a run on demand.
    """
    mine = handed()
    redactor = Redactor({}) if mine is None else mine.services.redactor
    try:
        services = services_of(Path(project) if project else None) if mine is None else mine.services
        redactor = services.redactor
        request = _request(services, endpoint, suite, purpose)
        steps = prefect_steps(plain_steps(Workshop(services)))
        services.records.objects.probe()
        steps.workshop.night = shared_spending(services, [request], is_night=False)
        await evaluate_run(request, steps)
        return await conclude(request.run_id, steps)
    except Exception as error:  # noqa: BLE001 - it becomes the state, without secrets
        if mine is not None:
            mine.error = error
        return error_state(error, redactor)
