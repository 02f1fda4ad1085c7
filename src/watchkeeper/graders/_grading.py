"""Every assertion of a case applied to one trial."""

from __future__ import annotations

from dataclasses import replace

from watchkeeper.domain.case import Case
from watchkeeper.domain.grade import Grade, Grader, GradingContext
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.graders._base import finished_grade
from watchkeeper.graders._wording import LONGEST_REASON, clipped, quoted

_CUT_OFF = " (the answer was cut off)"


def grade_trial(case: Case, trajectory: Trajectory, stop_reason: str) -> tuple[Grade, ...]:
    """The grades of a trial that ran: one for each assertion, in the case's order.

    Before them stands a failed ``finished`` where the agent did not come to an end. A grader that
    raises gives an ``error``; nothing is raised here. Where the answer was truncated, every grade
    of the answer says so.
    """
    context = GradingContext(tuple(turn.text for turn in case.turns), trajectory, stop_reason)
    grades = [_graded(grader, context) for grader in case.graders]
    if stop_reason == "truncated":
        grades = [_noted(grade) for grade in grades]
    guard = finished_grade(context)
    return tuple(grades) if guard is None else (guard, *grades)


def _graded(grader: Grader, context: GradingContext) -> Grade:
    try:
        return grader.grade(context)
    except Exception as error:  # noqa: BLE001 - a bug in one grader must not end the run
        return Grade(
            grader=grader.kind,
            grader_version=grader.version,
            assertion=_assertion(grader),
            outcome="error",
            reason=clipped(f"the grader raised {type(error).__name__}: {_words(error)}"),
            severity=grader.severity,
            evidence=grader.evidence,
        )


def _assertion(grader: Grader) -> str:
    try:
        return grader.assertion
    except Exception:  # noqa: BLE001 - the same bug may stand here
        return grader.kind


def _words(error: Exception) -> str:
    try:
        return quoted(str(error), 120)
    except Exception:  # noqa: BLE001 - an exception may not even be able to say what it is
        return "no message"


def _noted(grade: Grade) -> Grade:
    if grade.evidence != "answer":
        return grade
    return replace(grade, reason=clipped(grade.reason, LONGEST_REASON - len(_CUT_OFF)) + _CUT_OFF)
