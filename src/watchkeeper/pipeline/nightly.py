"""The main job: every endpoint × suite, compared, and whoever must know is told."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from watchkeeper.domain.identity import content_hash, run_id_for_slot
from watchkeeper.domain.run import RunRequest
from watchkeeper.domain.verdict import Verdict
from watchkeeper.errors import (
    EXIT_BROKEN,
    EXIT_CHANGED,
    EXIT_OK,
    EXIT_REGRESSED,
    EXIT_USAGE,
    BrokenEvaluation,
    UsageError,
    WatchkeeperError,
)
from watchkeeper.loading.project import Project
from watchkeeper.pipeline.compare import compare
from watchkeeper.pipeline.evaluate import after_first_call, evaluate
from watchkeeper.pipeline.steps import committing, comparing, telling
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.rollout.spending import Spending, SpendingLimits
from watchkeeper.wiring import Services


@dataclass(frozen=True, slots=True)
class PairResult:
    """What became of one endpoint × suite: a verdict, or the error that prevented one."""

    request: RunRequest
    verdict: Verdict | None
    error: WatchkeeperError | None


@dataclass(frozen=True, slots=True)
class NightResult:
    """What became of a whole night; ``undelivered_count`` messages still wait in the outbox."""

    slot_at: datetime
    pairs: tuple[PairResult, ...]
    undelivered_count: int

    @property
    def exit_code(self) -> int:
        """The exit code of the night.

        2 where nothing at all could be started, else 1 where anything regressed, 3 where a pair
        has no verdict, 4 where nothing was comparable, else 0.
        """
        codes = [_exit_code(pair) for pair in self.pairs]
        if not codes:
            return EXIT_BROKEN
        if set(codes) == {EXIT_USAGE}:
            return EXIT_USAGE
        if EXIT_REGRESSED in codes:
            return EXIT_REGRESSED
        if EXIT_BROKEN in codes or EXIT_USAGE in codes:
            return EXIT_BROKEN  # other pairs have made calls, so it was not found before them
        return EXIT_CHANGED if set(codes) == {EXIT_CHANGED} else EXIT_OK


EvaluatePair = Callable[[RunRequest, Steps], Awaitable[Verdict]]


async def evaluate_and_compare(request: RunRequest, steps: Steps) -> Verdict:
    """One endpoint × suite from plan to verdict."""
    await evaluate(request, steps)
    return await compare(request.run_id, steps)


async def nightly(
    slot_at: datetime,
    steps: Steps,
    evaluate_pair: EvaluatePair = evaluate_and_compare,
    trigger: str = "schedule",
) -> NightResult:
    """The whole night of one slot; started again, it goes on where it was.

    Args:
        slot_at: The scheduled time; the same slot always gives the same runs.
        steps: The effects, plain or wrapped.
        evaluate_pair: One endpoint × suite; a conductor may wrap it.
        trigger: Who or what started it.
    """
    services = steps.workshop.services
    services.prove_store()
    await steps.deliver()
    requests = nightly_requests(services.project, slot_at, trigger)
    steps.workshop.night = shared_spending(services, requests, is_night=True)
    pairs = await asyncio.gather(*(_pair(request, steps, evaluate_pair) for request in requests))
    with after_first_call():
        for pair in pairs:
            if pair.verdict is not None:
                await steps.open_incidents(pair.verdict)
            elif pair.error is not None:
                _tell_error(steps, pair)
        undelivered = await steps.deliver()
    await asyncio.to_thread(committing.refresh_catalog, steps.workshop)
    return NightResult(slot_at, tuple(pairs), undelivered)


def nightly_requests(project: Project, slot_at: datetime, trigger: str) -> list[RunRequest]:
    """One request for every suite that an endpoint names, in the order of the configuration."""
    finish_by = _finish_by(project, slot_at)
    requests: list[RunRequest] = []
    for endpoint in project.endpoints.values():
        for suite in endpoint.suites:
            run_id = run_id_for_slot(endpoint.name, suite, slot_at)
            requests.append(
                RunRequest(
                    run_id=run_id,
                    endpoint=endpoint.name,
                    suite=suite,
                    purpose="nightly",
                    trigger=trigger,
                    seed=int(content_hash(run_id)[:8], 16),
                    slot_at=slot_at,
                    finish_by=finish_by,
                )
            )
    return requests


async def _pair(request: RunRequest, steps: Steps, evaluate_pair: EvaluatePair) -> PairResult:
    """One pair; its trouble does not stop the others, be it a defect of our own."""
    services = steps.workshop.services
    try:
        return PairResult(request, await evaluate_pair(request, steps), None)
    except WatchkeeperError as error:
        found: WatchkeeperError = error
    except Exception as defect:  # noqa: BLE001 - the other pairs' owners must still hear of theirs
        services.tell(traceback.format_exc())
        found = BrokenEvaluation(
            f"a defect of Watchkeeper itself: {type(defect).__name__}: {defect}; what was "
            "finished is kept, and the same night started again goes on from there"
        )
    services.tell(f"{request.endpoint} × {request.suite}: {found}")
    return PairResult(request, None, found)


def _exit_code(pair: PairResult) -> int:
    if pair.verdict is not None:
        return pair.verdict.exit_code
    return EXIT_USAGE if isinstance(pair.error, UsageError) else EXIT_BROKEN


def shared_spending(
    services: Services, requests: Sequence[RunRequest], *, is_night: bool
) -> Spending | None:
    """What some runs together may still spend: the night's budget and what the month has left."""
    project = services.project
    bounds: list[float] = []
    spent = comparing.slot_spending(services, [one.run_id for one in requests])
    if is_night and project.night_budget_usd is not None:
        bounds.append(project.night_budget_usd)
    if project.month_budget_usd is not None:
        left = project.month_budget_usd - comparing.month_spending(services)
        bounds.append(max(left, 0.0) + spent)
    if not bounds:
        return None
    suites = [project.suite(one.suite) for one in requests]
    limits = [suite.limits.cost_usd for suite in suites]
    known = [limit for limit in limits if limit is not None]
    largest = max(known) if known and len(known) == len(limits) else None
    night = Spending(SpendingLimits(run_usd=min(bounds), trial_usd=largest))
    night.add_spent(spent)
    return night


def _finish_by(project: Project, slot_at: datetime) -> datetime | None:
    """The first moment after the slot at which the local clock shows ``finish_by``."""
    if project.finish_by is None:
        return None
    hour, minute = project.finish_by.split(":")
    local = slot_at.astimezone(project.timezone)
    at = datetime.combine(local.date(), time(int(hour), int(minute)), project.timezone)
    if at <= local:
        at = datetime.combine(
            local.date() + timedelta(days=1), time(int(hour), int(minute)), project.timezone
        )
    return at


def _tell_error(steps: Steps, pair: PairResult) -> None:
    request = pair.request
    telling.tell_platform_owner(
        steps.workshop.services,
        key=f"{request.run_id}/error/{content_hash(str(pair.error))[:8]}",
        title=f"Evaluation broken: {request.endpoint} on {request.suite}, no verdict",
        lines=(str(pair.error), "this is not a regression: nothing is said about the agent"),
    )
