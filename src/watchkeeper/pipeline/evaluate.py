"""One evaluation: plan → shards of trials → grades → commit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from watchkeeper.domain.run import RunRequest
from watchkeeper.domain.trial import PlannedTrial
from watchkeeper.errors import BrokenEvaluation, UsageError
from watchkeeper.pipeline.steps import committing
from watchkeeper.pipeline.steps.bundle import Steps


async def evaluate(request: RunRequest, steps: Steps) -> str:
    """The id of the run, which is part of history when this returns.

    A run that was committed before is not run again; one that was begun is finished.

    Raises:
        UsageError: What was asked for cannot be run, found before the first call.
        BrokenEvaluation: The run could not be finished; what was finished is kept.
    """
    run_id = request.run_id
    workshop = steps.workshop
    if await steps.is_committed(run_id):
        await committing.clear_away(workshop, run_id)
        return run_id
    is_committed = False
    try:
        plan = await steps.plan_run(request)
        # Another machine that works on the same run may have committed it meanwhile.
        if await steps.is_committed(run_id):
            await committing.clear_away(workshop, run_id)
            return run_id
    except BaseException:
        await workshop.close(run_id, is_committed=False)
        raise
    try:
        with after_first_call():
            size = workshop.services.project.shard_trials
            starts = range(0, len(plan.trials), size)
            await _all_shards(run_id, [plan.trials[at : at + size] for at in starts], steps)
            await steps.commit_run(run_id)
        is_committed = True
    finally:
        await workshop.close(run_id, is_committed=is_committed)
    return run_id


@contextlib.contextmanager
def after_first_call() -> Iterator[None]:
    """Within the block a fault is a broken evaluation, whatever it is.

    Raises:
        BrokenEvaluation: In place of a UsageError, which is one that is found before any call.
    """
    try:
        yield
    except UsageError as error:
        raise BrokenEvaluation(str(error)) from error


async def _all_shards(run_id: str, shards: Sequence[Sequence[PlannedTrial]], steps: Steps) -> None:
    """Every shard at the same time; the endpoint's concurrency bounds the trials.

    Where one fails the others are ended, and the first error is raised as it is.
    """
    work = [asyncio.create_task(_shard(run_id, shard, steps)) for shard in shards]
    try:
        for finished in asyncio.as_completed(work):
            await finished
    finally:
        for one in work:
            one.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _shard(run_id: str, planned: Sequence[PlannedTrial], steps: Steps) -> None:
    finished = await steps.run_shard(run_id, planned)
    await steps.grade_shard(run_id, finished)
