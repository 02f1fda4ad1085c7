"""Time: the machine's own, and one that a demo or a test owns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The machine's clock. ``now`` never runs backwards within one process.

    A clock that is set back while a run goes on would store trials that end before they begin;
    the time of day is read once and carried on by the monotonic clock.
    """

    def __init__(
        self,
        time_of_day: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the time of day, this once.

        Args:
            time_of_day: The machine's time of day, with its zone; it may jump.
            monotonic: Seconds from any point on; they never run backwards.
        """
        self._monotonic = monotonic
        self._started_at = time_of_day().astimezone(UTC)
        self._started = monotonic()
        self._latest = self._started_at

    def now(self) -> datetime:
        """The time of day in UTC."""
        passed = self._monotonic() - self._started
        steady = self._started_at + timedelta(seconds=passed)
        self._latest = max(self._latest, steady)
        return self._latest

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return self._monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits for real."""
        await asyncio.sleep(seconds)


class SimulatedClock:
    """A clock that moves only when it is told to; sleeping moves it."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        """The simulated time of day in UTC."""
        return self._now

    def monotonic(self) -> float:
        """Simulated seconds since the start."""
        return self._monotonic

    def move_to(self, at: datetime) -> None:
        """Moves on to a time of day; never backwards."""
        if at > self._now:
            self._monotonic += (at - self._now).total_seconds()
            self._now = at

    async def sleep(self, seconds: float) -> None:
        """Moves the clock on and lets others run."""
        self._now += timedelta(seconds=max(seconds, 0.0))
        self._monotonic += max(seconds, 0.0)
        await asyncio.sleep(0)
