"""The tools of a trial: scripted by the case, or functions of a team's own module."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.rollout.stage import call, case
from watchkeeper.domain.case import ScriptedResult, ScriptedTool
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.trajectory import ToolCall
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.rollout.toolbox import MAX_RESULT_CHARACTERS, Toolbox, load_python_tools

TEAM = "tests.unit.rollout.team_tools:TOOLS"


def tools(reference: str = TEAM) -> Toolbox:
    """A trial's tools without scripted ones."""
    return Toolbox(case(), load_python_tools(reference, Path()))


async def answered(box: Toolbox, *calls: ToolCall) -> Sequence[ToolCall]:
    """The calls with their results, in time."""
    return await asyncio.wait_for(box.answer(calls), 20)


async def test_functions_are_called_with_their_arguments() -> None:
    """Sync and async ones alike; what is no text becomes JSON."""
    added, found = await answered(
        tools(), call("add", first=2, second=3), call("find", pattern="a")
    )
    assert (added.result, added.status, added.is_error) == ("5", "ok", False)
    assert (found.result, found.status, found.is_error) == ('["a.txt"]', "ok", False)
    assert added.latency_ms is not None


async def test_defaults_hold_for_what_is_left_out() -> None:
    """As Python itself would call it."""
    (added,) = await answered(tools(), call("add", first=2))
    assert added.result == "3"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "first\n  Missing required argument"),
        ({"first": "two"}, "first\n  Input should be a valid integer"),
        ({"first": 1, "third": 2}, "third\n  Unexpected keyword argument"),
    ],
)
async def test_arguments_that_do_not_fit_are_an_error_for_the_agent(
    arguments: dict[str, object], says: str
) -> None:
    """It is told which one and why, and may try again."""
    (done,) = await answered(tools(), ToolCall("add", arguments))
    assert done.result is not None
    assert done.result.startswith("the arguments do not fit: ")
    assert says in done.result
    assert (done.status, done.is_error) == ("error", True)


async def test_a_tool_that_raises_is_an_error_for_the_agent() -> None:
    """What it raised, and that the path is missing where it says so; nothing ends the trial."""
    broken, left = await answered(tools(), call("broken", path="a.txt"), call("leave"))
    assert broken.result == "FileNotFoundError: [Errno 2] No such file or directory: 'a.txt'"
    assert (broken.status, broken.is_error) == ("missing_path", True)
    assert (left.result, left.status) == ("SystemExit: 3", "error")


async def test_an_unknown_tool_is_an_error_for_the_agent() -> None:
    """Models invent names."""
    (done,) = await answered(tools(), call("delete_everything"))
    assert done.result == "there is no tool 'delete_everything'"
    assert (done.status, done.is_error) == ("error", True)


async def test_a_tool_that_returns_nothing_is_empty() -> None:
    """Not the text ``None``."""
    (done,) = await answered(tools(), call("nothing"))
    assert (done.result, done.status, done.is_silent) == ("", "empty", False)


async def test_a_silent_tool_is_marked() -> None:
    """It never makes a round barren."""
    box = tools()
    (done,) = await answered(box, call("scratch_pad", text="x"))
    assert (done.status, done.is_silent) == ("empty", True)
    (spec,) = [one for one in box.specs if one.name == "scratch_pad"]
    assert (spec.description, spec.is_silent) == ("A pad.", True)


async def test_calls_of_one_round_are_at_work_at_the_same_time() -> None:
    """Two sync functions wait for each other, each in a thread of its own."""
    first, second = await answered(tools(), call("meet"), call("meet"))
    assert (first.result, second.result) == ("met", "met")


async def test_what_json_cannot_hold_is_told_as_text() -> None:
    """A result is for a model to read; it never ends the trial."""
    (done,) = await answered(tools(), call("odd"))
    assert done.result is not None
    assert done.result.startswith('{"at": "<class')


