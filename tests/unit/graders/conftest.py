"""A scene of one trial, and what one grader makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from watchkeeper.domain.case import Case
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.grade import Grade, Grader, GradingContext
from watchkeeper.domain.trajectory import Round, ToolCall, Trajectory
from watchkeeper.graders import build_graders

Call = str | tuple[str, dict[str, object]]
Grading = Callable[..., Grade]


def _call(call: Call) -> ToolCall:
    tool, arguments = (call, {}) if isinstance(call, str) else call
    return ToolCall(tool, arguments, result="done", status="ok")


def _trajectory(
    answer: str = "",
    calls: list[Call] | None = None,
    action: str | None = None,
    state: dict[str, object] | None = None,
) -> Trajectory:
    """One round for every call, then one round for the answer."""
    rounds = [Round(tool_calls=(_call(call),)) for call in calls or []]
    if answer:
        rounds.append(Round(text=answer))
    return Trajectory(tuple(rounds), answer, action, state)


@pytest.fixture
def trajectory() -> Callable[..., Trajectory]:
    """Builds a trajectory from an answer, calls, an action and a state."""
    return _trajectory


@pytest.fixture
def case() -> Callable[..., Case]:
    """Builds a case from an ``expect`` mapping."""

    def build(expect: Mapping[str, object]) -> Case:
        graders: list[Grader] = []
        for kind, value in expect.items():
            graders.extend(build_graders(kind, value))
        return Case("some-case", "some-category", (UserTurn("Do it."),), tuple(graders))

    return build


@pytest.fixture
def grade() -> Grading:
    """The grade of the one grader that ``kind: value`` asks for, in a scene."""

    def build(
        kind: str,
        value: object,
        answer: str = "",
        calls: list[Call] | None = None,
        action: str | None = None,
        state: dict[str, object] | None = None,
    ) -> Grade:
        (grader,) = build_graders(kind, value)
        return grader.grade(
            GradingContext(("Do it.",), _trajectory(answer, calls, action, state), "answered")
        )

    return build
