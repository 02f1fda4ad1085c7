"""What every adapter promises; a new file in adapters/ is covered once it has a stand here."""

from __future__ import annotations

import asyncio
import itertools
import json
import pkgutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from tests.projects import script
from tests.servers import agent_server, openai_replies
from tests.servers import anthropic_replies as api
from tests.servers.anthropic_server import Call, anthropic_server
from tests.servers.loopback import Reply
from tests.servers.openai_replies import Answer
from tests.servers.openai_server import Call as OpenAICall
from tests.servers.openai_server import openai_server
from tests.unit.rollout.stored import MANIFEST, STAMP, stored_trials
from watchkeeper import adapters
from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.case import Case, ScriptedResult, ScriptedTool, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Endpoint, PriceTable
from watchkeeper.domain.ports import Adapter, ToolResults, TrialBrief
from watchkeeper.domain.records import transcript_row, trial_row
from watchkeeper.domain.trajectory import ToolCall, Trajectory
from watchkeeper.domain.trial import Trial
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.rollout.calls import Calls
from watchkeeper.rollout.conversation import Conversation
from watchkeeper.rollout.journal import Journal
from watchkeeper.rollout.toolbox import Toolbox

START = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
KEY = "sk-local-0123456789abcdef"
LOOK = ScriptedTool(
    "look", (ScriptedResult("a.txt"), ScriptedResult("no such file", is_error=True))
)
CASE = Case("case", "facts", (UserTurn("find it"), UserTurn("and now?")), (), tools=(LOOK,))
PRICES = PriceTable("none", {})


@dataclass(frozen=True)
class Stand:
    """An endpoint of one kind that plays the same scene: two calls, an answer, another answer.

    ``settings`` are the keys of its kind, ``variables`` what its secrets stand in.
    """

    settings: Mapping[str, object]
    variables: Mapping[str, str]
    root: Path
    was_called: Callable[[], bool]

    def endpoint(self, kind: str) -> Endpoint:
        """The endpoint as the loader makes it."""
        settings = adapter_module(kind).Settings.model_validate(self.settings)
        return Endpoint(
            "agent", kind, "team", "test", str(self.settings["model"]), (), settings, ""
        )

    def connected(self, kind: str, variables: Mapping[str, str] | None = None) -> Adapter:
        """The adapter, connected; ``variables`` in place of those that are right."""
        known = self.variables if variables is None else variables
        return adapter_module(kind).connect(
            self.endpoint(kind), known, self.root, SimulatedClock(START)
        )


TWO_CALLS: list[dict[str, Any]] = [
    {"tool": "look", "args": {"path": "a"}},
    {"tool": "look", "args": {"path": "b", "deep": {"list": [1, None, "ü\x00"]}}},
]


@asynccontextmanager
async def scripted(folder: Path, *, is_failing: bool) -> AsyncIterator[Stand]:
    """A scripted agent; failing, every second request meets a fault that passes."""
    behaviour = {
        "rounds": [{"calls": TWO_CALLS, "text": "let me look"}],
        "endings": [{"text": "it is a.txt", "state": {"found": ["a.txt"]}}],
        "usage": {"input": 100, "output": 10, "spread": 0.5},
        "faults": [{"kind": "overloaded", "chance": 0.8}] if is_failing else [],
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(script(behaviour)))
    yield Stand({"model": "alias", "script": "agent.yaml"}, {}, folder, lambda: False)


@asynccontextmanager
async def anthropic(folder: Path, *, is_failing: bool) -> AsyncIterator[Stand]:
    """The Messages API on loopback, which really is over HTTP."""
    asks = api.tool_uses([(one["tool"], one["args"]) for one in TWO_CALLS], text="let me look")
    faults = itertools.cycle([api.overloaded(), api.rate_limited(), api.html_page(502)])

    def reply(call: Call) -> Reply:
        if is_failing and call.number % 2:
            return next(faults)
        return asks if len(call.body["messages"]) == 1 else api.message("it is a.txt")

    with anthropic_server(reply, api_key=KEY) as server:
        settings = {"model": api.DEFAULT_MODEL, "api_key": "env:KEY", "base_url": server.url}
        yield Stand(settings, {"KEY": KEY}, folder, lambda: bool(server.calls))


