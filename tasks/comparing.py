"""Loads what a decision needs, and stores what was decided, as Prefect tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from prefect import task

from watchkeeper.domain.facts import TrialFact
from watchkeeper.domain.verdict import Verdict
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.stats.decide import Decision
from watchkeeper.tasks.work import READ_ONLY, REPEATABLE, Work, perform


@task(name="compare", **READ_ONLY)
async def decision(label: str, work: Work[Decision]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Repeatable: it only reads."""
    await work.do()


@task(name="rerun", **READ_ONLY)
async def facts(label: str, work: Work[list[TrialFact]]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Repeatable: it only reads."""
    await work.do()


@task(name="verdict", **REPEATABLE)
async def verdict(label: str, work: Work[Verdict]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Repeatable: the first verdict that was stored is the one that holds."""
    await work.do()


def open_decision(steps: Steps) -> Callable[[str], Awaitable[Decision]]:
    """``open_decision`` as a task."""

    async def run(run_id: str) -> Decision:
        do = partial(steps.open_decision, run_id)
        return await perform(decision, f"{run_id}: compare", do, steps.workshop)

    return run


def run_facts(steps: Steps) -> Callable[[str], Awaitable[list[TrialFact]]]:
    """``run_facts`` as a task."""

    async def run(run_id: str) -> list[TrialFact]:
        do = partial(steps.run_facts, run_id)
        return await perform(facts, f"{run_id}: read the rerun", do, steps.workshop)

    return run


def store_verdict(steps: Steps) -> Callable[[Verdict], Awaitable[Verdict]]:
    """``store_verdict`` as a task."""

    async def run(concluded: Verdict) -> Verdict:
        label = f"{concluded.endpoint} × {concluded.suite}: verdict"
        do = partial(steps.store_verdict, concluded)
        return await perform(verdict, label, do, steps.workshop)

    return run
