"""The steps as one bundle of async functions, so that a conductor may wrap each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from watchkeeper.domain.facts import TrialFact
from watchkeeper.domain.run import RunPlan, RunRequest
from watchkeeper.domain.trial import PlannedTrial, Trial
from watchkeeper.domain.verdict import Verdict
from watchkeeper.pipeline.steps import committing, comparing, grading, planning, telling, trials
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.stats.decide import Decision


@dataclass(frozen=True, slots=True)
class Steps:
    """Every effect of the pipeline, by name.

    A conductor hands the compositions these functions, plain or wrapped; both leave equal
    records.
    """

    workshop: Workshop
    is_committed: Callable[[str], Awaitable[bool]]
    plan_run: Callable[[RunRequest], Awaitable[RunPlan]]
    run_shard: Callable[[str, Sequence[PlannedTrial]], Awaitable[tuple[Trial, ...]]]
    grade_shard: Callable[[str, Sequence[Trial]], Awaitable[int]]
    commit_run: Callable[[str], Awaitable[bool]]
    stored_verdict: Callable[[str], Awaitable[Verdict | None]]
    open_decision: Callable[[str], Awaitable[Decision]]
    run_facts: Callable[[str], Awaitable[list[TrialFact]]]
    store_verdict: Callable[[Verdict], Awaitable[Verdict]]
    open_incidents: Callable[[Verdict], Awaitable[int]]
    deliver: Callable[[], Awaitable[int]]


def plain_steps(workshop: Workshop) -> Steps:
    """The steps as they are, for one process and without any other conductor."""
    services = workshop.services

    async def is_committed(run_id: str) -> bool:
        return await asyncio.to_thread(planning.is_committed, services, run_id)

    async def plan_run(request: RunRequest) -> RunPlan:
        return await planning.plan_run(workshop, request)

    async def run_shard(run_id: str, planned: Sequence[PlannedTrial]) -> tuple[Trial, ...]:
        return await trials.run_shard(workshop, run_id, planned)

    async def grade_shard(run_id: str, finished: Sequence[Trial]) -> int:
        return await grading.grade_shard(workshop, run_id, finished)

    async def commit_run(run_id: str) -> bool:
        return await committing.commit_run(workshop, run_id)

    async def stored_verdict(run_id: str) -> Verdict | None:
        return await asyncio.to_thread(comparing.stored_verdict, services, run_id)

    async def open_decision(run_id: str) -> Decision:
        return await asyncio.to_thread(comparing.open_decision, services, run_id)

    async def run_facts(run_id: str) -> list[TrialFact]:
        return await asyncio.to_thread(comparing.run_facts, services, run_id)

    async def store_verdict(verdict: Verdict) -> Verdict:
        return await asyncio.to_thread(comparing.store_verdict, services, verdict)

    async def open_incidents(verdict: Verdict) -> int:
        return len(await asyncio.to_thread(telling.open_incidents, services, verdict))

    async def deliver() -> int:
        return await telling.deliver(services)

    return Steps(
        workshop=workshop,
        is_committed=is_committed,
        plan_run=plan_run,
        run_shard=run_shard,
        grade_shard=grade_shard,
        commit_run=commit_run,
        stored_verdict=stored_verdict,
        open_decision=open_decision,
        run_facts=run_facts,
        store_verdict=store_verdict,
        open_incidents=open_incidents,
        deliver=deliver,
    )
