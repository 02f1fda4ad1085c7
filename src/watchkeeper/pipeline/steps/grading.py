"""Grades one shard of finished trials."""

from __future__ import annotations

import asyncio
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
    lines = run.runner.take_lines([(trial.trial_id, trial.attempt) for trial in trials])
    count = 0
    for trial in trials:
        key = (trial.trial_id, trial.attempt)
        if trial.status != "completed" or key in run.graded:
            continue
        case = run.runner.case(trial.case_id)
        rows = [
            grade_row(trial, stamps[trial.case_id], grade, graded_at)
            for grade in grade_trial(case, trial.trajectory, trial.stop_reason)
        ]
        # All grades of an attempt are one line: a kill leaves it graded as a whole or not at all.
        line: dict[str, object] = {"grades": workshop.services.redactor.value(rows)}
        run.journal.append(line)
        lines.append(line)
        count += len(rows)
        run.graded.add(key)
    run.journal.sync()
    await asyncio.to_thread(workshop.services.records.stage, run_id, lines)
    return count
