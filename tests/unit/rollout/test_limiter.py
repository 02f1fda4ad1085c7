"""Requests go out as fast as the account bears it, and no faster."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.rollout.stage import START, answer, busy
from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.ports import RateLimits
from watchkeeper.errors import EndpointFault, EndpointOverloaded, EndpointUnreachable
from watchkeeper.rollout.bounds import RequestBounds
from watchkeeper.rollout.limiter import SMALLEST_SET, Limiter

PATIENCE_S = 900.0


@dataclass
class Line:
    """A limiter, and requests that stay in flight until the test ends them."""

    bounds: RequestBounds = field(default_factory=lambda: RequestBounds(8))
    clock: SimulatedClock = field(default_factory=lambda: SimulatedClock(START))
    sent_at: list[float] = field(default_factory=list)
    limiter: Limiter = field(init=False)

    def __post_init__(self) -> None:
        self.limiter = Limiter("an account", self.bounds, self.clock)

    async def ask(
        self,
        fault: EndpointFault | None = None,
        *,
        tokens: int | None = 1,
        limits: RateLimits | None = None,
        until: asyncio.Event | None = None,
        patience_s: float = PATIENCE_S,
    ) -> float:
        """Sends one request, which ends as told; when it was sent."""
        try:
            async with self.limiter.request(patience_s) as request:
                self.sent_at.append(request.sent)
                if until is not None:
                    await until.wait()
                if fault is not None:
                    raise fault
                request.learn(answer("yes", tokens, limits=limits))
        except EndpointFault as raised:
            if raised is not fault:
                raise
        return request.sent

    async def answers(self, count: int) -> None:
        """So many answers, one after the other."""
        for _ in range(count):
            await self.ask()


async def turns(count: int = 30) -> None:
    """Lets every task go as far as it can."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_more_are_in_flight_than_the_endpoint_allows() -> None:
    """Whoever comes later goes when an answer has come, in the order of coming."""
    line = Line(RequestBounds(3))
    ends = [asyncio.Event() for _ in range(7)]
    order: list[int] = []

    async def ask(number: int) -> None:
        async with line.limiter.request(PATIENCE_S):
            order.append(number)
            await ends[number].wait()

    tasks = [asyncio.create_task(ask(number)) for number in range(7)]
    await turns()
    assert order == [0, 1, 2]
    ends[1].set()
    await turns()
    assert order == [0, 1, 2, 3]
    for end in ends:
        end.set()
    await asyncio.gather(*tasks)
    assert order == list(range(7))
    assert line.limiter.in_flight == 0


async def test_a_single_refusal_is_the_business_of_who_was_refused() -> None:
    """The others are answered: they neither wait nor become fewer."""
    line = Line()
    await line.answers(SMALLEST_SET)
    await line.ask(busy(30.0))
    assert await line.ask() == 0
    assert line.limiter.allowed == 8


@pytest.mark.parametrize("answered", [0, 5])
async def test_refusals_of_half_the_requests_hold_everybody(answered: int) -> None:
    """One wait for all, for as long as the provider asked, instead of hammering."""
    line = Line()
    await line.answers(answered)
    for _ in range(max(answered, 1)):
        await line.ask(busy(30.0))
    assert await line.ask() == 30
    assert await line.ask() == 30


async def test_the_longest_wait_that_was_asked_holds() -> None:
    """Refusals of requests that were in flight together come in any order."""
    line = Line()
    end = asyncio.Event()
    waits = (5.0, 60.0, 20.0, 1.0)
    tasks = [asyncio.create_task(line.ask(busy(wait), until=end)) for wait in waits]
    await turns()
    end.set()
    await asyncio.gather(*tasks)
    assert await line.ask() == 60


async def test_concurrency_falls_by_a_share_and_rises_by_one() -> None:
    """Three tenths less for a full set that was refused; one more for a full set of answers."""
    line = Line(RequestBounds(20))
    for expected in (14, 9, 6, 4):
        for _ in range(line.limiter.allowed):
            await line.ask(busy())
        assert line.limiter.allowed == expected
    for count in (5, 6, 7):
        await line.answers(count)
        assert line.limiter.allowed == count
    await line.answers(400)
    assert line.limiter.allowed == 20


