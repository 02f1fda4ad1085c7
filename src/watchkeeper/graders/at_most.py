"""A ceiling for the calls of a tool: a right answer after forty calls is a regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field

from watchkeeper.domain.grade import Grade, GradingContext
from watchkeeper.graders._refusals import GraderValueError, Problem
from watchkeeper.graders._tool_rules import LONGEST_TOOL, ToolRule, times
from watchkeeper.graders._wording import named, shown

EXAMPLE = {"find_files": 5}


class AtMost(ToolRule):
    """For every tool named, how often it may be called."""

    kind: ClassVar[str] = "at_most"
    version: ClassVar[int] = 1
    forms: ClassVar[str] = "{tool: number of calls}, or a list of {tool, n, severity}"
    short_key: ClassVar[str | None] = None

    n: int = Field(ge=0, le=1_000_000, description="the highest number of calls that passes")

    @property
    def assertion(self) -> str:
        """``at_most find_files 5``."""
        return f"{self.kind} {named(self.tool)} {self.n}"

    def decide(self, context: GradingContext) -> Grade:
        """Failed where the tool was called more often than the ceiling, whatever came back."""
        count = sum(call.tool == self.tool for call in context.trajectory.tool_calls)
        reason = f"{named(self.tool)} was called {times(count) if count else 'never'}"
        if count <= self.n:
            return self.passed(f"{reason}, at most {self.n} allowed")
        return self.failed(f"{reason}, expected at most {self.n}")

    @classmethod
    def read(cls, value: object) -> list[Self]:
        """The ceilings of a mapping of tools to numbers, or of a list of long forms.

        Raises:
            GraderValueError: The value is wrong; every problem is in it.
        """
        if not isinstance(value, Mapping):
            return super().read(value)
        if not value:
            raise GraderValueError([((), f"found an empty mapping, expected {cls.forms}")])
        if "tool" in value and isinstance(value["tool"], str):
            raise GraderValueError(
                [((), "found one {tool, n} by itself; put it in a list, or write {tool name: n}")]
            )
        problems: list[Problem] = [
            ((), f"found {shown(key)} as a key, expected the name of a tool (put it in quotes)")
            for key in value
            if not isinstance(key, str)
        ]
        named_tools = [(key, n) for key, n in value.items() if isinstance(key, str)]
        try:
            graders = cls.build_all(((key,), {"tool": key, "n": n}) for key, n in named_tools)
        except GraderValueError as error:
            problems += [(path[:1], message) for path, message in error.problems]
        if problems:
            raise GraderValueError(problems)
        return graders

    @classmethod
    def value_schema(cls) -> dict[str, Any]:
        """The JSON Schema of both forms."""
        long_form = cls.form_schema()
        return {
            "description": long_form.pop("description"),
            "anyOf": [
                {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"minLength": 1, "maxLength": LONGEST_TOOL},
                    "additionalProperties": long_form["properties"]["n"],
                },
                {"type": "array", "minItems": 1, "items": long_form},
            ],
        }
