"""Runs one shard of a run's trials."""

from __future__ import annotations

from collections.abc import Sequence

from watchkeeper.domain.trial import PlannedTrial, Trial
from watchkeeper.pipeline.steps.work import OpenRun, Workshop
from watchkeeper.rollout.runner import MAX_TRIAL_ATTEMPTS, unmade_trial


async def run_shard(
    workshop: Workshop, run_id: str, planned: Sequence[PlannedTrial]
) -> tuple[Trial, ...]:
    """The attempts of a shard that are not graded yet, old and new.

    A trial that was finished before is not run again.
    """
    run = workshop.runs[run_id]
    ids = {trial.trial_id for trial in planned}
    earlier = workshop.unfinished_trials(run, ids)
    second = {name for name in ids if (name, MAX_TRIAL_ATTEMPTS) in run.finished}
    done = second | {name for name in ids if (name, 1) in run.finished}
    missing = [trial for trial in planned if trial.trial_id not in done]
    if run.fault is not None:
        return (*earlier, *_without_a_call(workshop, run, missing))
    owed = [
        trial for trial in planned if trial.trial_id in run.again and trial.trial_id not in second
    ]
    return (*earlier, *await run.runner.run(missing, owed))


def _without_a_call(
    workshop: Workshop, run: OpenRun, missing: Sequence[PlannedTrial]
) -> list[Trial]:
    """The records of trials whose endpoint could not even be asked what it serves."""
    assert run.fault is not None  # noqa: S101 - the caller has looked
    now = workshop.services.clock.now()
    trials = [
        unmade_trial(
            run.plan, run.endpoint, trial, now, "harness_error", run.fault.kind, str(run.fault)
        )
        for trial in missing
    ]
    for trial in trials:
        run.runner.record(trial)
    return trials
