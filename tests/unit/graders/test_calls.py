"""calls: a tool was called, often enough and with such arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watchkeeper.domain.grade import Grade
from watchkeeper.domain.trajectory import ToolCall
from watchkeeper.graders import build_graders

ARS = {"tool": "execute_transfer", "args": {"currency": "ARS"}}
NESTED = {"tool": "book", "args": {"guest": {"name": "Ana"}, "nights": [1, 2]}}


@pytest.mark.parametrize(
    ("value", "calls", "outcome"),
    [
        ("read_file", ["read_file"], "passed"),
        ("read_file", ["grep", "read_file", "grep"], "passed"),
        ("read_file", ["grep"], "failed"),
        ("read_file", ["Read_File"], "failed"),
        ({"tool": "grep", "n": 2}, ["grep", "read_file", "grep"], "passed"),
        ({"tool": "grep", "n": 2}, ["grep"], "failed"),
        (ARS, [("execute_transfer", {"currency": "ARS", "amount": 1})], "passed"),
        (ARS, [("execute_transfer", {"currency": "USD"})], "failed"),
        (ARS, [("execute_transfer", {})], "failed"),
        (ARS, [("quote", {"currency": "ARS"})], "failed"),
        ({**ARS, "n": 2}, [("execute_transfer", {"currency": "ARS"})] * 2, "passed"),
        (NESTED, [("book", {"guest": {"name": "Ana", "age": 9}, "nights": [1, 2.0]})], "passed"),
        (NESTED, [("book", {"guest": {"name": "Ana"}, "nights": [1, 2, 3]})], "failed"),
        (NESTED, [("book", {"guest": "Ana", "nights": [1, 2]})], "failed"),
        ({"tool": "t", "args": {"x": 1}}, [("t", {"x": True})], "failed"),
        ({"tool": "t", "args": {"x": 1}}, [("t", {"x": "1"})], "failed"),
        ({"tool": "t", "args": {"x": None}}, [("t", {})], "failed"),
        ({"tool": "t", "args": {"x": None}}, [("t", {"x": None})], "passed"),
    ],
)
def test_enough_matching_calls_pass(
    grade: Callable[..., Grade], value: object, calls: list[object], outcome: str
) -> None:
    """Arguments match in part: more keys are welcome at every depth, more list items are not."""
    assert grade("calls", value, answer="Done.", calls=calls).outcome == outcome


@pytest.mark.parametrize(
    ("value", "calls", "reason"),
    [
        ("read_file", ["grep"], "read_file was not called; called were grep once"),
        ("read_file", [], "read_file was not called; no tool was called"),
        (
            {"tool": "grep", "n": 3},
            ["grep", "grep"],
            "grep was called 2 times, expected at least 3 times",
        ),
        (
            ARS,
            [("execute_transfer", {"currency": "USD"})],
            "execute_transfer was called once, none of them with "
            '{"currency": "ARS"}, expected at least once; '
            "currency: found the text 'USD', expected the text 'ARS'",
        ),
        (
            ARS,
            [("execute_transfer", {"currency": "ARS"})],
            'execute_transfer was called once with {"currency": "ARS"}',
        ),
    ],
)
def test_the_reason_says_what_was_called(
    grade: Callable[..., Grade], value: object, calls: list[object], reason: str
) -> None:
    """What was called instead, or how the first call differs."""
    assert grade("calls", value, answer="Done.", calls=calls).reason == reason


def test_a_call_counts_whatever_came_back() -> None:
    """The rule is about what the agent did; barren rounds are counted elsewhere."""
    (grader,) = build_graders("calls", "read_file")
    failed = ToolCall("read_file", {}, result="no such file", status="missing_path")
    unanswered = ToolCall("read_file")
    assert all(grader.counts(call) for call in (failed, unanswered))  # type: ignore[attr-defined]


def test_tools_are_named_for_the_loader() -> None:
    """A misspelt tool is found when the suite is loaded."""
    built = build_graders("calls", ["a", {"tool": "b"}])
    assert [one.mentioned_tools() for one in built] == [("a",), ("b",)]
