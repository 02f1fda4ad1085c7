"""One trial's requests: within its account's limits, repeated where the infrastructure failed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from watchkeeper.domain.ports import Clock, Observation, Session, Step
from watchkeeper.errors import EndpointFault
from watchkeeper.rollout.breaker import Breaker
from watchkeeper.rollout.limiter import Limiter
from watchkeeper.rollout.places import Places

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 20.0
DEFAULT_WAIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Account:
    """What everybody shares who asks the same account for the same model."""

    limiter: Limiter
    breaker: Breaker


@dataclass(slots=True)
class Calls:
    """The requests of one trial.

    ``waited_s`` is the time that was not the agent's: in the limiter's queue, in pauses, before
    repetitions, and in requests that the infrastructure failed. It is bounded by ``wait_s``.
    ``waits`` hears of every wait, +1 at its beginning and -1 at its end.
    """

    trial_id: str
    retries: int
    clock: Clock
    jitter: Callable[[], float]
    account: Account | None = None
    places: Places | None = None
    wait_s: float = DEFAULT_WAIT_S
    waits: Callable[[int], None] = lambda _: None
    waited_s: float = field(default=0.0, init=False)
    retry_count: int = field(default=0, init=False)

    async def step(self, session: Session, observation: Observation, left_s: float) -> Step:
        """One step, repeated within bounds where only the infrastructure failed.

        What the provider asks to wait is waited in full, or the trial ends.

        Args:
            session: The conversation.
            observation: What it is told.
            left_s: Seconds that the agent has left.

        Raises:
            EndpointFault: It failed for good, as often as it may, or would have to wait too long.
            TimeoutError: The agent's time is over.
        """
        backoff = FIRST_BACKOFF_S
        for retries_left in range(self.retries, -1, -1):
            try:
                return await self._once(session, observation, left_s)
            except EndpointFault as fault:
                wait = max(backoff * (0.5 + self.jitter()), fault.retry_after_s or 0.0)
                is_too_long = self.waited_s + wait > self.wait_s
                if not fault.is_transient or retries_left == 0 or is_too_long:
                    if self.account is not None:
                        self.account.breaker.failed(self.trial_id, fault)
                    raise
            self.retry_count += 1
            await self._back_off(wait)
            backoff = min(backoff * 2, LONGEST_BACKOFF_S)
        raise AssertionError("the last retry returns or raises")

    async def _once(self, session: Session, observation: Observation, left_s: float) -> Step:
        if left_s <= 0:
            raise TimeoutError
        if self.account is None:
            started = self.clock.monotonic()
            try:
                async with asyncio.timeout(left_s):
                    return await session.step(observation)
            except EndpointFault:
                self.waited_s += self.clock.monotonic() - started
                raise
        limiter, breaker = self.account.limiter, self.account.breaker
        since = self.clock.monotonic()
        is_queued = True
        self.waits(1)
        try:
            async with limiter.request(self.wait_s - self.waited_s) as request:
                is_queued = False
                self.waits(-1)
                self.waited_s += request.sent - since
                since = request.sent
                with breaker.request():
                    async with asyncio.timeout(left_s):
                        step = await session.step(observation)
                request.learn(step)
                return step
        except EndpointFault:
            self.waited_s += self.clock.monotonic() - since
            raise
        finally:
            if is_queued:
                self.waits(-1)

    async def _back_off(self, seconds: float) -> None:
        started = self.clock.monotonic()
        self.waits(1)
        # While others are answered; in an outage more trials would only be ended by it.
        lends = self.account is not None and not self.account.limiter.is_in_trouble
        places = self.places if lends else None
        try:
            with places.lent() if places is not None else contextlib.nullcontext():
                await self.clock.sleep(seconds)
        finally:
            self.waits(-1)
            self.waited_s += self.clock.monotonic() - started
