"""Runs a shard of trials as a Prefect task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from prefect import task

from watchkeeper.domain.trial import PlannedTrial, Trial
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks.shared_limits import shared_limit
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
    """``run_shard`` as one task a shard, which holds its part of a limit that workers share."""

    async def run(run_id: str, planned: Sequence[PlannedTrial]) -> tuple[Trial, ...]:
        label = shard_label(steps.workshop, run_id, planned[0].trial_id)
        return await perform(trials, label, partial(leased, run_id, planned), steps.workshop)

    async def leased(run_id: str, planned: Sequence[PlannedTrial]) -> tuple[Trial, ...]:
        run, clock = steps.workshop.runs[run_id], steps.workshop.services.clock
        finish_by = run.plan.manifest.finish_by
        async with shared_limit(run.endpoint, len(planned), finish_by, clock):
            return await steps.run_shard(run_id, planned)

    return run
