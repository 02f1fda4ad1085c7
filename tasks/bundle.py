"""The same steps, each wrapped as a Prefect task."""

from __future__ import annotations

from dataclasses import replace

from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks import comparing, grading, incidents, records, suites, trials


def prefect_steps(steps: Steps) -> Steps:
    """The bundle with its effects as Prefect tasks, for use inside a flow.

    A task is a shard, never a trial: a task run costs some ten milliseconds and a record in
    Prefect's database. Asking for one marker (``is_committed``, ``stored_verdict``) stays plain.
    """
    return replace(
        steps,
        plan_run=suites.plan_run(steps),
        run_shard=trials.run_shard(steps),
        grade_shard=grading.grade_shard(steps),
        commit_run=records.commit_run(steps),
        open_decision=comparing.open_decision(steps),
        run_facts=comparing.run_facts(steps),
        store_verdict=comparing.store_verdict(steps),
        open_incidents=incidents.open_incidents(steps),
        deliver=incidents.deliver(steps),
    )
