"""Steps as Prefect tasks: errors come out as they were, and only what is safe is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prefect import flow

from tests.flows.prefect_view import Prefect
from tests.projects import FIRST_SLOT, Bench, bench, write_project
from watchkeeper.domain.run import RunRequest
from watchkeeper.errors import BrokenEvaluation, RecordUnreadable, StoreUnavailable
from watchkeeper.flows.runs import FLOW
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks import comparing, records, trials
from watchkeeper.tasks.bundle import prefect_steps
from watchkeeper.tasks.work import StepTask, perform


@pytest.fixture
def made(tmp_path: Path, prefect: Prefect) -> Bench:
    """A small project."""
    return bench(write_project(tmp_path))


def _in_a_flow(work: Callable[[], Awaitable[None]]) -> None:
    @flow(name="test", **FLOW)
    async def whole() -> None:
        await work()

    asyncio.run(whole())


def _tries(task: StepTask, made: Bench, *errors: Exception) -> tuple[int, Exception | None]:
    """How often a task was made that fails in these ways first, and what came out of it."""
    left = list(errors)
    count = 0

    async def step() -> str:
        nonlocal count
        count += 1
        if left:
            raise left.pop(0)
        return "done"

    caught: list[Exception] = []

    async def work() -> None:
        try:
            quick = task.with_options(retry_delay_seconds=[0.0, 0.0])
            assert await perform(quick, "label", step, made.steps().workshop) == "done"
        except BrokenEvaluation as error:
            caught.append(error)

    _in_a_flow(work)
    return count, caught[0] if caught else None


def test_error_of_a_step_comes_out_as_it_was_raised(made: Bench) -> None:
    """The pipeline decides by the type of an error, so it must be the very same object."""
    raised = BrokenEvaluation("the disk is full")
    assert _tries(records.commit, made, raised) == (1, raised)


def test_trouble_of_the_store_is_tried_again_where_that_is_safe(made: Bench) -> None:
    """Twice, for steps that leave the same records however often they are made."""
    down = StoreUnavailable("no answer")
    assert _tries(records.commit, made, down, down) == (3, None)
    assert _tries(comparing.decision, made, down, down, down) == (3, down)


def test_shard_of_trials_is_never_tried_again(made: Bench) -> None:
    """Its trials would be paid for twice."""
    down = StoreUnavailable("no answer")
    assert _tries(trials.trials, made, down) == (1, down)


def test_step_that_hangs_is_given_up(made: Bench) -> None:
    """A read without an end becomes a broken evaluation that says how long it was waited for."""

    async def never() -> None:
        await asyncio.sleep(60)

    async def work() -> None:
        impatient = comparing.decision.with_options(timeout_seconds=0.2)
        with pytest.raises(BrokenEvaluation, match=r"run-7: compare: not done after 0\.2 seconds"):
            await perform(impatient, "run-7: compare", never, made.steps().workshop)

    _in_a_flow(work)


REQUEST = RunRequest(
    run_id="run-1",
    endpoint="agent",
    suite="basic",
    purpose="nightly",
    trigger="test",
    seed=1,
    slot_at=FIRST_SLOT,
)


def test_run_that_could_not_be_opened_is_let_go(made: Bench) -> None:
    """Its lock goes with it: a second try in the same process meets the same fault, not itself."""

    async def work() -> None:
        steps = prefect_steps(made.steps())
        journal = steps.workshop.journal_path("run-1")
        journal.parent.mkdir(parents=True)
        journal.write_text("no record\n")
        for _ in range(2):
            with pytest.raises(RecordUnreadable, match="not a record"):
                await steps.plan_run(REQUEST)

    _in_a_flow(work)


def test_second_start_of_a_run_pays_only_for_missing_trials(made: Bench) -> None:
    """A shard that failed in the middle of a run is made up for from the journal."""

    async def half(steps: Steps) -> None:
        plan = await steps.plan_run(REQUEST)
        finished = await steps.run_shard("run-1", plan.trials[:5])
        await steps.grade_shard("run-1", finished)
        await steps.workshop.close("run-1", is_committed=False)

    async def rest(steps: Steps) -> None:
        plan = await steps.plan_run(REQUEST)
        assert len(await steps.run_shard("run-1", plan.trials)) == 7
        await steps.workshop.close("run-1", is_committed=False)

    for part in (half, rest):
        _in_a_flow(lambda part=part: part(prefect_steps(made.steps())))  # type: ignore[misc]


def test_wrapped_bundle_has_the_steps_of_the_plain_one(made: Bench) -> None:
    """Every effect but the look-up of one marker is a task of its own."""
    plain = made.steps()
    wrapped = prefect_steps(plain)
    same = {
        name
        for name in plain.__dataclass_fields__
        if getattr(plain, name) is getattr(wrapped, name)
    }
    assert same == {"workshop", "is_committed", "stored_verdict"}
    assert replace(wrapped, workshop=plain.workshop) == wrapped
