"""Codex's stream: which items are one round, and what its counts are worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watchkeeper.adapters._command.codex import CodexStream
from watchkeeper.adapters._reported_format import Unreadable
from watchkeeper.domain.trajectory import Trajectory, Usage
from watchkeeper.errors import EndpointFault

STREAMS = Path(__file__).parents[2] / "data" / "streams"


def fed(events: list[dict[str, object]], before: Usage | None = None) -> CodexStream:
    """A reader that has taken events, one every 10 ms."""
    stream = CodexStream(before=before)
    for number, event in enumerate(events):
        stream.line(json.dumps(event).encode(), number * 10.0)
    return stream


def events() -> list[dict[str, object]]:
    """The events of the long stream."""
    return [json.loads(line) for line in (STREAMS / "codex_tools.jsonl").read_text().splitlines()]


def item(kind: str, **more: object) -> dict[str, object]:
    """An event of an item."""
    return {"type": f"item.{kind}", "item": more}


def completed(**usage: int) -> dict[str, object]:
    """The end of a turn."""
    return {"type": "turn.completed", "usage": usage}


def test_calls_that_overlap_are_one_round() -> None:
    """Two at once, then each alone; a message or a thought begins the next; counted by hand."""
    step = fed(events()).step(0)
    assert [(one.text, [call.tool for call in one.tool_calls]) for one in step.rounds] == [
        ("", ["command_execution", "command_execution"]),
        ("", ["command_execution"]),
        ("", ["todo_list"]),
        ("I will fix it.", ["file_change"]),
        ("", ["mcp__docs__find"]),
        ("", ["web_search"]),
        ("Done.", []),
    ]
    calls = [call for one in step.rounds for call in one.tool_calls]
    assert [(one.status, one.is_silent) for one in calls] == [
        ("ok", False),
        ("missing_path", False),
        ("empty", False),
        ("empty", True),
        ("error", False),
        ("ok", False),
        ("unanswered", True),
    ]
    assert calls[0].arguments == {"command": "bash -lc ls"}
    assert calls[4].arguments == {"changes": [{"path": "a.txt", "kind": "update"}]}
    assert (calls[5].arguments, calls[5].result) == ({"q": "x"}, "found")
    assert Trajectory(step.rounds).barren_round_count == 2
    assert (step.answer, step.end, step.cost_usd) == ("Done.", "answered", None)
    assert [one.served_model for one in step.rounds] == [None] * 6 + ["gpt-6-mini"]
    assert [call.latency_ms for call in step.rounds[0].tool_calls] == [30, 10]


def test_a_turns_tokens_are_counted_once() -> None:
    """They are told of the turn alone, cached ones within the input: they stand on its end."""
    step = fed(events()).step(0)
    assert step.rounds[-1].usage == Usage(24763 - 24448, 0, 0, 24448, 122, 64)
    assert Trajectory(step.rounds).usage == step.rounds[-1].usage


def test_a_resumed_thread_counts_from_its_beginning() -> None:
    """What it had used before is not used again; a count that began anew is taken as it is."""
    said = item("completed", id="i", type="agent_message", text="ok")
    end = completed(input_tokens=300, cached_input_tokens=100, output_tokens=40)
    before = Usage(150, 0, 0, 50, 30, None)
    stream = fed([said, end], before)
    assert stream.step(0).rounds[0].usage == Usage(50, 0, 0, 50, 10, None)
    assert stream.total == Usage(200, 0, 0, 100, 40, None)
    anew = fed([said, end], Usage(5000, 0, 0, 50, 30, None))
    assert anew.step(0).rounds[0].usage == Usage(200, 0, 0, 100, 40, None)


def test_a_fault_that_passed_is_no_round_and_no_end() -> None:
    """Codex says that it connects again, and then goes on."""
    trouble: dict[str, object] = {"type": "error", "message": "Reconnecting... 1/5"}
    said = item("completed", id="i", type="agent_message", text="ok")
    step = fed([trouble, said, completed()]).step(0)
    assert (step.end, len(step.rounds)) == ("answered", 1)
    assert step.rounds[0].usage.output_tokens is None


@pytest.mark.parametrize(
    ("message", "kind", "is_transient"),
    [
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited", True),
        ("unexpected status 503 Service Unavailable: oh", "server_error", True),
        ("stream disconnected before completion: eof", "connection", True),
        ("You've hit your usage limit. Try again at 5", "quota_exhausted", False),
        ("unexpected status 401 Unauthorized: no key", "authentication", False),
    ],
)
def test_an_outage_is_not_the_agents_failure(message: str, kind: str, is_transient: bool) -> None:
    """Whether it is told as the turn's failure or as the stream's last error."""
    failed: dict[str, object] = {"type": "turn.failed", "error": {"message": message}}
    last: dict[str, object] = {"type": "error", "message": message}
    for event in (failed, last):
        with pytest.raises(EndpointFault) as caught:
            fed([event]).step(0)
        assert (caught.value.kind, caught.value.is_transient) == (kind, is_transient)


def test_a_failed_turn_keeps_its_rounds() -> None:
    """Where it is not the provider that failed."""
    failed: dict[str, object] = {"type": "turn.failed", "error": {"message": "context\nfull"}}
    step = fed([*events()[:5], failed]).step(0)
    assert (step.end, step.error) == ("agent_error", "context\nfull")
    assert [call.status for call in step.rounds[0].tool_calls] == ["unanswered", "unanswered"]


def test_without_its_end_there_is_no_turn() -> None:
    """A program that was cut off has not answered; what it did stays readable."""
    stream = fed(events()[:-1])
    with pytest.raises(Unreadable, match="no end of the turn after 7 rounds"):
        stream.step(0)
    assert len(stream.rounds) == 7


@pytest.mark.parametrize(
    "event",
    [
        {"type": "item.completed"},
        {"type": "item.completed", "item": {"type": ["x"]}},
        {"type": "item.completed", "item": {"type": "command_execution", "exit_code": "no"}},
        {"type": "item.completed", "item": {"type": "mcp_tool_call", "result": [], "id": 3}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": None}},
        {"type": "turn.completed", "usage": {"input_tokens": -1, "output_tokens": "many"}},
        {"type": "turn.failed", "error": "no"},
        {"type": "thread.started", "thread_id": 5},
        {"type": 5},
    ],
)
def test_odd_events_are_no_reason_to_fall(event: dict[str, object]) -> None:
    """Whatever an unknown version prints, there is a step at the end or a reason."""
    stream = fed([event, {"type": "turn.completed"}])
    assert stream.step(0).end == "answered"
