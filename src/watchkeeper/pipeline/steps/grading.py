"""Grades one shard of finished trials."""

from __future__ import annotations

from collections.abc import Sequence

from watchkeeper.domain.records import grade_row
from watchkeeper.domain.trial import Trial
from watchkeeper.graders import grade_trial
from watchkeeper.pipeline.steps.work import Workshop


async def grade_shard(workshop: Workshop, run_id: str, trials: Sequence[Trial]) -> int:
    """How many grades were given; each is in the journal, the shard in the store's staging area."""
    run = workshop.runs[run_id]
    stamps = {stamp.case_id: stamp for stamp in run.plan.manifest.cases}
    graded_at = workshop.services.clock.now()
    count = 0
    for trial in trials:
        key = (trial.trial_id, trial.attempt)
        if trial.status != "completed" or key in run.graded:
            continue
        case = run.runner.case(trial.case_id)
        for grade in grade_trial(case, trial.trajectory, trial.stop_reason):
            row = grade_row(trial, stamps[trial.case_id], grade, graded_at)
            run.journal.append({"grade": workshop.services.redactor.value(row)})
            count += 1
        run.graded.add(key)
    run.journal.sync()
    return count
