"""What every grader is made of: a frozen model of its YAML, and the rule about silence.

A new grader is a file beside this one with a subclass of ``GraderModel`` that sets ``kind`` (the
file's name), ``version``, ``evidence`` and ``forms``, and answers ``assertion`` and ``decide``; the
file also holds an ``EXAMPLE`` of its YAML value, which the contract tests build and try.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from watchkeeper.domain.grade import Evidence, Grade, GradeOutcome, GradingContext, Severity
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.graders._refusals import (
    GraderValueError,
    Path,
    Problem,
    found,
    json_problems,
    refusals,
)
from watchkeeper.graders._wording import clipped, counted, quoted

__all__ = ["GraderModel", "GraderValueError", "finished_grade", "is_silent"]

FINISHED = "finished"
FINISHED_VERSION = 1
FINISHED_ASSERTION = "the agent finished"
SILENT_REASON = "the agent said nothing and did nothing"

_ENDS_TO_GRADE = frozenset({"answered", "refused", "truncated"})
_UNFINISHED: Mapping[str, str] = {
    "silent": "the agent ended without an answer",
    "agent_error": "the agent raised an error",
    "round_limit": "the agent was stopped at the limit of rounds",
    "time_limit": "the agent was stopped at the limit of time",
    "token_limit": "the agent was stopped at the limit of tokens",
    "cost_limit": "the agent was stopped at the limit of cost",
    "not_finished": "the trial was never finished",
}


class GraderModel(BaseModel, ABC):
    """A grader whose fields are its YAML parameters; ``decide`` holds its rule."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: ClassVar[str]
    version: ClassVar[int]
    evidence: ClassVar[Evidence]
    forms: ClassVar[str]
    """The forms of the value in words, for errors: ``a tool, or {tool, args, severity}``."""
    short_key: ClassVar[str | None] = None
    """The field that a bare text stands for; ``None`` where a bare text says nothing."""
    takes_list: ClassVar[bool] = True
    json_keys: ClassVar[tuple[str, ...]] = ()
    """The keys that hold any JSON value, checked before the model sees them."""

    severity: Severity = Field(
        "normal", description="normal or critical: a critical failure pages without a rerun"
    )

    @property
    @abstractmethod
    def assertion(self) -> str:
        """What is asserted, in a few words; two that differ in more than severity differ here."""

    @abstractmethod
    def decide(self, context: GradingContext) -> Grade:
        """The grade of an agent that said or did something."""

    def grade(self, context: GradingContext) -> Grade:
        """The grade; an agent that said nothing and did nothing has failed, whatever was asked."""
        if is_silent(context.trajectory):
            return self.failed(SILENT_REASON)
        return self.decide(context)

    def mentioned_tools(self) -> tuple[str, ...]:
        """The tools that the assertion names, so that a misspelt one is found at load time."""
        return ()

    def parameters(self) -> dict[str, object]:
        """Everything that decides, as JSON: every field by its YAML name, defaults included."""
        return self.model_dump(mode="json", by_alias=True)

    def seen(self) -> Evidence:
        """What this grader looks at; of the kind unless its parameters say otherwise."""
        return type(self).evidence

    def passed(self, reason: str) -> Grade:
        """A passed grade with a short reason."""
        return self._grade("passed", reason)

    def failed(self, reason: str) -> Grade:
        """A failed grade with a short reason."""
        return self._grade("failed", reason)

    def error(self, reason: str) -> Grade:
        """A grade that says that the grader itself could not decide; it is no verdict."""
        return self._grade("error", reason)

    def _grade(self, outcome: GradeOutcome, reason: str) -> Grade:
        return Grade(
            grader=self.kind,
            grader_version=self.version,
            assertion=self.assertion,
            outcome=outcome,
            reason=clipped(reason),
            severity=self.severity,
            evidence=self.seen(),
        )

    @classmethod
    def read(cls, value: object) -> list[Self]:
        """The graders that a YAML value asks for, at least one.

        Raises:
            GraderValueError: The value is wrong; every problem is in it.
        """
        if isinstance(value, list) and cls.takes_list:
            if not value:
                raise GraderValueError([((), f"found an empty list, expected {cls.forms}")])
            return cls.build_all(((index,), item) for index, item in enumerate(value))
        return cls.build_all([((), value)])

    @classmethod
    def build_all(cls, items: Iterable[tuple[Path, object]]) -> list[Self]:
        """One grader for every (path, short or long form).

        Raises:
            GraderValueError: Any of them is wrong, or says what an earlier one said.
        """
        problems: list[Problem] = []
        graders: list[Self] = []
        assertions: set[str] = set()
        for path, item in items:
            try:
                grader = cls.build(item)
            except GraderValueError as error:
                problems += [((*path, *below), message) for below, message in error.problems]
                continue
            graders.append(grader)
            if path:  # alone, it repeats nothing
                assertion = grader.assertion
                if assertion in assertions:
                    problems.append((path, f"{assertion} stands here twice"))
                assertions.add(assertion)
        if problems:
            raise GraderValueError(problems)
        return graders

    @classmethod
    def build(cls, item: object) -> Self:
        """The grader that one short or long form asks for.

        Raises:
            GraderValueError: The form is wrong; paths are below it.
        """
        is_short = isinstance(item, str) and cls.short_key is not None
        given = {cls.short_key: item} if is_short else item
        if not isinstance(given, Mapping):
            is_bare = cls.short_key is not None and isinstance(item, int | float)
            hint = " (put a text in quotes)" if is_bare else ""
            raise GraderValueError([((), f"{found(item)}, expected {cls.forms}{hint}")])
        problems = cls.early_problems(given)
        try:
            grader = cls.model_validate(dict(given))
        except ValidationError as error:
            told = {path[:1] for path, _ in problems}
            problems += [one for one in refusals(cls, error) if one[0][:1] not in told]
        else:
            if not problems:
                return grader
        raise GraderValueError(((), text) if is_short else (path, text) for path, text in problems)

    @classmethod
    def early_problems(cls, given: Mapping[object, object]) -> list[Problem]:
        """What is wrong with a mapping that its model cannot say, or would say badly."""
        problems: list[Problem] = []
        for key, value in given.items():
            if value is None and isinstance(key, str):
                problems.append(
                    ((key,), "found nothing after the key; leave it out or give a value")
                )
            elif isinstance(key, str) and key in cls.json_keys:
                problems += json_problems(value, (key,))
        return problems

    @classmethod
    def value_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the value under ``expect``, short forms included."""
        long_form = cls.form_schema()
        about = long_form.pop("description", "")
        forms: list[dict[str, Any]] = [long_form]
        if cls.short_key is not None:
            field = long_form["properties"][cls.short_key]
            forms.insert(0, {key: value for key, value in field.items() if key != "default"})
        if cls.takes_list:
            forms.append({"type": "array", "minItems": 1, "items": {"anyOf": list(forms)}})
        return {"description": about, "anyOf": forms}

    @classmethod
    def form_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the long form alone."""
        schema = cls.model_json_schema(by_alias=True)
        schema.pop("title", None)
        for field in schema["properties"].values():
            field.pop("title", None)
            if "anyOf" in field:  # an optional key is left out, never null
                (only,) = [one for one in field.pop("anyOf") if one.get("type") != "null"]
                field.update(only)
            if field.get("default", 0) is None:
                del field["default"]
        return schema


