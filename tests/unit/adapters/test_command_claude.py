"""Claude Code's stream: what is a round in it, what it cost, and how it ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watchkeeper.adapters._command.claude import ClaudeStream
from watchkeeper.adapters._reported_format import Unreadable
from watchkeeper.domain.ports import Step
from watchkeeper.domain.trajectory import Trajectory, Usage
from watchkeeper.errors import EndpointFault, EndpointOverloaded, EndpointRefused

STREAMS = Path(__file__).parents[2] / "data" / "streams"
MODEL = "claude-sonnet-5-5-20260301"


def events_of(name: str) -> list[dict[str, object]]:
    """A stream's events."""
    return [json.loads(line) for line in (STREAMS / name).read_text().splitlines()]


def fed(events: list[dict[str, object]], silent: frozenset[str] = frozenset()) -> ClaudeStream:
    """A reader that has taken events, one every 10 ms."""
    stream = ClaudeStream(silent)
    for number, event in enumerate(events):
        stream.line(json.dumps(event).encode(), number * 10.0)
    return stream


def played(name: str, silent: frozenset[str] = frozenset()) -> Step:
    """The turn of a stream in a file."""
    return fed(events_of(name), silent).step(0)


def ended(**result: object) -> list[dict[str, object]]:
    """A turn of one response that ends with some result."""
    message = {
        "id": "m",
        "model": MODEL,
        "content": [{"type": "text", "text": "half"}],
        "usage": {"output_tokens": 1},
    }
    line = {"type": "result", "subtype": "success", "is_error": False, "result": "half", **result}
    return [{"type": "assistant", "message": message}, line]


def test_lines_with_one_message_id_are_one_round() -> None:
    """Four responses in thirteen lines; a retried request is none; counted by hand."""
    step = played("claude_parallel.jsonl", frozenset({"TodoWrite"}))
    assert [len(one.tool_calls) for one in step.rounds] == [2, 1, 1, 0]
    assert [one.text for one in step.rounds] == ["Let me look.", "", "", "It is in a.txt."]
    calls = [call for one in step.rounds for call in one.tool_calls]
    assert [(one.tool, one.status, one.is_silent) for one in calls] == [
        ("Read", "ok", False),
        ("Read", "missing_path", False),
        ("Grep", "empty", False),
        ("TodoWrite", "ok", True),
    ]
    assert calls[0].result == "     1\tone\n[image]"
    assert calls[1].arguments == {"file_path": "/w/b.txt"}
    assert Trajectory(step.rounds).barren_round_count == 1
    assert (step.answer, step.end, step.cost_usd) == ("It is in a.txt.", "answered", 0.0123)
    assert {one.served_model for one in step.rounds} == {MODEL}
    assert [one.stop_reason for one in step.rounds] == ["", "", "", "end_turn"]
    assert [one.request_id for one in step.rounds] == ["msg_1", "msg_2", "msg_3", "msg_4"]


def test_tokens_are_counted_once() -> None:
    """A response's usage stands on each of its lines; what the result adds is on the last round."""
    step = played("claude_parallel.jsonl")
    assert step.rounds[0].usage == Usage(4, 900, 0, 12000, 3, None)
    assert step.rounds[1].usage == Usage(5, 210, 40, 12900, 7, None)
    # 9 of its own, and the 160 - 21 that its lines, written at its beginning, do not tell
    assert step.rounds[3].usage == Usage(6, 30, 0, 13230, 9 + 139, None)
    total = Trajectory(step.rounds).usage
    assert total == Usage(21, 1220, 40, 51280, 160, None)


def test_times_are_those_of_the_lines() -> None:
    """A response from its question to its last line; a call from its line to its result's."""
    step = played("claude_parallel.jsonl")
    assert [one.latency_ms for one in step.rounds] == [40, 20, 10, 10]
    assert [one.latency_ms for one in step.rounds[0].tool_calls] == [30, 10]


def test_responses_of_sub_agents_are_rounds_of_theirs() -> None:
    """Interleaved as they are, each belongs to its own; two of one kind are told apart."""
    step = played("claude_subagents.jsonl")
    assert [(one.agent, len(one.tool_calls), one.text) for one in step.rounds] == [
        (None, 2, ""),
        ("Explore", 1, ""),
        ("Explore #2", 1, ""),
        ("Explore #2", 0, "nothing there"),
        ("Explore", 0, "a treasure"),
        (None, 0, "Left."),
    ]
    calls = [call for one in step.rounds for call in one.tool_calls]
    assert [(one.tool, one.result, one.status) for one in calls] == [
        ("Task", "a treasure", "ok"),
        ("Task", "nothing there", "ok"),
        ("Read", "a treasure", "ok"),
        ("Read", "ENOENT: no such file or directory", "missing_path"),
    ]
    assert Trajectory(step.rounds).barren_round_count == 1
    assert Trajectory(step.rounds).served_models == (MODEL, "claude-haiku-5")
    # The result counts the main agent alone, which is less than all: nothing is added.
    assert Trajectory(step.rounds).usage.output_tokens == 50


def test_repeated_blocks_and_calls_count_once() -> None:
    """Some versions print a response's earlier blocks again with each line."""
    first = {"type": "text", "text": "look"}
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    lines: list[dict[str, object]] = [
        {"type": "assistant", "message": {"id": "m", "model": "x", "content": blocks}}
        for blocks in ([first], [first, call], [call])
    ]
    (one,) = fed(lines).rounds
    assert one.text == "look"
    assert len(one.tool_calls) == 1
    assert one.tool_calls[0].status == "unanswered"
    assert one.usage == Usage()


