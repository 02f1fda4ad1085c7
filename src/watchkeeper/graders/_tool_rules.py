"""Which calls of a trial a rule about a tool is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from watchkeeper.domain.grade import Evidence
from watchkeeper.domain.trajectory import ToolCall, Trajectory
from watchkeeper.graders._base import GraderModel
from watchkeeper.graders._match import difference
from watchkeeper.graders._refusals import Problem
from watchkeeper.graders._wording import compact, named

LONGEST_TOOL = 200
_MOST_TOOLS_SHOWN = 5


class ToolRule(GraderModel):
    """A rule about the calls of one tool."""

    evidence: ClassVar[Evidence] = "trajectory"
    short_key: ClassVar[str | None] = "tool"

    tool: str = Field(min_length=1, max_length=LONGEST_TOOL, description="the name of the tool")

    def mentioned_tools(self) -> tuple[str, ...]:
        """The tool of the rule."""
        return (self.tool,)


class ArgumentRule(ToolRule):
    """A rule about the calls of one tool that were made with certain arguments."""

    json_keys: ClassVar[tuple[str, ...]] = ("args",)

    args: dict[str, object] | None = Field(
        None,
        description="arguments that a call must have to count; it may have more",
        json_schema_extra={"minProperties": 1},
    )

    @property
    def with_args(self) -> str:
        """`` with {"currency": "ARS"}``, or nothing where any arguments do."""
        return "" if self.args is None else f" with {compact(self.args, 80)}"

    def counts(self, call: ToolCall) -> bool:
        """Whether a call is one that the rule is about, whatever came back from it."""
        return call.tool == self.tool and (
            self.args is None or difference(self.args, call.arguments, is_partial=True) is None
        )

    @classmethod
    def early_problems(cls, given: Mapping[object, object]) -> list[Problem]:
        """Adds an empty ``args``, which could mean any arguments or none at all."""
        problems = super().early_problems(given)
        if given.get("args") == {}:
            problems.append((("args",), "found an empty mapping; leave it out for any arguments"))
        return problems


def called_tools(trajectory: Trajectory) -> str:
    """``find_files 9 times, grep once``: which tools were called, the most called first."""
    counts = Counter(call.tool for call in trajectory.tool_calls)
    if not counts:
        return "no tool was called"
    most = counts.most_common(_MOST_TOOLS_SHOWN)
    listed = ", ".join(f"{named(tool)} {times(count)}" for tool, count in most)
    left_out = len(counts) - len(most)
    return f"called were {listed}" + (f" and {left_out} more tools" if left_out else "")


def times(count: int) -> str:
    """``once``, ``3 times``."""
    return "once" if count == 1 else f"{count:,} times"