@asynccontextmanager
async def http(folder: Path, *, is_failing: bool) -> AsyncIterator[Stand]:
    """A team's own agent on loopback, which reports in the documented format."""
    results = [("a.txt", False), ("no such file", True)]
    calls = [
        {"tool": one["tool"], "arguments": one["args"], "result": text, "is_error": is_error}
        for one, (text, is_error) in zip(TWO_CALLS, results, strict=True)
    ]
    common = {
        "usage": {"input_tokens": 100, "output_tokens": 10},
        "stop_reason": "stop",
        "served_model": "served-1",
        "latency_ms": 5,
    }
    ended = {"text": "it is a.txt", **common}
    faults = itertools.cycle([Reply(429), Reply(503), agent_server.page(502)])

    def reply(call: agent_server.Call) -> Reply:
        if is_failing and call.number % 2:
            return next(faults)
        is_first = len(call.body["messages"]) == 1
        looked = [{"text": "let me look", "tool_calls": calls, **common}] if is_first else []
        return Reply.json({"rounds": [*looked, ended]}, x_request_id=f"r{call.number}")

    with agent_server.agent_server(reply) as server:
        settings = {
            "model": "alias",
            "url": f"{server.url}/ask",
            "headers": {"authorization": "Bearer env:KEY"},
        }
        yield Stand(settings, {"KEY": KEY}, folder, lambda: bool(server.calls))


AGENT = """
import json, pathlib, sys
project, calls, turn, is_failing = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4]
log = pathlib.Path(project, "calls")
number = len(log.read_text()) if log.exists() else 0
log.write_text("x" * (number + 1))
if is_failing == "True" and number % 2 == 0:
    print("no network", file=sys.stderr)
    sys.exit(75)
USAGE = {"input_tokens": 100, "output_tokens": 10}
def tell(event):
    print(json.dumps({"session_id": "s-1", **event}), flush=True)
def say(name, block, stop):
    message = {"id": name, "model": "served-1", "content": [block], "usage": USAGE}
    tell({"type": "assistant", "message": {**message, "stop_reason": stop}})
if turn == "first":
    say("m1", {"type": "text", "text": "let me look"}, "tool_use")
    for index, call in enumerate(calls):
        block = {"type": "tool_use", "id": f"t{index}", "name": call["tool"], "input": call["args"]}
        say("m1", block, "tool_use")
    for index, text in enumerate(("a.txt", "no such file")):
        block = {"type": "tool_result", "tool_use_id": f"t{index}", "content": text}
        tell({"type": "user", "message": {"content": [{**block, "is_error": index > 0}]}})
elif turn != "s-1":
    sys.exit("another conversation")
say("m2", {"type": "text", "text": "it is a.txt"}, "end_turn")
tell({"type": "result", "subtype": "success", "is_error": False, "result": "it is a.txt"})
"""


@asynccontextmanager
async def command(folder: Path, *, is_failing: bool) -> AsyncIterator[Stand]:
    """A program that prints Claude Code's stream; it may say that its network is down."""
    (folder / "agent.py").write_text(AGENT)
    words = [sys.executable, "-I", "{project}/agent.py", "{project}", json.dumps(TWO_CALLS)]
    settings = {
        "model": "alias",
        "command": [*words, "first", str(is_failing), "{input}", "--model={model}"],
        "resume": [*words, "{session_id}", str(is_failing), "{input}"],
        "format": "claude",
        "variables": {"AGENT_KEY": "env:KEY"},
    }
    yield Stand(settings, {"KEY": KEY, "PATH": ""}, folder, (folder / "calls").exists)


PYTHON_AGENT = """
import time
from pathlib import Path

FOLDER = Path(__file__).parent
COMMON = {
    "usage": {"input_tokens": 100, "output_tokens": 10},
    "stop_reason": "stop",
    "served_model": "served-1",
}

class Busy(Exception):
    status_code = 529

def run(turn_number):
    (FOLDER / "called").open("a").write("x")
    count = (FOLDER / "called").stat().st_size
    if (FOLDER / "failing").exists() and count % 2:
        raise Busy("try again")
    common = {**COMMON, "latency_ms": time.monotonic_ns() % 10**8}
    looked = [{"text": "let me look", "tool_calls": CALLS, **common}] if turn_number == 1 else []
    return {"rounds": [*looked, {"text": "it is a.txt", **common}]}
"""


