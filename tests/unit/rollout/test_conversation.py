"""One trial from its first turn to its end, within its limits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rollout.stage import (
    A_DOLLAR_A_TOKEN,
    START,
    Scene,
    answer,
    busy,
    call,
    case,
    refused,
    said,
    scene,
    usage,
    wants,
)
from watchkeeper.clock import SimulatedClock, SystemClock
from watchkeeper.domain.case import ScriptedResult, ScriptedTool, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.ports import Step, ToolResults
from watchkeeper.domain.trajectory import Round
from watchkeeper.errors import EndpointFault
from watchkeeper.rollout.calls import DEFAULT_WAIT_S

FIND = ScriptedTool("find", (ScriptedResult("a.txt"),))


async def test_a_repeated_request_is_no_round() -> None:
    """The same observation is given again until it is answered; only the answer is a round."""
    one = scene(busy(), busy(), answer())
    assert await one.talk.play() == "answered"
    assert one.session.seen == [UserTurn("hello")] * 3
    assert len(one.talk.rounds) == 1
    assert one.talk.calls.retry_count == 2


async def test_waits_double_up_to_a_bound() -> None:
    """Half a second, one, two, …, never more than the longest."""
    one = scene(*[busy()] * 8, answer(), call_retries=8)
    await one.talk.play()
    waits = [later - earlier for earlier, later in itertools.pairwise(one.session.at)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0]


@given(jitter=st.floats(0, 1, exclude_max=True))
def test_a_wait_is_spread_by_half_to_either_side(jitter: float) -> None:
    """So that many trials that failed together do not come back together."""

    async def waited() -> float:
        one = scene(busy(), answer(), jitter=lambda: jitter)
        await one.talk.play()
        return one.clock.monotonic()

    assert asyncio.run(waited()) == pytest.approx(0.5 * (0.5 + jitter))


@pytest.mark.parametrize(
    ("asked", "waited"), [(None, 0.5), (0.0, 0.5), (0.2, 0.5), (3.0, 3.0), (600.0, 600.0)]
)
async def test_what_the_provider_asks_is_waited_in_full(asked: float | None, waited: float) -> None:
    """Who comes back earlier is refused again, and has one repetition less."""
    one = scene(busy(asked), answer())
    assert await one.talk.play() == "answered"
    assert one.clock.monotonic() == one.talk.calls.waited_s == waited


async def test_a_wait_beyond_the_bound_is_not_begun() -> None:
    """The fault is raised at once: ``retry-after`` of hours would hold a night."""
    one = scene(busy(DEFAULT_WAIT_S + 1), answer())
    with pytest.raises(EndpointFault, match="529"):
        await one.talk.play()
    assert one.clock.monotonic() == 0
    assert one.talk.calls.retry_count == 0


async def test_all_waits_of_a_trial_share_one_bound() -> None:
    """However many repetitions are left."""
    one = scene(*[busy()] * 11, call_retries=10)
    one.talk.calls.wait_s = 5
    with pytest.raises(EndpointFault):
        await one.talk.play()
    assert one.clock.monotonic() == one.talk.calls.waited_s == 3.5
    assert len(one.session.seen) == 4


async def test_time_that_was_waited_is_not_the_agents() -> None:
    """Refusals and failed requests never turn into a trial that ran out of time."""
    clock = SimulatedClock(START)

    def slow(step: Step | Exception) -> Callable[[], Step]:
        def act() -> Step:
            clock._monotonic += 4
            if isinstance(step, Exception):
                raise step
            return step

        return act

    acts = [slow(busy(30.0)), slow(wants(call("find"))), slow(busy()), slow(answer())]
    one = scene(*acts, on=case(tools=(FIND,)), limits=TrialLimits(seconds=9), clock=clock)
    assert await one.talk.play() == "answered"
    assert one.clock.monotonic() == 46.5
    assert one.talk.calls.waited_s == 4 + 30 + 4 + 0.5


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_a_passing_fault_that_stays_is_raised(retries: int) -> None:
    """After the bounded repetitions; what had happened before stays readable."""
    asks = wants(call("find"))
    one = scene(asks, *[busy()] * (retries + 1), on=case(tools=(FIND,)), call_retries=retries)
    with pytest.raises(EndpointFault):
        await one.talk.play()
    assert len(one.session.seen) == retries + 2
    assert one.talk.calls.retry_count == retries
    assert [done.result for done in one.talk.rounds[0].tool_calls] == ["a.txt"]


async def test_a_fault_that_stays_is_not_repeated() -> None:
    """A wrong key is wrong the next time too."""
    one = scene(refused())
    with pytest.raises(EndpointFault, match="401"):
        await one.talk.play()
    assert len(one.session.seen) == 1


@pytest.mark.parametrize(
    ("step", "stop"),
    [
        (answer("yes"), "answered"),
        (answer(""), "silent"),
        (answer(" \n"), "silent"),
        (answer("", action="ask_clarification"), "answered"),
        (answer("", state={"sent": 1}), "answered"),
        (answer("", end="refused"), "refused"),
        (answer("I will not.", end="refused"), "refused"),
        (answer("The capital of", end="truncated"), "truncated"),
        (answer("", end="agent_error", error="it raised"), "agent_error"),
    ],
)
async def test_an_end_is_recorded_as_what_it_was(step: Step, stop: str) -> None:
    """The agent had its chance; what it said and why it ended are kept."""
    one = scene(step)
    assert await one.talk.play() == stop
    assert one.talk.trajectory.answer == step.answer
    assert one.talk.trajectory.action == step.action
    assert one.talk.trajectory.state == step.state
    assert one.talk.error == step.error


async def test_an_agent_that_asks_for_tools_for_ever_meets_the_round_limit() -> None:
    """Exactly as many rounds as allowed; the last one's tools are not called for nothing."""
    asks = [wants(call("find", number)) for number in range(50)]
    one = scene(*asks, on=case(tools=(FIND,)), limits=TrialLimits(rounds=5))
    assert await one.talk.play() == "round_limit"
    assert len(one.talk.rounds) == 5
    assert [len(done.tool_calls) for done in one.talk.rounds] == [1] * 5
    assert [done.tool_calls[0].result for done in one.talk.rounds] == ["a.txt"] * 4 + [None]


