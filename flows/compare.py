"""The comparison of a committed run as a flow: for a run whose night ended before its verdict."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from watchkeeper.flows.runs import FLOW, conclude, with_services
from watchkeeper.pipeline.steps.bundle import plain_steps
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.tasks.bundle import prefect_steps
from watchkeeper.wiring import Services


@flow(name="watchkeeper-compare", flow_run_name="{run_id}", **FLOW)
async def compare(run_id: str, project: str | None = None) -> State[Any]:
    """Compares a committed run with its accepted nights, and makes what reruns that asks for.

    A verdict is concluded once: where the run has one already, it is shown again as it is.

    Args:
        run_id: The run, as reports and pages name it.
        project: The project folder; by default the one that WATCHKEEPER_PROJECT names.
    """

    async def body(services: Services) -> State[Any]:
        services.prove_store()
        return await conclude(run_id, prefect_steps(plain_steps(Workshop(services))))

    return await with_services(project, body)