@asynccontextmanager
async def python(folder: Path, *, is_failing: bool) -> AsyncIterator[Stand]:
    """A team's callable, in a process of its own; failing, its provider is overloaded."""
    results = [("a.txt", False), ("no such file", True)]
    calls = [
        {"tool": one["tool"], "arguments": one["args"], "result": text, "is_error": is_error}
        for one, (text, is_error) in zip(TWO_CALLS, results, strict=True)
    ]
    (folder / "agent.py").write_text(f"CALLS = {calls!r}\n{PYTHON_AGENT}")
    (folder / "called").unlink(missing_ok=True)
    if is_failing:
        (folder / "failing").touch()
    settings = {"model": "alias", "callable": "agent:run"}
    yield Stand(settings, {}, folder, (folder / "called").exists)


@asynccontextmanager
async def openai(folder: Path, *, is_failing: bool) -> AsyncIterator[Stand]:
    """The Responses API on loopback, streamed."""
    asks = Answer("let me look", tuple((one["tool"], one["args"]) for one in TWO_CALLS))
    failing: list[Answer | Reply] = [
        openai_replies.server_error(),
        openai_replies.rate_limited(),
        Answer(cut_after=1),
    ]
    faults: Iterator[Answer | Reply] = itertools.cycle(failing)

    def reply(call: OpenAICall) -> Answer | Reply:
        if is_failing and call.number % 2:
            return next(faults)
        return asks if len(call.said) == 1 else Answer("it is a.txt")

    with openai_server(reply, api_key=KEY) as server:
        settings = {
            "model": openai_replies.DEFAULT_MODEL,
            "api_key": "env:KEY",
            "base_url": server.base_url,
            "api": "responses",
            "stream": True,
        }
        yield Stand(settings, {"KEY": KEY}, folder, lambda: bool(server.calls))


STANDS = {
    "scripted": scripted,
    "anthropic": anthropic,
    "openai": openai,
    "http": http,
    "command": command,
    "python": python,
}
KINDS = adapter_kinds()


def brief(seed: int = 1, trial_id: str = "t1") -> TrialBrief:
    """A trial of the case."""
    return TrialBrief(CASE, TrialLimits(seconds=86_400), Toolbox(CASE, {}).specs, seed, trial_id)


async def played(adapter: Adapter, one: TrialBrief) -> tuple[Trajectory, int]:
    """A whole trial, and how many requests were repeated."""
    session = await adapter.open(one)
    clock = SimulatedClock(START)
    talk = Conversation(
        session=session,
        toolbox=Toolbox(CASE, {}),
        case=CASE,
        limits=one.limits,
        calls=Calls("t1", 50, clock, lambda: 0.5),
        prices=PRICES,
        requested_model="alias",
        clock=clock,
    )
    assert await talk.play() == "answered"
    await session.close()
    return talk.trajectory, talk.calls.retry_count


def lasting(trajectory: Trajectory) -> Trajectory:
    """The trajectory without what differs from one request to the next: its time and number."""
    rounds = (
        replace(
            one,
            latency_ms=None,
            request_id=None,
            tool_calls=tuple(replace(call, latency_ms=None) for call in one.tool_calls),
        )
        for one in trajectory.rounds
    )
    return replace(trajectory, rounds=tuple(rounds))


def test_every_file_is_found_and_has_a_stand() -> None:
    """The file's name is the ``kind``; who adds one shows here that it keeps its promises."""
    files = {one.name for one in pkgutil.iter_modules(adapters.__path__) if one.name[0] != "_"}
    assert set(KINDS) == files
    assert set(KINDS) == set(STANDS), "add a stand for the new kind to STANDS"