async def test_what_was_in_flight_together_lowers_it_once() -> None:
    """Forty refusals of one moment are one piece of news."""
    line = Line(RequestBounds(40))
    end = asyncio.Event()
    tasks = [asyncio.create_task(line.ask(busy(), until=end)) for _ in range(40)]
    await turns(200)
    assert line.limiter.in_flight == 40
    end.set()
    await asyncio.gather(*tasks)
    assert line.limiter.allowed == 28


async def test_refusals_that_come_late_count_all_the_same() -> None:
    """By then others have been sent, of which nobody knows yet what becomes of them."""
    line = Line(RequestBounds(40))
    ends = [asyncio.Event(), asyncio.Event()]
    first = [asyncio.create_task(line.ask(busy(9.0), until=ends[0])) for _ in range(40)]
    await turns(100)
    second = [asyncio.create_task(line.ask(until=ends[1])) for _ in range(40)]
    ends[0].set()
    await turns(400)
    assert line.limiter.in_flight > 0
    assert line.limiter.allowed == 28
    ends[1].set()
    await asyncio.gather(*first, *second)
    assert await line.ask() == 9


async def test_a_share_that_is_refused_by_chance_changes_nothing() -> None:
    """One in seven, as a provider may refuse on a busy night: it is asked as much as before."""
    line = Line(RequestBounds(40))
    rng = random.Random(1)
    for _ in range(50):
        faults = [busy() if rng.random() < 0.15 else None for _ in range(40)]
        await asyncio.gather(*(line.ask(fault) for fault in faults))
    assert line.limiter.allowed == 40


async def test_one_request_may_always_be_in_flight() -> None:
    """However much is refused, somebody finds out when it is over."""
    line = Line(RequestBounds(2))
    for _ in range(50):
        await line.ask(busy())
    assert line.limiter.allowed == 1
    assert await line.ask() == 0


async def test_other_faults_say_nothing_about_the_limits() -> None:
    """A server that cannot be reached is not asked less."""
    line = Line()
    for _ in range(SMALLEST_SET):
        await line.ask(EndpointUnreachable("no", kind="connection", is_transient=True))
    assert line.limiter.allowed == 8


@pytest.mark.parametrize(
    "limits",
    [
        RateLimits(requests_left=0, reset_s=12.0),
        RateLimits(requests_left=50, tokens_left=99, reset_s=12.0),
        RateLimits(requests_left=50, tokens_left=0, output_tokens_left=500, reset_s=12.0),
        RateLimits(requests_left=50, tokens_left=500, output_tokens_left=0, reset_s=12.0),
    ],
)
async def test_nothing_is_sent_that_would_pass_what_is_left(limits: RateLimits) -> None:
    """A request is expected to take as many tokens as those before it: a hundred here."""
    line = Line()
    await line.ask(tokens=100, limits=limits)
    assert await line.ask(tokens=100) == 12


async def test_what_is_left_is_counted_down() -> None:
    """By the requests that were sent since it was told."""
    line = Line()
    await line.ask(limits=RateLimits(requests_left=3, reset_s=12.0))
    sent = [await line.ask() for _ in range(5)]
    assert sent == [0, 0, 0, 12, 12]


@pytest.mark.parametrize(
    "limits",
    [
        RateLimits(requests_left=0),
        RateLimits(requests_left=0, reset_s=0.0),
        RateLimits(requests_left=5, tokens_left=100, reset_s=12.0),
        RateLimits(reset_s=12.0),
        None,
    ],
)
async def test_what_is_unknown_or_enough_holds_nobody(limits: RateLimits | None) -> None:
    """Without a time to wait for, the refusal itself has to tell it."""
    line = Line()
    await line.ask(tokens=100, limits=limits)
    assert await line.ask() == 0


async def test_a_refusal_too_says_what_is_left() -> None:
    """The headers come with a 429 as well."""
    line = Line()
    await line.answers(SMALLEST_SET)
    fault = EndpointOverloaded(
        "429",
        kind="rate_limited",
        is_transient=True,
        limits=RateLimits(requests_left=0, reset_s=7.0),
    )
    await line.ask(fault)
    assert await line.ask() == 7


