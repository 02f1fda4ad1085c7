"""Makes a run part of history as a Prefect task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from prefect import task

from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks.work import REPEATABLE, Work, about, perform


@task(name="commit", **REPEATABLE)
async def commit(label: str, work: Work[bool]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Repeatable: a marker is put once, and files are named by their content."""
    await work.do()


def commit_run(steps: Steps) -> Callable[[str], Awaitable[bool]]:
    """``commit_run`` as a task."""

    async def run(run_id: str) -> bool:
        label = f"{about(steps.workshop, run_id)}: commit"
        return await perform(commit, label, partial(steps.commit_run, run_id), steps.workshop)

    return run
