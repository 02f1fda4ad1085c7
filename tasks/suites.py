"""Plans a run as a Prefect task: what is served now, and which trials are promised."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from prefect import task

from watchkeeper.domain.run import RunPlan, RunRequest
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks.work import REPEATABLE, Work, perform


@task(name="plan", **REPEATABLE)
async def plan(label: str, work: Work[RunPlan]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Repeatable: the first plan that was written down is the one that holds."""
    await work.do()


def plan_run(steps: Steps) -> Callable[[RunRequest], Awaitable[RunPlan]]:
    """``plan_run`` as a task."""

    async def run(request: RunRequest) -> RunPlan:
        label = f"{request.endpoint} × {request.suite}: plan"
        return await perform(plan, label, partial(steps.plan_run, request), steps.workshop)

    return run