def is_visible(text: str) -> bool:
    """Whether a person would see anything of the text; spaces and controls are nothing."""
    return any(one.isprintable() and not one.isspace() for one in text)


def is_silent(trajectory: Trajectory) -> bool:
    """Whether the agent produced nothing at all.

    No visible text in the answer or any round, no tool call, no action and no state.
    """
    return not (
        trajectory.action
        or trajectory.state
        or is_visible(trajectory.answer)
        or any(one.tool_calls or is_visible(one.text) for one in trajectory.rounds)
    )


def finished_grade(context: GradingContext) -> Grade | None:
    """The failed grade of an agent that did not come to an end of its own, else ``None``.

    ``answered`` and ``truncated`` are left to the assertions, and so is ``refused`` where the
    refusal says something or reports an action. Every other stop reason has failed, and so has an
    agent that produced nothing at all, however its trial is said to have ended.
    """
    trajectory, stop_reason = context.trajectory, context.stop_reason
    rounds = counted(len(trajectory.rounds), "round")
    if is_silent(trajectory) and stop_reason in _ENDS_TO_GRADE | {"silent"}:
        reason = f"{SILENT_REASON} ({rounds})"
    elif stop_reason == "refused" and not (trajectory.action or is_visible(trajectory.answer)):
        reason = f"the agent refused without a word, after {rounds}"
    elif stop_reason in _ENDS_TO_GRADE:
        return None
    elif stop_reason in _UNFINISHED:
        reason = f"{_UNFINISHED[stop_reason]}, after {rounds}"
    else:
        reason = f"the trial ended for the unknown reason {quoted(stop_reason)}, after {rounds}"
    return Grade(
        grader=FINISHED,
        grader_version=FINISHED_VERSION,
        assertion=FINISHED_ASSERTION,
        outcome="failed",
        reason=clipped(reason),
        evidence="trajectory",
    )