async def test_the_last_allowed_round_may_answer() -> None:
    """A limit is what may be used, not what may not be reached."""
    asks = wants(call("find"))
    one = scene(asks, answer(), on=case(tools=(FIND,)), limits=TrialLimits(rounds=2))
    assert await one.talk.play() == "answered"


async def test_an_agent_with_its_own_loop_meets_the_round_limit() -> None:
    """Its rounds come at once and are counted all the same; none is thrown away."""
    many = Step(rounds=(said(),) * 7, answer="yes", end="answered")
    one = scene(many, limits=TrialLimits(rounds=6))
    assert await one.talk.play() == "round_limit"
    assert len(one.talk.rounds) == 7
    one = scene(many, limits=TrialLimits(rounds=7))
    assert await one.talk.play() == "answered"


@pytest.mark.parametrize(
    ("tokens", "stop"), [(9, "answered"), (10, "answered"), (11, "token_limit")]
)
async def test_tokens_beyond_the_limit_end_the_trial(tokens: int, stop: str) -> None:
    """Counted over all rounds; what was said stays."""
    one = scene(wants(call("find"), tokens=4), answer("yes", tokens - 4), on=case(tools=(FIND,)))
    one.talk.limits = TrialLimits(tokens=10)
    assert await one.talk.play() == stop
    assert one.talk.trajectory.usage.total_tokens == tokens


async def test_unknown_tokens_pass_no_limit() -> None:
    """What the provider did not count is not zero and not too much: it is unknown."""
    one = scene(answer("yes", None), limits=TrialLimits(tokens=1, cost_usd=0.1))
    one.talk.prices = A_DOLLAR_A_TOKEN
    assert await one.talk.play() == "answered"
    assert one.talk.cost_usd is None


@pytest.mark.parametrize(("tokens", "stop"), [(2, "answered"), (3, "cost_limit")])
async def test_dollars_beyond_the_limit_end_the_trial(tokens: int, stop: str) -> None:
    """By the price of the model that answered."""
    one = scene(answer("yes", tokens), limits=TrialLimits(cost_usd=2), prices=A_DOLLAR_A_TOKEN)
    assert await one.talk.play() == stop
    assert one.talk.cost_usd == tokens


async def test_dollars_that_the_agent_reports_count_where_there_is_no_price() -> None:
    """Summed over its steps."""
    steps = (answer("one", cost_usd=1.0), answer("two", cost_usd=1.5))
    one = scene(*steps, on=case("a", "b"), limits=TrialLimits(cost_usd=2))
    assert await one.talk.play() == "cost_limit"
    assert one.talk.cost_usd == 2.5


async def test_a_price_of_the_table_goes_before_what_the_agent_reports() -> None:
    """The table is dated and is compared over nights."""
    one = scene(answer("one", 3, cost_usd=0.1), prices=A_DOLLAR_A_TOKEN)
    await one.talk.play()
    assert one.talk.cost_usd == 3


async def test_an_unpriced_round_makes_the_whole_trial_unpriced() -> None:
    """A sum without one of its parts would be too small."""
    other = replace(said("", 5), served_model="another-model")
    one = scene(Step(rounds=(said("", 3), other), answer="x", end="answered"))
    one.talk.prices, one.talk.requested_model = A_DOLLAR_A_TOKEN, None
    await one.talk.play()
    assert one.talk.cost_usd is None


