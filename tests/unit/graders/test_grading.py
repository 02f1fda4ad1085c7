"""grade_trial: every assertion of a case, and the guard that the agent came to an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from watchkeeper.domain.case import Case
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.grade import Evidence, Grade, GradingContext, Severity, trial_outcome
from watchkeeper.domain.trajectory import Round, Trajectory
from watchkeeper.graders import finished_grade, grade_trial

MakeCase = Callable[..., Case]
MakeTrajectory = Callable[..., Trajectory]

EXPECT = {"must_mention": "total", "avoids": "edit_file", "at_most": {"find_files": 5}}


def test_a_good_trial_has_one_grade_for_each_assertion(
    case: MakeCase, trajectory: MakeTrajectory
) -> None:
    """In the order of the case, and nothing else."""
    grades = grade_trial(case(EXPECT), trajectory("The total is 5.", ["find_files"]), "answered")
    assert [(one.assertion, one.outcome) for one in grades] == [
        ("must_mention 'total'", "passed"),
        ("avoids edit_file", "passed"),
        ("at_most find_files 5", "passed"),
    ]


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("silent", "the agent ended without an answer, after 2 rounds"),
        ("agent_error", "the agent raised an error, after 2 rounds"),
        ("round_limit", "the agent was stopped at the limit of rounds, after 2 rounds"),
        ("time_limit", "the agent was stopped at the limit of time, after 2 rounds"),
        ("token_limit", "the agent was stopped at the limit of tokens, after 2 rounds"),
        ("cost_limit", "the agent was stopped at the limit of cost, after 2 rounds"),
        ("not_finished", "the trial was never finished, after 2 rounds"),
        ("something_new", "the trial ended for the unknown reason 'something_new', after 2 rounds"),
    ],
)
def test_an_agent_that_did_not_finish_has_failed(
    case: MakeCase, trajectory: MakeTrajectory, stop_reason: str, reason: str
) -> None:
    """Every assertion may hold at the moment of the stop: the trial has failed all the same."""
    grades = grade_trial(case(EXPECT), trajectory("The total", ["find_files"]), stop_reason)
    guard, *others = grades
    assert (guard.grader, guard.grader_version, guard.assertion) == (
        "finished",
        1,
        "the agent finished",
    )
    assert (guard.outcome, guard.reason) == ("failed", reason)
    assert {one.outcome for one in others} == {"passed"}
    assert trial_outcome("completed", grades) == "failed"


@pytest.mark.parametrize("stop_reason", ["answered", "silent", "refused", "truncated"])
@pytest.mark.parametrize(
    "nothing",
    [
        Trajectory(),
        Trajectory(rounds=(Round(), Round(text=" \n\t"))),
        Trajectory(answer="  \u200b\x00", state={}),
    ],
)
def test_an_agent_that_produces_nothing_fails_everything(
    case: MakeCase, nothing: Trajectory, stop_reason: str
) -> None:
    """Also the assertions that silence would satisfy, and whatever the stop reason claims."""
    grades = grade_trial(case(EXPECT), nothing, stop_reason)
    assert [one.outcome for one in grades] == ["failed"] * 4
    assert grades[0].grader == "finished"


@pytest.mark.parametrize(
    "something",
    [
        Trajectory(rounds=(Round(text="Let me see"),)),
        Trajectory(action="escalate"),
        Trajectory(state={"booked": True}),
        Trajectory(answer="?"),
    ],
)
def test_any_sign_of_life_is_left_to_the_assertions(case: MakeCase, something: Trajectory) -> None:
    """A word, an action or a state is enough to be graded on what was asked."""
    grades = grade_trial(case({"avoids": "edit_file"}), something, "answered")
    assert [one.outcome for one in grades] == ["passed"]


def test_a_refusal_with_words_is_graded_by_the_assertions(
    case: MakeCase, trajectory: MakeTrajectory
) -> None:
    """A case may expect exactly this refusal."""
    expect = {"must_mention": "cannot", "avoids": "execute_transfer"}
    grades = grade_trial(case(expect), trajectory("I cannot do that."), "refused")
    assert [one.outcome for one in grades] == ["passed", "passed"]


def test_a_refusal_without_words_has_failed(case: MakeCase, trajectory: MakeTrajectory) -> None:
    """Nobody can tell why, so nothing vouches for it."""
    grades = grade_trial(case({"avoids": "execute_transfer"}), trajectory("", ["look"]), "refused")
    assert [(one.grader, one.outcome) for one in grades] == [
        ("finished", "failed"),
        ("avoids", "passed"),
    ]
    assert grades[0].reason == "the agent refused without a word, after 1 round"


def test_a_truncated_answer_is_graded_and_noted(case: MakeCase, trajectory: MakeTrajectory) -> None:
    """Grades of the answer say that it was cut off; grades of the trajectory need not."""
    grades = grade_trial(case(EXPECT), trajectory("The tot"), "truncated")
    assert [one.outcome for one in grades] == ["failed", "passed", "passed"]
    assert grades[0].reason.endswith("(the answer was cut off)")
    assert "cut off" not in grades[1].reason


class Broken:
    """A grader with a bug."""

    kind: ClassVar[str] = "broken"
    version: ClassVar[int] = 7
    evidence: ClassVar[Evidence] = "answer"
    severity: Severity = "normal"

    def __init__(self, error: Exception) -> None:
        self.error = error

    @property
    def assertion(self) -> str:
        """Raises too."""
        raise self.error

    def mentioned_tools(self) -> tuple[str, ...]:
        """None."""
        return ()

    def parameters(self) -> dict[str, object]:
        """None."""
        return {}

    def grade(self, context: GradingContext) -> Grade:
        """Raises."""
        raise self.error


class Unspeakable(Exception):
    """An exception whose message raises."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("x\x00" + "y" * 1_000), "the grader raised ValueError: 'x\\x00yyy"),
        (RecursionError("deep"), "the grader raised RecursionError: 'deep'"),
        (Unspeakable(), "the grader raised Unspeakable: no message"),
    ],
)
def test_a_grader_with_a_bug_gives_an_error_and_ends_nothing(
    trajectory: MakeTrajectory, error: Exception, reason: str
) -> None:
    """The other grades stand, and the trial counts as grader_error."""
    one = Case("c", "k", (UserTurn("t"),), (Broken(error),))
    (found,) = grades = grade_trial(one, trajectory("x"), "answered")
    assert (found.outcome, found.grader, found.grader_version) == ("error", "broken", 7)
    assert found.reason.startswith(reason)
    assert len(found.reason) <= 300
    assert trial_outcome("completed", grades) == "grader_error"


def test_the_guard_alone_can_be_asked(trajectory: MakeTrajectory) -> None:
    """``None`` means that the assertions decide."""
    assert finished_grade(GradingContext(("t",), trajectory("x"), "answered")) is None
