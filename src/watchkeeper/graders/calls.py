"""A tool was called, at least so often and with such arguments."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from watchkeeper.domain.grade import Grade, GradingContext
from watchkeeper.graders._match import difference
from watchkeeper.graders._tool_rules import ArgumentRule, called_tools, times
from watchkeeper.graders._wording import named

EXAMPLE = ["read_file", {"tool": "execute_transfer", "args": {"currency": "ARS"}, "n": 1}]


class Calls(ArgumentRule):
    """A tool, or several, each of which must be called."""

    kind: ClassVar[str] = "calls"
    version: ClassVar[int] = 1
    forms: ClassVar[str] = "a tool, {tool, args, n, severity}, or a list of these"

    n: int = Field(1, ge=1, le=1_000_000, description="how many such calls at least")

    @property
    def assertion(self) -> str:
        """``calls read_file``, ``calls grep at least 2 times``."""
        often = "" if self.n == 1 else f" at least {self.n} times"
        return f"{self.kind} {named(self.tool)}{often}{self.with_args}"

    def decide(self, context: GradingContext) -> Grade:
        """Passed where enough calls were asked for, whatever came back from them."""
        of_tool = [call for call in context.trajectory.tool_calls if call.tool == self.tool]
        count = sum(self.counts(call) for call in of_tool)
        name = named(self.tool)
        if count >= self.n:
            return self.passed(f"{name} was called {times(count)}{self.with_args}")
        if not of_tool:
            return self.failed(f"{name} was not called; {called_tools(context.trajectory)}")
        wanted = f"expected at least {times(self.n)}"
        if self.args is None:
            return self.failed(f"{name} was called {times(count)}, {wanted}")
        others = [call for call in of_tool if not self.counts(call)]
        other = difference(self.args, others[0].arguments, is_partial=True) if others else None
        return self.failed(
            f"{name} was called {times(len(of_tool))}, {count or 'none'} of them"
            f"{self.with_args}, {wanted}" + (f"; {other}" if other else "")
        )
