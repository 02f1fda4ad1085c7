"""Graders, what they conclude about one assertion, and what that makes of the trial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

from watchkeeper.domain.trajectory import Trajectory

Severity = Literal["normal", "critical"]
GradeOutcome = Literal["passed", "failed", "error", "unresolved"]
Outcome = Literal["passed", "failed", "harness_error", "grader_error", "skipped"]
Evidence = Literal["answer", "trajectory", "state"]

RESOLVED_OUTCOMES: frozenset[Outcome] = frozenset({"passed", "failed"})


@dataclass(frozen=True, slots=True)
class Grade:
    """One assertion of one trial, decided.

    ``unresolved`` means that there was nothing to grade (the trial never ran); ``error`` that the
    grader itself could not decide. Neither carries a score.
    """

    grader: str
    grader_version: int
    assertion: str
    outcome: GradeOutcome
    reason: str
    severity: Severity = "normal"
    evidence: Evidence = "answer"


@dataclass(frozen=True, slots=True)
class GradingContext:
    """The one argument of a grader: what the user said, what happened, how the trial ended."""

    turns: tuple[str, ...]
    trajectory: Trajectory
    stop_reason: str


@runtime_checkable
class Grader(Protocol):
    """Turns what happened into a grade for one assertion."""

    kind: ClassVar[str]
    version: ClassVar[int]
    evidence: ClassVar[Evidence]

    @property
    def severity(self) -> Severity:
        """Whether its failure alone wakes somebody."""
        ...

    @property
    def assertion(self) -> str:
        """What is asserted, in a few words, unique within the case: ``at_most find_files 5``."""
        ...

    def mentioned_tools(self) -> tuple[str, ...]:
        """The tools that the assertion names, so that a misspelt one is found at load time."""
        ...

    def parameters(self) -> dict[str, object]:
        """Everything that decides, as JSON; part of the grading hash."""
        ...

    def grade(self, context: GradingContext) -> Grade:
        """The grade; never raises on anything that an agent can say."""
        ...


def trial_outcome(status: str, grades: Iterable[Grade]) -> Outcome:
    """What one attempt counts as, from how it ended and what its graders said.

    A trial that ran and has no grade at all is a ``grader_error``: nothing vouches for it.
    """
    if status == "harness_error":
        return "harness_error"
    if status == "skipped":
        return "skipped"
    outcomes = [grade.outcome for grade in grades]
    if not outcomes or "error" in outcomes or "unresolved" in outcomes:
        return "grader_error"
    return "failed" if "failed" in outcomes else "passed"