async def test_a_step_that_takes_too_long_is_the_time_limit() -> None:
    """The trial's own deadline is round every call, whatever the client promises."""

    class Slow:
        async def step(self, observation: object) -> Step:
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None: ...

    one = scene(limits=TrialLimits(seconds=0.05), clock=SystemClock())
    one.talk.session = Slow()
    assert await asyncio.wait_for(one.talk.play(), 5) == "time_limit"


async def test_time_that_passed_in_a_step_counts() -> None:
    """Also where the step came back by itself."""
    clock = SimulatedClock(START)

    def late() -> Step:
        clock._monotonic += 11
        return answer("too late")

    one = scene(late, limits=TrialLimits(seconds=10), clock=clock)
    assert await one.talk.play() == "time_limit"
    assert one.talk.trajectory.answer == "too late"


async def test_calls_made_at_once_are_one_round() -> None:
    """Their results come back together, in the order of the calls."""
    calls = [call("find", 0), call("absent", 1), call("find", 2)]
    one = scene(wants(*calls), answer(), on=case(tools=(FIND,)))
    assert await one.talk.play() == "answered"
    assert len(one.talk.rounds) == 2
    given = one.session.seen[1]
    assert isinstance(given, ToolResults)
    assert [done.call_id for done in given.calls] == ["call_0", "call_1", "call_2"]
    assert [done.status for done in given.calls] == ["ok", "error", "ok"]
    assert one.talk.rounds[0].tool_calls == given.calls


async def test_results_that_the_agent_already_has_are_kept() -> None:
    """Only the calls without one are answered."""
    known = replace(call("find", 0), result="mine", status="ok")
    one = scene(wants(known, call("find", 1)), answer(), on=case(tools=(FIND,)))
    await one.talk.play()
    assert [done.result for done in one.talk.rounds[0].tool_calls] == ["mine", "a.txt"]


async def test_a_paused_turn_goes_on() -> None:
    """A step without an end that wants nothing is continued with no results."""
    one = scene(Step(rounds=(said("searching"),)), Step(rounds=(said("more"),)), answer("done"))
    assert await one.talk.play() == "answered"
    assert one.session.seen == [UserTurn("hello"), ToolResults(()), ToolResults(())]
    assert [done.text for done in one.talk.rounds] == ["searching", "more", "done"]


async def test_an_agent_that_pauses_for_ever_meets_the_round_limit() -> None:
    """A pause is a round like any other."""
    one = scene(*[Step(rounds=(said(),))] * 9, limits=TrialLimits(rounds=4))
    assert await one.talk.play() == "round_limit"
    assert len(one.session.seen) == 4


async def test_turns_of_the_user_follow_each_other() -> None:
    """Each waits for the end of the one before; the answer is that to the last."""
    steps = (answer("first"), wants(call("find")), answer("second"), answer("third"))
    one = scene(*steps, on=case("a", "b", "c", tools=(FIND,)))
    assert await one.talk.play() == "answered"
    turns = [given.text for given in one.session.seen if isinstance(given, UserTurn)]
    assert turns == ["a", "b", "c"]
    assert len(one.talk.rounds) == 4
    assert one.talk.trajectory.answer == "third"


async def test_silence_on_the_last_turn_is_silence() -> None:
    """What was said before does not answer it."""
    one = scene(answer("first"), answer(""), on=case("a", "b"))
    assert await one.talk.play() == "silent"


@pytest.mark.parametrize("end", ["refused", "truncated", "agent_error"])
async def test_a_turn_that_ends_badly_ends_the_trial(end: str) -> None:
    """The user would not have gone on as the case says."""
    one = scene(answer("no", end=end), answer("second"), on=case("a", "b"))
    assert await one.talk.play() == end
    assert len(one.session.seen) == 1


async def test_limits_hold_over_all_turns() -> None:
    """A trial has them once."""
    steps = [answer(str(number)) for number in range(5)]
    one = scene(*steps, on=case(*"abcde"), limits=TrialLimits(rounds=3))
    assert await one.talk.play() == "round_limit"
    assert len(one.talk.rounds) == 4


async def test_a_tool_that_takes_too_long_is_the_time_limit() -> None:
    """The round that waits for it is kept, with its call unanswered."""
    from watchkeeper.rollout.toolbox import load_python_tools

    tools = load_python_tools("tests.unit.rollout.team_tools:TOOLS", Path())
    one = scene(
        wants(call("never")),
        limits=TrialLimits(seconds=0.05),
        clock=SystemClock(),
        python_tools=tools,
    )
    assert await asyncio.wait_for(one.talk.play(), 5) == "time_limit"
    (waiting,) = one.talk.rounds
    assert [(done.result, done.status) for done in waiting.tool_calls] == [(None, "unanswered")]


def test_usage_of_stage_is_what_it_says() -> None:
    """The tests above count with it."""
    assert Round(usage=usage(3)).usage.total_tokens == 3
    assert usage(None).total_tokens is None
    assert isinstance(scene(), Scene)
