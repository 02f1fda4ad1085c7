"""Grades a shard of finished trials as a Prefect task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from prefect import task

from watchkeeper.domain.trial import Trial
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks.work import ONCE, Work, perform, shard_label


@task(name="grades", **ONCE)
async def grades(label: str, work: Work[int]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Not repeated: a shard that failed in the middle has written down some of its grades."""
    await work.do()


def grade_shard(steps: Steps) -> Callable[[str, Sequence[Trial]], Awaitable[int]]:
    """``grade_shard`` as one task a shard; a shard with nothing left to grade is none."""

    async def grade(run_id: str, finished: Sequence[Trial]) -> int:
        do = partial(steps.grade_shard, run_id, finished)
        if not finished:
            return await do()
        label = f"{shard_label(steps.workshop, run_id, finished[0].trial_id)}, grades"
        return await perform(grades, label, do, steps.workshop)

    return grade
