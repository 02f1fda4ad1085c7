"""A model plays the user: what it is told, when it has said enough, and whose fault is whose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.rollout.stage import (
    A_DOLLAR_A_TOKEN,
    START,
    Act,
    Played,
    Scene,
    answer,
    busy,
    call,
    case,
    refused,
    scene,
    wants,
)
from watchkeeper.domain.case import SimulatedUser, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Observation, Step
from watchkeeper.domain.simulator import Simulator
from watchkeeper.errors import EndpointFault
from watchkeeper.rollout.calls import Calls
from watchkeeper.rollout.simulated_user import SimulatedTalk

USER = SimulatedUser("grumpy", "identity", "a refund for order 77")
CASE = case("hello", "I want my money back", user=USER)


def simulator(**more: Any) -> Simulator:
    """A simulated user that may say three things."""
    endpoint = Endpoint("grumpy", "scripted", "", "simulator", "user-v1", (), None, "hash")
    return replace(Simulator("grumpy", endpoint, 3, "[END]"), **more)


def calls_of(one: Scene) -> Calls:
    """Its requests, each repeated three times at most."""
    return Calls("trial", 3, one.clock, lambda: 0.5)


def with_user(agent: list[Act], user: list[Act], **more: Any) -> tuple[Scene, SimulatedTalk]:
    """A trial whose user is played, and the user's side of it."""
    one = scene(*agent, on=CASE, prices=A_DOLLAR_A_TOKEN)
    played = Played(user, one.clock)
    talk = SimulatedTalk(simulator(**more), CASE, played, calls_of(one), A_DOLLAR_A_TOKEN, START)
    one.talk.user = talk
    return one, talk


def heard(one: Scene) -> list[str]:
    """What the user said to the agent."""
    return [given.text for given in one.session.seen if isinstance(given, UserTurn)]


async def test_it_goes_on_after_the_turns_of_the_case() -> None:
    """Until it says that it has nothing more to say, which the agent is not told."""
    one, talk = with_user(
        [answer("hi"), answer("which order?"), answer("done")], [answer("77"), answer("[END]")]
    )
    assert await one.talk.play() == "answered"
    assert heard(one) == ["hello", "I want my money back", "77"]
    assert one.talk.answer == "done"
    assert [len(one.talk.trajectory.rounds), len(talk.use.rounds)] == [3, 2]


async def test_it_is_told_its_goal_once_and_then_each_answer() -> None:
    """The first message holds what was said so far; the later ones are the agent's words."""
    one = scene(answer("hi"), answer("which order?"), answer("done"), on=CASE)
    played = Played([answer("77"), answer("[END]")], one.clock)
    calls = calls_of(one)
    one.talk.user = SimulatedTalk(simulator(), CASE, played, calls, A_DOLLAR_A_TOKEN, START)
    await one.talk.play()
    first, second = [given.text for given in played.seen if isinstance(given, UserTurn)]
    for text in ("a refund for order 77", "I want my money back", "which order?", "[END]"):
        assert text in first
    assert second == "done"


async def test_it_says_no_more_than_it_may() -> None:
    """The bound is in the configuration, not in the model's manners."""
    one, talk = with_user([answer("go on")] * 5, [answer("and?")] * 9)
    assert await one.talk.play() == "answered"
    assert heard(one)[2:] == ["and?"] * 3
    assert len(talk.use.rounds) == 3


async def test_it_is_not_asked_after_the_trial_is_over() -> None:
    """An agent that crashed is not talked to any more."""
    one, talk = with_user([answer("hi"), answer("", end="agent_error", error="boom")], [])
    assert await one.talk.play() == "agent_error"
    assert talk.use.rounds == ()


async def test_its_cost_is_its_own() -> None:
    """The agent's dollars and rounds are what they would be with a person."""
    one, talk = with_user(
        [answer("a", 1), answer("b", 2), answer("c", 4)], [answer("x", 100), answer("[END]", 200)]
    )
    await one.talk.play()
    assert one.talk.cost_usd == 7.0
    assert talk.use.cost_usd == 300.0


async def test_its_time_is_not_the_agents() -> None:
    """A slow simulator makes no agent run into its limit."""
    one, talk = with_user([answer("a")] * 5, [])

    class Slow(Played):
        async def step(self, observation: Observation) -> Step:
            await self.clock.sleep(1000)
            return answer("and?")

    talk.session = Slow((), one.clock)
    one.talk.limits = TrialLimits(seconds=60)
    assert await one.talk.play() == "answered"
    assert len(heard(one)) == 5


@pytest.mark.parametrize(
    ("act", "kind", "is_transient"),
    [
        (busy(), "simulator", True),
        (answer(" "), "simulator_silent", True),
        (answer("", end="refused"), "simulator", True),
        (answer("half", end="truncated"), "simulator", True),
        (answer("", end="agent_error", error="boom"), "simulator", True),
        (wants(call("look")), "simulator", True),
    ],
)
async def test_its_failure_is_the_instruments(act: Act, kind: str, is_transient: bool) -> None:
    """Nothing that the simulator does is the agent's failure; what the agent did stays."""
    one, _ = with_user([answer("hi"), answer("which order?")], [act] * 4)
    with pytest.raises(EndpointFault, match="simulated user 'grumpy'") as caught:
        await one.talk.play()
    assert (caught.value.kind, caught.value.is_transient) == (kind, is_transient)
    assert len(one.talk.trajectory.rounds) == 2


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"token_limit": 150}, "used 200 tokens of at most 150"),
        ({"cost_limit_usd": 150.0}, r"cost \$200.0000 of at most \$150"),
    ],
)
async def test_it_is_bounded_itself(bounds: dict[str, Any], says: str) -> None:
    """What it used before the bound is recorded; it is asked nothing more."""
    one, talk = with_user([answer("a")] * 5, [answer("x", 100)] * 5, **bounds)
    with pytest.raises(EndpointFault, match=says) as caught:
        await one.talk.play()
    assert (caught.value.kind, caught.value.is_transient) == ("simulator_limit", False)
    assert len(talk.use.rounds) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, max_turns=4),
        lambda one: replace(one, ends_with="bye"),
        lambda one: replace(one, token_limit=10),
        lambda one: replace(one, cost_limit_usd=1.0),
        lambda one: replace(one, endpoint=replace(one.endpoint, requested_model="user-v2")),
        lambda one: replace(one, endpoint=replace(one.endpoint, config_hash="prompt")),
    ],
)
def test_its_identity_is_all_that_decides_what_it_says(
    change: Callable[[Simulator], Simulator],
) -> None:
    """Rounds with one user are not compared with rounds with another."""
    assert change(simulator()).identity != simulator().identity


async def test_its_requests_are_repeated_within_bounds() -> None:
    """A fault that passes is not seen; a lasting one, or one too many, is the instrument's."""
    one, talk = with_user([answer("hi")] * 9, [busy(3.0), busy(), answer("x"), refused()])
    with pytest.raises(EndpointFault, match="401") as caught:
        await one.talk.play()
    assert caught.value.kind == "simulator"
    assert talk.calls.retry_count == 2
    assert talk.calls.waited_s == 4.0
    assert one.talk.calls.retry_count == 0
