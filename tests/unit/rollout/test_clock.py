"""Time within a process runs forwards, whatever the machine's clock does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rollout.stage import START, answer, scene
from watchkeeper.clock import SimulatedClock, SystemClock


def jumping(jumps: list[float], steps: list[float]) -> SystemClock:
    """A machine whose time of day jumps; its monotonic clock takes steps forward."""
    seconds: Iterator[float] = iter(steps)
    offsets = iter(jumps)
    state = {"passed": 0.0}

    def monotonic() -> float:
        state["passed"] += next(seconds, 1.0)
        return state["passed"]

    def time_of_day() -> datetime:
        return START + timedelta(seconds=next(offsets, 0.0))

    return SystemClock(time_of_day, monotonic)


@given(
    jumps=st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=20),
    steps=st.lists(st.floats(0, 1e4), max_size=20),
)
def test_now_never_runs_backwards(jumps: list[float], steps: list[float]) -> None:
    """Also where the time of day is set back by months between two looks."""
    clock = jumping(jumps, steps)
    seen = [clock.now() for _ in range(20)]
    assert all(earlier <= later for earlier, later in pairwise(seen))
    assert all(moment.tzinfo is UTC for moment in seen)


def test_a_trial_never_ends_before_it_began() -> None:
    """The machine's clock is set back by an hour while the agent answers."""
    hours = [0.0, -3600.0, -7200.0]
    clock = jumping(hours, [])

    async def played() -> tuple[datetime, datetime]:
        one = scene(answer(), clock=clock)
        await one.talk.play()
        return one.talk.started_at, clock.now()

    started_at, ended_at = asyncio.run(played())
    assert started_at < ended_at


def test_the_time_of_day_is_told_in_utc() -> None:
    """Wherever the machine is."""
    berlin = timezone(timedelta(hours=1))
    clock = SystemClock(lambda: datetime(2026, 3, 2, 3, 30, tzinfo=berlin), lambda: 0.0)
    assert clock.now() == START
    assert clock.now().utcoffset() == timedelta(0)


def test_by_itself_it_is_the_machines_own() -> None:
    """Close to what the system says, and moving."""
    clock = SystemClock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    first = clock.monotonic()
    asyncio.run(clock.sleep(0.001))
    assert clock.monotonic() > first


def test_a_simulated_clock_moves_only_forwards() -> None:
    """By sleeping, or by being told."""
    clock = SimulatedClock(START)
    asyncio.run(clock.sleep(90))
    asyncio.run(clock.sleep(-5))
    assert clock.now() == START + timedelta(seconds=90)
    clock.move_to(START)
    assert clock.monotonic() == 90
    clock.move_to(START + timedelta(seconds=100))
    assert clock.monotonic() == 100