@given(st.integers(1, 600), st.integers(1, 120))
@settings(max_examples=30, deadline=None)
def test_no_minute_sees_more_requests_than_allowed(per_minute: int, count: int) -> None:
    """But for a second's share, wherever the minute begins; and no time is lost."""

    async def sent() -> list[float]:
        line = Line(RequestBounds(1000, requests_per_minute=per_minute))
        await asyncio.gather(*(line.ask(patience_s=1e9) for _ in range(count)))
        return line.sent_at

    at = asyncio.run(sent())
    burst = max(1, per_minute / 60)
    for first in at:
        assert sum(first <= one < first + 60 for one in at) <= per_minute + burst
    assert at[-1] <= max(0, count - burst) * 60 / per_minute + 1e-6


async def test_no_minute_sees_more_tokens_than_allowed() -> None:
    """What a request takes is known afterwards; whoever comes next waits for it."""
    line = Line(RequestBounds(8, tokens_per_minute=6000))
    sent = [await line.ask(tokens=1000) for _ in range(7)]
    assert sent == pytest.approx([0, 10, 20, 30, 40, 50, 60], abs=0.01)


async def test_until_an_answer_has_come_nobody_knows_what_a_request_takes() -> None:
    """So the first goes alone where tokens are bounded; without knowledge they all go after it."""
    for tokens, later in ((1000, 0), (None, 7)):
        line = Line(RequestBounds(8, tokens_per_minute=6000))
        end = asyncio.Event()
        tasks = [
            asyncio.create_task(line.ask(tokens=tokens, until=end, patience_s=1e6))
            for _ in range(8)
        ]
        await turns()
        assert len(line.sent_at) == 1
        end.set()
        await asyncio.gather(*tasks)
        assert sum(at == 0 for at in line.sent_at[1:]) == later


async def test_who_would_wait_too_long_is_told_at_once() -> None:
    """With the limit that says so, and without a call."""
    line = Line()
    await line.ask(busy(3600.0))
    with pytest.raises(EndpointOverloaded, match=r"in 3600 s.*wait 900 s more.*wait_seconds") as it:
        await line.ask()
    assert (it.value.kind, it.value.is_transient) == ("rate_limited", True)
    assert it.value.retry_after_s == 3600
    assert line.clock.monotonic() == 0
    assert len(line.sent_at) == 1


async def test_a_turn_that_does_not_come_is_not_waited_for_for_ever() -> None:
    """Where nobody can say how long it takes, the patience itself is the bound."""
    line = Line(RequestBounds(1))
    end = asyncio.Event()
    holder = asyncio.create_task(line.ask(until=end))
    await turns()
    with pytest.raises(EndpointOverloaded, match="its turn did not come"):
        await line.ask(patience_s=0.01)
    end.set()
    await holder
    assert await line.ask() == 0


async def test_who_gives_up_waiting_leaves_the_others_in_line() -> None:
    """A cancelled request takes no slot and holds nobody up."""
    line = Line(RequestBounds(1))
    end = asyncio.Event()
    holder = asyncio.create_task(line.ask(until=end))
    await turns()
    impatient, patient = (asyncio.create_task(line.ask()) for _ in range(2))
    await turns()
    impatient.cancel()
    await turns()
    end.set()
    await asyncio.gather(holder, patient)
    assert impatient.cancelled()
    assert line.limiter.in_flight == 0


def test_endpoints_of_one_account_share_the_stricter_rates() -> None:
    """And the wider concurrency: each is bounded by its own trials besides."""
    line = Line(RequestBounds(4, requests_per_minute=100))
    line.limiter.share_with(RequestBounds(10, requests_per_minute=50, tokens_per_minute=7))
    assert line.limiter.allowed == 10
    one = RequestBounds(4, 100).shared_with(RequestBounds(10, 50, 7))
    assert one == RequestBounds(10, 50, 7)


@given(st.lists(st.sampled_from(["answer", "busy", "asked", "fault", "cancel"]), max_size=60))
@settings(max_examples=60, deadline=None)
def test_every_request_ends(outcomes: list[str]) -> None:
    """Whatever happens to requests, none is left in flight or in line, and the next one goes."""

    async def play() -> None:
        line = Line(RequestBounds(3, requests_per_minute=600))
        faults = {"busy": busy(), "asked": busy(2.0)}
        faults["fault"] = EndpointUnreachable("no", kind="x", is_transient=True)  # type: ignore[assignment]
        tasks = [asyncio.create_task(line.ask(faults.get(one))) for one in outcomes]
        for task, one in zip(tasks, outcomes, strict=True):
            if one == "cancel":
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await line.ask()
        assert line.limiter.in_flight == 0

    asyncio.run(play())
