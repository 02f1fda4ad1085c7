"""A budget holds however many trials are in flight and whatever they turn out to cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.rollout.stage import START, said
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.domain.trial import Trial, TrialStatus
from watchkeeper.rollout.spending import Spending, SpendingLimits


def trial(usd: float | None, tokens: int | None = 0, status: TrialStatus = "completed") -> Trial:
    """An attempt that cost so much."""
    return Trial(
        run_id="run",
        trial_id="trial",
        attempt=1,
        case_id="case",
        index=0,
        status=status,
        stop_reason="answered",
        trajectory=Trajectory((said("", tokens),)),
        requested_model=None,
        started_at=START,
        ended_at=START,
        latency_ms=None,
        cost_usd=usd,
    )


@dataclass
class Ledger:
    """What was let start, what it cost, and what was at work when the last one was let."""

    in_flight: list[float] = field(default_factory=list)
    at_last_grant: float = 0.0
    granted: int = 0
    refusals: set[str] = field(default_factory=set)

    def begin(self, cost: float) -> None:
        """A trial was let start that will turn out to cost so much."""
        self.granted += 1
        self.in_flight.append(cost)
        self.at_last_grant = sum(self.in_flight)


async def play(
    spending: Spending,
    costs: list[float],
    turns: list[int],
    *,
    in_tokens: bool = False,
    night: Ledger | None = None,
) -> Ledger:
    """All trials at once; each takes some turns of the loop before its cost is known."""
    ledger = Ledger()
    books = [ledger, *([night] if night else [])]

    async def one(number: int) -> None:
        refusal = await spending.reserve()
        if refusal is not None:
            ledger.refusals.add(refusal)
            return
        cost = costs[number]
        for book in books:
            book.begin(cost)
        for _ in range(turns[number % len(turns)]):
            await asyncio.sleep(0)
        for book in books:
            book.in_flight.remove(cost)
        await spending.settle(trial(0.0, int(cost)) if in_tokens else trial(cost))

    await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(len(costs)))), 20)
    return ledger


COSTS = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=40)
TURNS = st.lists(st.integers(0, 6), min_size=1, max_size=10)
LIMIT = st.integers(0, 200).map(float)


@settings(deadline=None, max_examples=200)
@given(costs=COSTS, turns=TURNS, limit=LIMIT, known=st.none() | st.integers(1, 20))
def test_dollars_overshoot_by_no_more_than_was_in_flight(
    costs: list[float], turns: list[int], limit: float, known: int | None
) -> None:
    """What was at work when the last trial was let start is all that can be too much."""
    spending = Spending(SpendingLimits(run_usd=limit, trial_usd=known))
    ledger = asyncio.run(play(spending, costs, turns))
    assert spending.spent_usd <= limit + ledger.at_last_grant
    assert ledger.granted == len(costs) or ledger.refusals == {"run_budget"}
    if known is not None and max(costs) <= known:
        assert spending.spent_usd <= limit


@settings(deadline=None, max_examples=100)
@given(costs=COSTS, turns=TURNS, limit=LIMIT)
def test_tokens_are_bounded_the_same_way(
    costs: list[float], turns: list[int], limit: float
) -> None:
    """For models without a price."""
    spending = Spending(SpendingLimits(run_tokens=int(limit)))
    ledger = asyncio.run(play(spending, costs, turns, in_tokens=True))
    assert spending.spent_tokens <= limit + ledger.at_last_grant
    assert ledger.granted == len(costs) or ledger.refusals == {"token_cap"}


@settings(deadline=None, max_examples=100)
@given(costs=COSTS, turns=TURNS, run_limit=LIMIT, night_limit=LIMIT)
def test_a_night_bounds_its_runs_together(
    costs: list[float], turns: list[int], run_limit: float, night_limit: float
) -> None:
    """Both bounds hold, and a refusal says which one it was."""
    together = Ledger()

    async def night() -> tuple[Spending, list[Spending], list[Ledger]]:
        shared = Spending(SpendingLimits(run_usd=night_limit))
        runs = [Spending(SpendingLimits(run_usd=run_limit), shared) for _ in range(2)]
        played = (play(one, costs, turns, night=together) for one in runs)
        return shared, runs, list(await asyncio.gather(*played))

    shared, runs, ledgers = asyncio.run(night())
    assert shared.spent_usd == sum(one.spent_usd for one in runs)
    assert shared.spent_usd <= night_limit + together.at_last_grant
    for one, ledger in zip(runs, ledgers, strict=True):
        assert one.spent_usd <= run_limit + ledger.at_last_grant
        assert ledger.refusals <= {"run_budget", "night_budget"}
        assert ledger.granted == len(costs) or ledger.refusals


async def test_the_first_trial_goes_alone_where_nobody_knows_what_one_costs() -> None:
    """Fifty at once could cost fifty times too much."""
    spending = Spending(SpendingLimits(run_usd=100))
    waiting = [asyncio.create_task(spending.reserve()) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert [task.done() for task in waiting] == [True, False, False]
    await spending.settle(trial(1.0))
    assert await asyncio.gather(*waiting) == [None, None, None]


async def test_a_failed_first_trial_tells_nothing_about_the_cost() -> None:
    """The next one goes alone again."""
    spending = Spending(SpendingLimits(run_usd=100))
    waiting = [asyncio.create_task(spending.reserve()) for _ in range(3)]
    await asyncio.sleep(0.01)
    await spending.settle(trial(0.0, status="harness_error"))
    await asyncio.sleep(0.01)
    assert [task.done() for task in waiting] == [True, True, False]
    await spending.settle(trial(1.0))
    assert await waiting[2] is None


async def test_a_declared_bound_of_a_trial_lets_many_start_at_once() -> None:
    """As many as would fit if each used it up."""
    spending = Spending(SpendingLimits(run_usd=1.0, trial_usd=0.3))
    assert [await spending.reserve() for _ in range(4)] == [None, None, None, "run_budget"]


async def test_a_trial_that_cost_more_than_any_before_makes_the_next_ones_wait() -> None:
    """The worst that was seen is what the next one may cost."""
    spending = Spending(SpendingLimits(run_usd=10.0, trial_usd=0.1))
    assert await spending.reserve() is None
    await spending.settle(trial(6.0))
    assert await spending.reserve() == "run_budget"


async def test_without_bounds_nothing_is_asked() -> None:
    """And what is spent is still counted."""
    spending = Spending(SpendingLimits())
    assert [await spending.reserve() for _ in range(100)] == [None] * 100
    for _ in range(100):
        await spending.settle(trial(0.5, 3))
    assert (spending.spent_usd, spending.spent_tokens) == (50.0, 300)


async def test_an_unpriced_trial_costs_no_dollars_that_anybody_knows() -> None:
    """Its tokens are counted; a budget in dollars needs a price or a cap."""
    spending = Spending(SpendingLimits(run_usd=1.0, run_tokens=10))
    assert await spending.reserve() is None
    await spending.settle(trial(None, 9))
    assert (spending.spent_usd, spending.spent_tokens) == (0.0, 9)
    assert await spending.reserve() == "token_cap"


async def test_what_was_spent_before_counts() -> None:
    """A run that is resumed has paid for its finished trials."""
    spending = Spending(SpendingLimits(run_usd=1.0, trial_usd=0.5))
    spending.count(trial(0.8))
    assert await spending.reserve() == "run_budget"
    elsewhere = Spending(SpendingLimits(run_usd=1.0, trial_usd=0.5))
    elsewhere.add_spent(0.8)
    assert await elsewhere.reserve() == "run_budget"