async def test_results_are_bounded() -> None:
    """A tool that returns a disk does not fill the records."""
    long = ScriptedTool("cat", (ScriptedResult("x" * (MAX_RESULT_CHARACTERS + 7)),))
    (done,) = await answered(Toolbox(case(tools=(long,)), {}), call("cat"))
    assert done.result is not None
    assert done.result.endswith("x… (+7 characters)")
    assert len(done.result) < MAX_RESULT_CHARACTERS + 50


async def test_scripted_results_come_in_order_and_the_last_stays() -> None:
    """Over all rounds of the trial, also where one round calls twice."""
    results = (ScriptedResult("boom", is_error=True), ScriptedResult("[]"), ScriptedResult("fine"))
    box = Toolbox(case(tools=(ScriptedTool("look", results),)), {})
    first = await answered(box, call("look"), call("look"))
    second = await answered(box, call("look"), call("look"))
    assert [(one.result, one.status) for one in (*first, *second)] == [
        ("boom", "error"),
        ("[]", "empty"),
        ("fine", "ok"),
        ("fine", "ok"),
    ]


async def test_every_trial_begins_its_scripted_results_anew() -> None:
    """Trials of a case do not know of each other."""
    look = ScriptedTool("look", (ScriptedResult("one"), ScriptedResult("two")))
    for _ in range(2):
        (done,) = await answered(Toolbox(case(tools=(look,)), {}), call("look"))
        assert done.result == "one"


async def test_a_scripted_tool_takes_the_place_of_a_real_one() -> None:
    """No case needs the world; the model is told of one tool of the name."""
    script = ScriptedTool("add", (ScriptedResult("scripted"),), "Says so.", is_silent=True)
    box = Toolbox(case(tools=(script,)), load_python_tools(TEAM, Path()))
    (done,) = await answered(box, call("add", first="not even a number"))
    assert (done.result, done.is_silent) == ("scripted", True)
    (spec,) = [one for one in box.specs if one.name == "add"]
    assert (spec.description, spec.input_schema) == ("Says so.", {"type": "object"})


def test_a_model_is_told_what_a_function_takes() -> None:
    """Name, first words, and a JSON Schema of its arguments."""
    (spec,) = [one for one in tools().specs if one.name == "add"]
    assert spec.description == "Adds two numbers."
    assert spec.input_schema["required"] == ["first"]
    properties = spec.input_schema["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == {"first", "second"}


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("no.such.module:TOOLS", "module 'no.such.module' does not import: ModuleNotFoundError"),
        ("tests.unit.rollout.team_tools:ABSENT", "is not a list of tools"),
        ("tests.unit.rollout.team_tools:add", "is not a list of tools"),
        ("tests.unit.rollout.team_tools:TEXT", "is not a list of tools"),
        ("tests.unit.rollout.team_tools:NUMBERS", "holds 1; expected a function, or a mapping"),
        ("tests.unit.rollout.team_tools:TWICE", "has two tools 'add'"),
    ],
)
def test_tools_that_cannot_be_used_are_told(reference: str, says: str) -> None:
    """Before the first call, naming what the configuration names."""
    with pytest.raises(UsageError) as caught:
        load_python_tools(reference, Path())
    assert says in str(caught.value)


def test_without_a_reference_there_are_no_tools() -> None:
    """Most endpoints have none."""
    assert load_python_tools(None, Path()) == {}


@dataclass
class Slow:
    """A tool whose surroundings fail, or that never comes back."""

    fault: EndpointFault | None = None
    was_cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    spec: ToolSpec = field(default_factory=lambda: ToolSpec("slow", "", {}))

    async def call(self, arguments: Mapping[str, object]) -> object:
        """Raises, or waits."""
        if self.fault is not None:
            raise self.fault
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise
        return ""


async def test_a_fault_behind_a_tool_is_not_for_the_agent() -> None:
    """It ends the trial, and nothing that was asked at the same time goes on."""
    slow = Slow()
    fault = EndpointFault("gone", kind="mcp_server", is_transient=True)
    box = Toolbox(case(), {"slow": slow, "broken": Slow(fault)})
    with pytest.raises(EndpointFault, match="gone") as caught:
        await answered(box, call("slow"), call("broken"))
    assert caught.value is fault
    assert slow.was_cancelled.is_set()