def test_tools_of_the_server_are_calls_too() -> None:
    """Their results come with the response."""
    content = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        },
    ]
    inner = {"id": "m", "model": "x", "content": content}
    message: dict[str, object] = {"type": "assistant", "message": inner}
    ((call,),) = (one.tool_calls for one in fed([message]).rounds)
    assert (call.tool, call.status) == ("web_search", "error")


def test_what_the_program_says_itself_is_no_round() -> None:
    """It writes an error of the interface in place of a response."""
    message = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "oh"}]}
    assert fed([{"type": "assistant", "message": message}]).rounds == ()


def test_warnings_between_the_lines_are_passed_over() -> None:
    """And kinds of lines that nobody knows yet."""
    stream = ClaudeStream()
    for line in (b"", b"[SandboxDebug] hello", b'{"type": "stream_event"}', b'{"type": "new"}'):
        stream.line(line, 0)
    assert stream.round_count == 0


@pytest.mark.parametrize("line", [b'{"type": "assistant", "mess', b'{"a": NaN}', b'{"a": 1} {'])
def test_a_damaged_line_is_unreadable(line: bytes) -> None:
    """It began like an event, and nobody knows what it said."""
    with pytest.raises(Unreadable):
        ClaudeStream().line(line, 0)


@pytest.mark.parametrize(
    "line",
    [
        {"type": "assistant"},
        {"type": "assistant", "message": []},
        {"type": "assistant", "message": {"content": "text"}},
        {"type": "assistant", "message": {"content": [1, {"type": 7}, {"type": "tool_use"}]}},
        {"type": "assistant", "message": {"usage": [], "id": 3}, "parent_tool_use_id": 9},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": []}]}},
        {"type": "user", "message": "hello"},
        {"type": "system", "subtype": ["init"]},
        {"type": ["assistant"]},
        {"type": "result"},
        {"type": "result", "subtype": "success", "total_cost_usd": "much", "usage": 3},
    ],
)
def test_odd_lines_are_no_reason_to_fall(line: dict[str, object]) -> None:
    """Whatever an unknown version prints, there is a step at the end or a reason."""
    stream = fed([line])
    if line["type"] == "result":
        assert stream.step(0).end in {"answered", "agent_error"}
        return
    with pytest.raises(Unreadable, match="no result"):
        stream.step(0)


@pytest.mark.parametrize(
    ("result", "end", "error"),
    [
        ({"stop_reason": "refusal"}, "refused", None),
        ({"stop_reason": "max_tokens"}, "truncated", None),
        ({"subtype": "error_max_turns", "result": None}, "agent_error", "error_max_turns: no text"),
        (
            {"subtype": "error_during_execution", "is_error": True, "errors": ["a\nb", "c"]},
            "agent_error",
            "error_during_execution: a\nb; c",
        ),
        (
            {"is_error": True, "api_error_status": 400, "result": "prompt is too long"},
            "agent_error",
            "error: prompt is too long",
        ),
    ],
)
def test_a_result_says_how_the_turn_ended(
    result: dict[str, object], end: str, error: str | None
) -> None:
    """The rounds stay, whatever it says."""
    step = fed(ended(**result)).step(0)
    assert (step.end, step.error) == (end, error)
    assert len(step.rounds) == 1


@pytest.mark.parametrize(
    ("result", "fault", "kind", "is_transient"),
    [
        ({"api_error_status": 529}, EndpointOverloaded, "overloaded", True),
        ({"api_error_status": 429}, EndpointOverloaded, "rate_limited", True),
        ({"result": "API Error: 500 oh"}, EndpointFault, "server_error", True),
        ({"result": "API Error: Connection error."}, EndpointFault, "connection", True),
        ({"api_error_status": 401}, EndpointRefused, "authentication", False),
        ({"api_error_status": 404}, EndpointRefused, "model_not_found", False),
        ({"result": "Credit balance is too low"}, EndpointRefused, "quota_exhausted", False),
    ],
)
def test_an_outage_is_not_the_agents_failure(
    result: dict[str, object], fault: type[EndpointFault], kind: str, is_transient: bool
) -> None:
    """The program reports its provider's errors in the place of an answer."""
    stream = fed(ended(is_error=True, **result))
    with pytest.raises(fault) as caught:
        stream.step(0)
    assert (caught.value.kind, caught.value.is_transient) == (kind, is_transient)


def test_an_outage_is_told_by_its_code_too() -> None:
    """Where the program ends without a result, the last line that it wrote itself says why."""
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]}
    stream = fed([{"type": "assistant", "error": "rate_limit", "message": message}])
    with pytest.raises(EndpointOverloaded):
        stream.step(0)


def test_without_a_result_there_is_no_turn() -> None:
    """A program that was cut off has not answered; what it did stays readable."""
    stream = fed(events_of("claude_parallel.jsonl")[:-1])
    with pytest.raises(Unreadable, match="no result after 4 rounds"):
        stream.step(0)
    assert len(stream.rounds) == 4
    assert stream.session_id == "5d0c2f7e-1b7a-4a53-9c36-0f6f7b1f2a10"
