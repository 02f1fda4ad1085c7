"""Runs a shard of trials as a Prefect task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from prefect import task

from watchkeeper.domain.trial import PlannedTrial, Trial
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks.work import ONCE, Work, perform, shard_label


@task(name="trials", **ONCE)
async def trials(label: str, work: Work[tuple[Trial, ...]]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Never repeated or cut short by Prefect: either would pay for the same trials again.

    Every trial has its own bounds. What was finished is in the journal, so that starting the same
    run again pays for the missing trials alone.
    """
    await work.do()


def run_shard(
    steps: Steps,
) -> Callable[[str, Sequence[PlannedTrial]], Awaitable[tuple[Trial, ...]]]:
    """``run_shard`` as one task a shard."""

    async def run(run_id: str, planned: Sequence[PlannedTrial]) -> tuple[Trial, ...]:
        label = shard_label(steps.workshop, run_id, planned[0].trial_id)
        do = partial(steps.run_shard, run_id, planned)
        return await perform(trials, label, do, steps.workshop)

    return run
