"""What one provider account and model may be asked at the same time, and how fast.

Everybody who asks the same account shares one limiter: trials of all runs, and judges.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from watchkeeper.domain.ports import Clock, RateLimits, Step
from watchkeeper.errors import EndpointFault, EndpointOverloaded
from watchkeeper.rollout._bucket import Bucket
from watchkeeper.rollout._waiting import sleep_unless
from watchkeeper.rollout.bounds import RequestBounds

DECREASE = 0.7
SMALLEST_SET = 12
TROUBLE = 3


@dataclass(slots=True, eq=False)
class Request:
    """One request that was let through, when that was, and what its answer told."""

    number: int
    sent: float
    refused_until: float | None = None
    tokens: tuple[int, int] | None = None
    limits: RateLimits | None = None

    def learn(self, step: Step) -> None:
        """Takes over the tokens of a step and what the provider says is left."""
        self.limits = step.limits
        rounds = (*step.rounds, step.waiting) if step.waiting is not None else step.rounds
        uses = [one.usage for one in rounds]
        read, written = 0, 0
        for use in uses:
            if use.input_tokens is None or use.output_tokens is None:
                return
            writes = (use.cache_write_5m_tokens or 0) + (use.cache_write_1h_tokens or 0)
            read, written = read + use.input_tokens + writes, written + use.output_tokens
        self.tokens = (read, written) if uses else None


class Limiter:
    """Lets requests through in the order in which they came, as many as the account bears.

    A single refusal (429, 529) is the business of who was refused: the others are answered. Where
    half of a full set of requests was refused (those sent last up to the refused one, as many as
    may be in flight, at least twelve; fewer where no more were sent), it is the account's:
    ``retry-after`` then holds everybody, and three tenths fewer are sent at the same time. With
    every full set of answers it is one more again, up to the endpoint's ``concurrency``.

    What the provider says is left is counted down, and nothing is sent that would pass it before
    it is whole again. Requests and tokens per minute are our own bounds; a request is expected to
    take as many tokens as those before it on average.
    """

    def __init__(self, account: str, bounds: RequestBounds, clock: Clock) -> None:
        """``account`` names it in errors; it holds no secret."""
        self._account = account
        self._clock = clock
        self._bounds = bounds
        self._allowed = float(bounds.concurrency)
        self._in_flight = 0
        self._queued = 0
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._sent_count = 0
        self._latest: deque[Request] = _latest(bounds)
        self._paused_until = -math.inf
        self._failed_in_a_row = 0
        self._left: RateLimits | None = None
        self._whole_at = -math.inf
        self._seen = (0, 0, 0)  # answers with tokens, and tokens read and written in all
        self._is_answered = False
        now = clock.monotonic()
        self._requests = _bucket(bounds.requests_per_minute, now)
        self._tokens = _bucket(bounds.tokens_per_minute, now)

    @property
    def allowed(self) -> int:
        """Requests that may be in flight at the same time, now."""
        return max(1, int(self._allowed))

    @property
    def is_in_trouble(self) -> bool:
        """Whether the latest three outcomes were failures, for whatever reason."""
        return self._failed_in_a_row >= TROUBLE

    @property
    def in_flight(self) -> int:
        """Requests that are in flight."""
        return self._in_flight

    def share_with(self, bounds: RequestBounds) -> None:
        """Another endpoint uses the same account with these bounds."""
        both, now = self._bounds.shared_with(bounds), self._clock.monotonic()
        if both.concurrency > self._bounds.concurrency:
            self._allowed += both.concurrency - self._bounds.concurrency
            self._latest = _latest(both)
        if both.requests_per_minute != self._bounds.requests_per_minute:
            self._requests = _bucket(both.requests_per_minute, now)
        if both.tokens_per_minute != self._bounds.tokens_per_minute:
            self._tokens = _bucket(both.tokens_per_minute, now)
        self._bounds = both
        self._changed.set()

    @contextlib.asynccontextmanager
    async def request(self, patience_s: float) -> AsyncIterator[Request]:
        """Around one request, from the moment that it may be sent to its answer.

        Args:
            patience_s: Seconds that may be waited.

        Raises:
            EndpointOverloaded: It would take, or took, longer.
        """
        await self._enter(patience_s)
        expected = self._expected
        request = self._send(expected)
        try:
            yield request
        except EndpointFault as fault:
            self._take(fault.limits if isinstance(fault.limits, RateLimits) else None)
            self._failed_in_a_row += 1
            if isinstance(fault, EndpointOverloaded):
                self._refused(request, fault.retry_after_s or 0.0)
            raise
        else:
            self._correct(expected, request.tokens)
            self._take(request.limits)
            self._failed_in_a_row = 0
            self._allowed = min(self._allowed + 1 / self._allowed, self._bounds.concurrency)
        finally:
            self._in_flight -= 1
            self._changed.set()

    async def _enter(self, patience_s: float) -> None:
        started = self._clock.monotonic()
        if not self._queued and self._obstacle_s(started) == 0:
            return
        if self._paused_until - started > patience_s:
            raise self._too_long(self._paused_until - started, patience_s)
        self._queued += 1
        try:
            async with asyncio.timeout(max(patience_s, 0.001)), self._turn:
                await self._first_in_line(started + patience_s, patience_s)
        except TimeoutError:
            raise self._too_long(None, patience_s) from None
        finally:
            self._queued -= 1

    async def _first_in_line(self, until: float, patience_s: float) -> None:
        while True:
            now = self._clock.monotonic()
            wait = self._obstacle_s(now)
            if now > until or math.inf > wait > until - now:
                raise self._too_long(None if wait == math.inf else wait, patience_s)
            if wait == 0:
                return
            if wait == math.inf:
                self._changed.clear()
                await self._changed.wait()
            else:
                await sleep_unless(self._changed, wait, self._clock)

    def _obstacle_s(self, now: float) -> float:
        """Seconds until the next request may be sent; infinite: until an answer has come."""
        if self._in_flight >= self.allowed:
            return math.inf
        wait = max(self._paused_until - now, 0.0)
        if self._left is not None and self._is_used_up(self._left):
            wait = max(wait, self._whole_at - now)
        if self._requests is not None:
            wait = max(wait, self._requests.wait_s(1, now))
        if self._tokens is not None:
            if not self._is_answered and self._in_flight:
                return math.inf  # nobody knows yet what a request takes
            wait = max(wait, self._tokens.wait_s(sum(self._expected), now))
        return wait

    def _is_used_up(self, left: RateLimits) -> bool:
        read, written = self._expected
        if left.output_tokens_left is None:
            read += written
        return (
            (left.requests_left is not None and left.requests_left < 1)
            or (left.tokens_left is not None and left.tokens_left < max(read, 1))
            or (left.output_tokens_left is not None and left.output_tokens_left < max(written, 1))
        )

    @property
    def _expected(self) -> tuple[float, float]:
        """Tokens that a request reads and writes, as those seen did on average."""
        count, read, written = self._seen
        return (read / count, written / count) if count else (0.0, 0.0)

    def _send(self, expected: tuple[float, float]) -> Request:
        self._in_flight += 1
        now = self._clock.monotonic()
        self._sent_count += 1
        request = Request(self._sent_count, now)
        self._latest.append(request)
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(sum(expected), now)
        if self._left is not None:
            self._left = _less(self._left, *expected)
        return request

    def _correct(self, expected: tuple[float, float], used: tuple[int, int] | None) -> None:
        """Takes what was used in place of what was expected; ``None``: nobody knows."""
        self._is_answered = True
        if used is None:
            return
        count, read, written = self._seen
        self._seen = (count + 1, read + used[0], written + used[1])
        if self._tokens is not None:
            self._tokens.take(sum(used) - sum(expected), self._clock.monotonic())

    def _take(self, limits: RateLimits | None) -> None:
        """What the provider says is left; without a time to wait for it holds nobody."""
        if limits is None or limits.reset_s is None:
            return
        self._left = limits
        self._whole_at = self._clock.monotonic() + limits.reset_s

    def _refused(self, request: Request, retry_after_s: float) -> None:
        now = self._clock.monotonic()
        request.refused_until = now + retry_after_s
        if now < self._paused_until:
            self._paused_until = max(self._paused_until, request.refused_until)
        # What was sent later may still be refused; what was sent earlier would have been by now.
        size = max(SMALLEST_SET, self.allowed)
        known = [one for one in self._latest if one.number <= request.number][-size:]
        refused = [one.refused_until for one in known if one.refused_until is not None]
        is_enough = len(known) == size or request.number == self._sent_count
        if not refused or not is_enough or len(refused) * 2 < len(known):
            return
        self._paused_until = max(self._paused_until, *refused)
        if len(known) >= self.allowed:
            self._allowed = max(1.0, self._allowed * DECREASE)
        elif self._paused_until <= now:
            return
        self._latest.clear()  # what was in flight meanwhile says nothing new

    def _too_long(self, wait_s: float | None, patience_s: float) -> EndpointOverloaded:
        told = "its turn did not come" if wait_s is None else f"it may be sent in {wait_s:.0f} s"
        return EndpointOverloaded(
            f"a request to {self._account} waits for the limits of its account: {told}, and this "
            f"trial may wait {max(patience_s, 0):.0f} s more (limits.wait_seconds)",
            kind="rate_limited",
            is_transient=True,
            retry_after_s=wait_s,
        )


def _latest(bounds: RequestBounds) -> deque[Request]:
    """Room for all requests in flight, and a full set of those before them."""
    return deque(maxlen=2 * max(bounds.concurrency, SMALLEST_SET))


def _bucket(per_minute: int | None, now: float) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute, now)


def _less(left: RateLimits, read: float, written: float) -> RateLimits:
    """What is left after one more request."""
    if left.output_tokens_left is None:
        read += written

    def minus(had: int | None, used: float) -> int | None:
        return None if had is None else int(had - used)

    return RateLimits(
        minus(left.requests_left, 1),
        minus(left.tokens_left, read),
        left.reset_s,
        minus(left.output_tokens_left, written),
    )
