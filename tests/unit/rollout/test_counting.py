"""Exact counts of small scenes through the real engine: what is a round, and what it brought.

The model's scenes run over the real SDK against a server on loopback, with real tools; the scenes
of agents that own their loop are what their adapter hands over. One line of the table is one
count, stated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers import anthropic_replies as api
from tests.servers.anthropic_server import anthropic_server
from tests.servers.loopback import Reply
from tests.unit.rollout.stage import START, answer, call, case, said, scene
from watchkeeper.adapters.anthropic import Settings, connect
from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.case import ScriptedResult, ScriptedTool, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Step, TrialBrief
from watchkeeper.domain.tallies import ToolTally, tally_rounds
from watchkeeper.domain.trajectory import CallStatus, ToolCall, Usage
from watchkeeper.rollout.conversation import Conversation
from watchkeeper.rollout.toolbox import PythonTool, load_python_tools

ROOT = Path(__file__).resolve().parents[3]
FIND = ScriptedTool("find", (ScriptedResult("a.txt"), ScriptedResult("[]")))
ABSENT = ScriptedTool("read", (ScriptedResult("no such file: b.txt", is_error=True),))
NOTE = ScriptedTool("note", (ScriptedResult(""),), is_silent=True)
TURN = UserTurn("hello")


@dataclass(frozen=True)
class Counts:
    """What a scene comes to; of every tool its calls and what each brought."""

    rounds: int
    calling: int = 0
    barren: int = 0
    retries: int = 0
    stop: str = "answered"
    tools: Mapping[str, Sequence[CallStatus]] = field(default_factory=dict)
    tokens: tuple[int, int] | None = None


def one(name: str, call_id: str = "c1") -> Reply:
    """A response that calls one tool."""
    return api.tool_use(name, {"path": "b.txt"}, call_id=call_id)


MODELS: Mapping[str, tuple[Sequence[Reply], Counts]] = {
    "a final answer without calls is a round": ([api.message("yes")], Counts(1, tokens=(12, 5))),
    "a call and the answer are two": (
        [one("find"), api.message("yes")],
        Counts(2, calling=1, tools={"find": ["ok"]}, tokens=(24, 10)),
    ),
    "parallel calls are one round": (
        [api.tool_uses([("find", {}), ("find", {}), ("read", {})]), api.message("yes")],
        Counts(2, calling=1, tools={"find": ["ok", "empty"], "read": ["missing_path"]}),
    ),
    "parallel calls that all bring nothing are one barren round": (
        [one("find"), api.tool_uses([("find", {}), ("read", {})]), api.message("yes")],
        Counts(3, calling=2, barren=1, tools={"find": ["ok", "empty"], "read": ["missing_path"]}),
    ),
    "a retried request is no round": (
        [api.overloaded(), one("find"), api.rate_limited(), api.server_error(), api.message("y")],
        Counts(2, calling=1, retries=3, tools={"find": ["ok"]}, tokens=(24, 10)),
    ),
    "every pause is a round, without calls": (
        [api.paused(), api.paused(), api.message("yes")],
        Counts(3, tokens=(36, 15)),
    ),
    "a refusal is a round": ([api.refusal()], Counts(1, stop="refused", tokens=(12, 0))),
    "a refusal after work is a round of its own": (
        [one("find"), api.refusal()],
        Counts(2, calling=1, stop="refused", tools={"find": ["ok"]}),
    ),
    "an answer cut off at max tokens is a round": (
        [api.cut_off()],
        Counts(1, stop="truncated", tokens=(12, 5)),
    ),
    "half a call at max tokens is unanswered, and its round barren": (
        [
            api.message(
                content=[{"type": "tool_use", "id": "t", "name": "find", "input": {}}],
                stop_reason="max_tokens",
            )
        ],
        Counts(1, calling=1, barren=1, stop="truncated", tools={"find": ["unanswered"]}),
    ),
    "a tool that raises is an error": (
        [one("broken"), one("leave", "c2"), api.message("yes")],
        Counts(3, calling=2, barren=2, tools={"broken": ["missing_path"], "leave": ["error"]}),
    ),
    "a tool that does not exist is an error": (
        [one("guess"), api.message("yes")],
        Counts(2, calling=1, barren=1, tools={"guess": ["error"]}),
    ),
    "a silent tool alone makes no round that counts": (
        [one("note"), api.message("yes")],
        Counts(2, tools={"note": ["empty"]}),
    ),
    "a silent tool saves no barren round": (
        [api.tool_uses([("note", {}), ("read", {})]), api.message("yes")],
        Counts(2, calling=1, barren=1, tools={"note": ["empty"], "read": ["missing_path"]}),
    ),
    "the last allowed round still asks": (
        [one("find"), one("find"), one("find")],
        Counts(
            3,
            calling=3,
            barren=2,
            stop="round_limit",
            tools={"find": ["ok", "empty", "unanswered"]},
        ),
    ),
    "an answer of nothing is a round": ([api.message("")], Counts(1, stop="silent")),
}


@pytest.fixture
def tools() -> dict[str, PythonTool]:
    """Two tools that raise, as a team has them."""
    found = load_python_tools("tests.unit.rollout.team_tools:TOOLS", ROOT)
    return {name: found[name] for name in ("broken", "leave")}


async def played(
    replies: Sequence[Reply], tools: Mapping[str, PythonTool]
) -> tuple[Conversation, str]:
    """A trial whose model answers so, and how it ended."""
    clock = SimulatedClock(START)
    endpoint = Endpoint(
        name="agent",
        kind="anthropic",
        owner="team",
        env="production",
        requested_model=api.DEFAULT_MODEL,
        suites=(),
        settings=Settings(model=api.DEFAULT_MODEL, api_key="env:A_KEY", base_url=None),
        config_hash="",
    )
    on = case(tools=(FIND, ABSENT, NOTE))
    limits = TrialLimits(rounds=3)
    with anthropic_server(replies) as server:
        settings = Settings(model=api.DEFAULT_MODEL, api_key="env:A_KEY", base_url=server.url)
        variables = {"A_KEY": "sk-local-0123456789abcdef"}
        adapter = connect(replace(endpoint, settings=settings), variables, ROOT, clock)
        talk = scene(on=on, limits=limits, python_tools=tools, clock=clock).talk
        brief = TrialBrief(on, limits, talk.toolbox.specs, seed=1, trial_id="t")
        talk.session = await adapter.open(brief)
        try:
            stop = await talk.play()
        finally:
            await talk.session.close()
            await adapter.close()
        assert len(server.message_calls) == len(replies)
    return talk, stop


def counted(talk: Conversation, stop: str, *, with_tokens: bool) -> Counts:
    """What the engine made of it."""
    trajectory = talk.trajectory
    found = tally_rounds([trajectory], dict[str, ToolTally]())
    tools: dict[str, list[CallStatus]] = {}
    for made in trajectory.tool_calls:
        tools.setdefault(made.tool, []).append(made.status)
    usage = trajectory.usage
    assert found.barren_round_count == trajectory.barren_round_count
    return Counts(
        found.round_count,
        found.calling_round_count,
        found.barren_round_count,
        talk.calls.retry_count,
        stop,
        tools,
        (usage.input_tokens or 0, usage.output_tokens or 0) if with_tokens else None,
    )


@pytest.mark.parametrize("name", MODELS)
async def test_a_model_with_our_loop(name: str, tools: dict[str, PythonTool]) -> None:
    """Each response once, each call once, each token once."""
    replies, expected = MODELS[name]
    talk, stop = await played(replies, tools)
    assert counted(talk, stop, with_tokens=expected.tokens is not None) == expected


def made(tool: str, status: CallStatus, *, is_silent: bool = False) -> ToolCall:
    """A call that the agent has already answered itself."""
    result = None if status == "unanswered" else status
    return replace(call(tool), result=result, status=status, is_silent=is_silent)


def by(agent: str, *calls: ToolCall) -> Any:
    """A response of a sub-agent."""
    return replace(said("", 1, *calls), agent=agent)


AGENTS: Mapping[str, tuple[Callable[[], Sequence[Step]], Counts]] = {
    # The agent delegates (1), the searcher works (2) and reports (3), the agent answers (4).
    "a sub-agent's responses are rounds too": (
        lambda: [
            Step(
                rounds=(
                    said("", 1, made("delegate", "ok")),
                    by("searcher", made("find", "empty"), made("find", "error")),
                    by("searcher"),
                    said("yes"),
                ),
                answer="yes",
                end="answered",
            )
        ],
        Counts(4, calling=2, barren=1, tools={"delegate": ["ok"], "find": ["empty", "error"]}),
    ),
    "rounds that come in several steps are each counted once": (
        lambda: [
            Step(rounds=(said("", 1, made("find", "ok")),)),
            Step(rounds=(said("", 1, made("find", "unanswered")),)),
            answer(),
        ],
        Counts(3, calling=2, barren=1, tools={"find": ["ok", "unanswered"]}),
    ),
    "an agent that crashed has the rounds that it told": (
        lambda: [Step(rounds=(said("", 1, made("find", "ok")),), end="agent_error", error="bang")],
        Counts(1, calling=1, stop="agent_error", tools={"find": ["ok"]}),
    ),
}


@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_with_its_own_loop(name: str) -> None:
    """What it reports is taken as it is, and counted by the same rules."""
    steps, expected = AGENTS[name]
    talk = scene(*steps()).talk
    stop = await talk.play()
    assert counted(talk, stop, with_tokens=False) == expected


async def test_sub_agents_keep_their_names(tools: dict[str, PythonTool]) -> None:
    """A round says whose response it is; the agent's own have no name."""
    steps, _ = AGENTS["a sub-agent's responses are rounds too"]
    talk = scene(*steps()).talk
    await talk.play()
    assert [done.agent for done in talk.rounds] == [None, "searcher", "searcher", None]


async def test_tokens_of_every_class_once(tools: dict[str, PythonTool]) -> None:
    """Cached tokens stand beside the input, not in it; a repeated request brings none."""
    replies = [
        api.overloaded(),
        api.message(input_tokens=10, output_tokens=7, cache_creation=300, cache_read=2_000),
    ]
    talk, _ = await played(replies, tools)
    usage = talk.trajectory.usage
    assert usage == Usage(10, 300, 0, 2_000, 7, usage.thinking_tokens)
    assert usage.total_tokens == 2_317