def test_an_unknown_kind_is_not_imported() -> None:
    """A name from a file is never an import path."""
    for kind in ("no_such_kind", "_script", "../secrets", "scripted.os", ""):
        with pytest.raises(KeyError):
            adapter_module(kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_settings_are_frozen_and_refuse_unknown_keys(kind: str, tmp_path: Path) -> None:
    """A typo is never ignored, and nothing changes after the load."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        model = adapter_module(kind).Settings
        assert issubclass(model, BaseModel)
        settings = model.model_validate(stand.settings)
        with pytest.raises(ValidationError, match="frozen"):
            settings.model = "another"  # type: ignore[attr-defined]
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            model.model_validate({**stand.settings, "modle": "x"})
        for key in stand.settings:
            with pytest.raises(ValidationError):
                model.model_validate({**stand.settings, key: 7})


@pytest.mark.parametrize("kind", KINDS)
def test_settings_publish_a_schema_that_marks_secrets(kind: str) -> None:
    """For editors; a field that is named like a secret is given as env:NAME."""
    properties = adapter_module(kind).Settings.model_json_schema()["properties"]
    for name, schema in properties.items():
        is_secret = any(word in name for word in ("key", "token", "secret", "password"))
        if is_secret and schema.get("type") == "string":
            assert schema["secret"] is True
            assert schema["pattern"].startswith("^env:")


def secrets_of(kind: str) -> list[str]:
    """The fields that hold the name of a secret's variable."""
    properties = adapter_module(kind).Settings.model_json_schema()["properties"]
    return [name for name, schema in properties.items() if schema.get("secret")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_missing_secret_is_found_before_any_call(kind: str, tmp_path: Path) -> None:
    """The error names the variable and never a value."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        for field in secrets_of(kind):
            variable = str(stand.settings[field]).removeprefix("env:")
            for value in ({}, {variable: ""}, {variable: "  "}, {variable: "not a\nkey"}):
                with pytest.raises(UsageError, match=variable) as caught:
                    stand.connected(kind, {**stand.variables, variable: "", **value})
                assert "not a\nkey" not in str(caught.value)
        assert not stand.was_called()


@pytest.mark.parametrize("kind", KINDS)
async def test_connecting_makes_no_call(kind: str, tmp_path: Path) -> None:
    """A plan that is refused afterwards has cost nothing."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        adapter = stand.connected(kind)
        session = await adapter.open(brief())
        await session.close()
        await adapter.close()
        assert not stand.was_called()


@pytest.mark.parametrize("kind", KINDS)
async def test_closing_never_raises(kind: str, tmp_path: Path) -> None:
    """Unused, used, twice, in the middle of a step, or after its adapter."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        adapter = stand.connected(kind)
        unused, used, ended = [await adapter.open(brief()) for _ in range(3)]
        await used.step(UserTurn("find it"))
        task = asyncio.ensure_future(ended.step(UserTurn("find it")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for session in (unused, used, ended, used):
            await session.close()
        await adapter.close()
        await adapter.close()
        await used.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_it_says_what_is_asked_for_and_what_is_served(kind: str, tmp_path: Path) -> None:
    """Or why that cannot be known."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        adapter = stand.connected(kind)
        identity = await adapter.resolve()
        await adapter.close()
    assert identity.requested_model == stand.settings["model"]
    assert identity.resolved_model or identity.note


@pytest.mark.parametrize("kind", KINDS)
async def test_a_trial_is_rounds_with_their_calls_and_results(kind: str, tmp_path: Path) -> None:
    """Two calls made at once are one round; each of the user's turns ends in an answer."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        adapter = stand.connected(kind)
        trajectory, retries = await played(adapter, brief())
        await adapter.close()
    assert retries == 0
    assert [len(one.tool_calls) for one in trajectory.rounds] == [2, 0, 0]
    first = trajectory.rounds[0]
    assert first.text == "let me look"
    assert [(one.arguments["path"], one.result) for one in first.tool_calls] == [
        ("a", "a.txt"),
        ("b", "no such file"),
    ]
    assert first.tool_calls[1].arguments == TWO_CALLS[1]["args"]
    assert trajectory.answer == "it is a.txt"
    assert len({one.call_id for one in first.tool_calls}) == 2
    for one in trajectory.rounds:
        assert one.served_model
        assert one.stop_reason
        assert one.latency_ms is not None
        assert one.latency_ms >= 0
        assert (one.usage.total_tokens or 0) > 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_that_raised_changed_nothing(kind: str, tmp_path: Path) -> None:
    """The same observation given again leads to what would have happened at once."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        adapter = stand.connected(kind)
        undisturbed, none = await played(adapter, brief())
        await adapter.close()
    async with STANDS[kind](tmp_path, is_failing=True) as stand:
        adapter = stand.connected(kind)
        disturbed, some = await played(adapter, brief())
        await adapter.close()
    assert (none, some > 0) == (0, True)
    assert lasting(disturbed) == lasting(undisturbed)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_fault_says_whether_it_may_pass(kind: str, tmp_path: Path) -> None:
    """Its kind is a short word for the records, its text is one line without the key."""
    async with STANDS[kind](tmp_path, is_failing=True) as stand:
        adapter = stand.connected(kind)
        session = await adapter.open(brief())
        fault: EndpointFault | None = None
        for _ in range(50):
            try:
                await session.step(UserTurn("find it"))
            except EndpointFault as error:
                fault = error
                break
            session = await adapter.open(brief(trial_id=str(_)))
        await adapter.close()
    assert fault is not None
    assert fault.is_transient
    assert fault.kind.replace("_", "").isalpha()
    assert str(fault).isprintable()
    assert KEY not in str(fault)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_seed_gives_the_same_trial(kind: str, tmp_path: Path) -> None:
    """As far as the endpoint itself is repeatable, which these are."""
    found: list[Trajectory] = []
    for _ in range(2):
        async with STANDS[kind](tmp_path, is_failing=False) as stand:
            adapter = stand.connected(kind)
            found.append(lasting((await played(adapter, brief(seed=7, trial_id="t7")))[0]))
            await adapter.close()
    assert found[0] == found[1]


async def test_another_seed_gives_another_scripted_trial(tmp_path: Path) -> None:
    """What happens by chance comes from seed and trial, and from nothing else."""
    async with scripted(tmp_path, is_failing=False) as stand:
        adapter = stand.connected("scripted")
        briefs = [brief(seed, trial) for seed in (1, 2) for trial in ("a", "b")]
        usages = [(await played(adapter, one))[0].usage for one in briefs]
    assert len(set(usages)) == 4


@pytest.mark.parametrize("kind", KINDS)
async def test_sessions_do_not_know_of_each_other(kind: str, tmp_path: Path) -> None:
    """Two conversations whose steps alternate are the two that would have been."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        adapter = stand.connected(kind)
        box = Toolbox(CASE, {})
        sessions = [await adapter.open(brief(trial_id=name)) for name in ("one", "two")]
        asked = [await session.step(UserTurn("find it")) for session in sessions]
        given = [
            ToolResults(await box.answer(step.wanted)) if step.wanted else UserTurn("and now?")
            for step in asked
        ]
        ended = [
            await session.step(observation)
            for session, observation in zip(sessions, given, strict=True)
        ]
        await adapter.close()
    firsts = [step.waiting or step.rounds[0] for step in asked]
    assert [len(step.wanted or step.rounds[0].tool_calls) for step in asked] == [2, 2]
    assert [step.end for step in ended] == ["answered", "answered"]
    assert firsts[0] != firsts[1]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_trial_comes_back_from_the_store(kind: str, tmp_path: Path) -> None:
    """Journal, commit, Parquet and back: nothing that the adapter reported is lost."""
    async with STANDS[kind](tmp_path, is_failing=False) as stand:
        adapter = stand.connected(kind)
        trajectory, _ = await played(adapter, brief())
        await adapter.close()
    trial = Trial(
        run_id="run",
        trial_id="t1",
        attempt=1,
        case_id="case",
        index=0,
        status="completed",
        stop_reason="answered",
        trajectory=trajectory,
        requested_model="alias",
        started_at=START,
        ended_at=START,
        latency_ms=1.5,
        cost_usd=None,
    )
    with Journal(tmp_path / "trials.jsonl") as journal:
        row, said = trial_row(trial, STAMP, MANIFEST), transcript_row(trial)
        journal.append({"trial": row, "transcript": said})
    (stored,) = stored_trials(tmp_path, tmp_path / "trials.jsonl", MANIFEST)
    assert stored == replace(trial, trajectory=without_flags(trajectory))


def without_flags(trajectory: Trajectory) -> Trajectory:
    """The trajectory without ``is_error``, which ``status`` makes superfluous in records."""

    def bare(call: ToolCall) -> ToolCall:
        return replace(call, is_error=False)

    rounds = (
        replace(one, tool_calls=tuple(map(bare, one.tool_calls))) for one in trajectory.rounds
    )
    return replace(trajectory, rounds=tuple(rounds))
