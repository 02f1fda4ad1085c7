"""Fields of the answer, of a tool's arguments or of the final state have exact values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from watchkeeper.domain.grade import Evidence, Grade, GradingContext
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.graders._base import GraderModel, is_visible
from watchkeeper.graders._json import NOT_JSON, NotJson, read_answer
from watchkeeper.graders._locale import LOCALES
from watchkeeper.graders._match import Missing, difference, split_path, value_at
from watchkeeper.graders._refusals import Problem
from watchkeeper.graders._tool_rules import LONGEST_TOOL, called_tools
from watchkeeper.graders._wording import compact, counted, known_names, named, quoted

EXAMPLE = [
    {"source": "tool_args", "tool": "execute_transfer", "equal": {"amount_cents": 125050}},
    {"source": "answer", "equal": {"amount_cents": 1250.50}, "locale": "es-AR"},
    {"source": "state", "equal": {"amount_cents": {"value": [125050]}}},
]
_EVIDENCE: Mapping[str, Evidence] = {
    "answer": "answer",
    "tool_args": "trajectory",
    "state": "state",
}
_MOST_SHOWN = 3


class Fields(GraderModel):
    """Where to look, and the exact value that must stand at each path there."""

    kind: ClassVar[str] = "fields"
    version: ClassVar[int] = 1
    evidence: ClassVar[Evidence] = "answer"
    forms: ClassVar[str] = "{source, tool, equal, locale, severity}, or a list of these"
    json_keys: ClassVar[tuple[str, ...]] = ("equal",)

    source: Literal["answer", "tool_args", "state"] = Field(
        description="answer (it must be JSON), tool_args or state"
    )
    tool: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_TOOL,
        description="the tool whose every call is held to the values; only with tool_args",
    )
    equal: dict[str, object] = Field(
        min_length=1, description="the expected value at each dotted path: {items.0.price: 9.90}"
    )
    locale: str | None = Field(
        None,
        description="read text as a number of this locale where a number is expected: es-AR",
        json_schema_extra={"enum": [*sorted(LOCALES)]},
    )

    @property
    def assertion(self) -> str:
        """``fields answer {"amount_cents": 125050}``."""
        where = self.source if self.tool is None else f"{self.source} {named(self.tool)}"
        locale = "" if self.locale is None else f" in {self.locale}"
        return f"{self.kind} {where} {compact(self.equal)}{locale}"

    def seen(self) -> Evidence:
        """The answer, the trajectory or the state, as ``source`` says."""
        return _EVIDENCE[self.source]

    def mentioned_tools(self) -> tuple[str, ...]:
        """The tool whose arguments are read, where one is named."""
        return () if self.tool is None else (self.tool,)

    def decide(self, context: GradingContext) -> Grade:
        """Passed where every path holds its value; in every call concerned, for tool_args."""
        trajectory = context.trajectory
        if self.source == "tool_args":
            return self._decide_calls(trajectory)
        if self.source == "state":
            if trajectory.state is None:
                return self.failed("the endpoint reported no state")
            return self._decide_value(trajectory.state)
        if not is_visible(trajectory.answer):
            return self.failed(f"{NOT_JSON}: it is empty")
        try:
            value = read_answer(trajectory.answer, exact=True)
        except NotJson as error:
            return self.failed(f"{NOT_JSON}: {error}")
        return self._decide_value(value)

    def _decide_value(self, value: object) -> Grade:
        problems = self._differences(value)
        if problems:
            return self.failed(_listed(problems))
        return self.passed(f"{counted(len(self.equal), 'field')} as expected")

    def _decide_calls(self, trajectory: Trajectory) -> Grade:
        concerned = [
            (number, call)
            for number, one in enumerate(trajectory.rounds, start=1)
            for call in one.tool_calls
            if (call.tool == self.tool if self.tool is not None else self._holds(call.arguments))
        ]
        if not concerned:
            what = (
                "no call has any of these arguments"
                if self.tool is None
                else (f"{named(self.tool)} was not called")
            )
            return self.failed(f"{what}; {called_tools(trajectory)}")
        for number, call in concerned:
            problems = self._differences(call.arguments)
            if problems:
                return self.failed(f"{named(call.tool)} in round {number}: {_listed(problems)}")
        return self.passed(
            f"{counted(len(self.equal), 'field')} as expected in {counted(len(concerned), 'call')}"
        )

    def _holds(self, arguments: object) -> bool:
        return any(not isinstance(value_at(arguments, path), Missing) for path in self.equal)

    def _differences(self, value: object) -> list[str]:
        problems: list[str] = []
        for path, expected in self.equal.items():
            there = value_at(value, path)
            problem = (
                there.reason
                if isinstance(there, Missing)
                else difference(expected, there, path, locale=self.locale)
            )
            if problem is not None:
                problems.append(problem)
        return problems

    @classmethod
    def early_problems(cls, given: Mapping[object, object]) -> list[Problem]:
        """Adds malformed paths, unknown locales, and keys that would have no effect."""
        problems = super().early_problems(given)
        equal, locale = given.get("equal"), given.get("locale")
        for path in equal if isinstance(equal, Mapping) else ():
            if isinstance(path, str):
                try:
                    split_path(path)
                except ValueError as error:
                    problems.append((("equal", path), f"the path {quoted(path)}: {error}"))
        if equal == {}:
            problems.append((("equal",), "found an empty mapping, expected at least one path"))
        if isinstance(locale, str):
            if locale not in LOCALES:
                problems.append(
                    (
                        ("locale",),
                        f"unknown locale {quoted(locale)}; {known_names(locale, LOCALES)}",
                    )
                )
            elif not problems and not _has_number(equal):
                text = "a locale only changes how numbers are read, and 'equal' expects none; "
                problems.append((("locale",), text + "write numbers without quotes"))
        if given.get("tool") is not None and given.get("source") in ("answer", "state"):
            problems.append((("tool",), "a tool goes only with 'source: tool_args'"))
        return problems


def _listed(problems: list[str]) -> str:
    left_out = len(problems) - _MOST_SHOWN
    more = f"; and {left_out} more" if left_out > 0 else ""
    return "; ".join(problems[:_MOST_SHOWN]) + more


def _has_number(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_has_number(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_number(item) for item in value)
    return isinstance(value, int | float) and not isinstance(value, bool)
