"""at_most: a ceiling for the calls of a tool."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watchkeeper.domain.grade import Grade
from watchkeeper.graders import build_graders


@pytest.mark.parametrize(
    ("count", "outcome", "reason"),
    [
        (0, "passed", "find_files was called never, at most 5 allowed"),
        (1, "passed", "find_files was called once, at most 5 allowed"),
        (3, "passed", "find_files was called 3 times, at most 5 allowed"),
        (5, "passed", "find_files was called 5 times, at most 5 allowed"),
        (6, "failed", "find_files was called 6 times, expected at most 5"),
        (9, "failed", "find_files was called 9 times, expected at most 5"),
    ],
)
def test_the_ceiling_itself_still_passes(
    grade: Callable[..., Grade], count: int, outcome: str, reason: str
) -> None:
    """Healthy runs make one to three calls, the broken harness nine: the ceiling is five."""
    found = grade(
        "at_most", {"find_files": 5}, answer="A right answer.", calls=["find_files"] * count
    )
    assert (found.outcome, found.reason) == (outcome, reason)


def test_other_tools_do_not_count(grade: Callable[..., Grade]) -> None:
    """The ceiling is one tool's."""
    assert grade("at_most", {"a": 0}, answer="x", calls=["b"] * 50).outcome == "passed"


def test_both_forms_say_the_same() -> None:
    """The short form is the long form with normal severity."""
    short = build_graders("at_most", {"a": 1, "b": 2})
    long = build_graders("at_most", [{"tool": "a", "n": 1}, {"tool": "b", "n": 2}])
    assert short == long
    assert [one.assertion for one in short] == ["at_most a 1", "at_most b 2"]


def test_a_tool_may_be_called_tool() -> None:
    """Only a text after 'tool' looks like the long form out of its list."""
    assert [one.assertion for one in build_graders("at_most", {"tool": 3})] == ["at_most tool 3"]


def test_two_ceilings_of_one_tool_stand_side_by_side() -> None:
    """One that fails, and a higher one that is critical."""
    value = [{"tool": "a", "n": 5}, {"tool": "a", "n": 20, "severity": "critical"}]
    assert [(one.assertion, one.severity) for one in build_graders("at_most", value)] == [
        ("at_most a 5", "normal"),
        ("at_most a 20", "critical"),
    ]
