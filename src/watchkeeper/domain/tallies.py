"""Rounds and tool calls of many trajectories, counted: what was asked for and brought nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from watchkeeper.domain.trajectory import Round, Trajectory


@dataclass(slots=True)
class ToolTally:
    """Calls of one tool by what they brought.

    ``silent_count`` are calls of a tool that was declared silent; they are in ``call_count`` and
    in no other number. ``barren_round_count`` are barren rounds with a call of it that counts.
    """

    tool: str
    call_count: int = 0
    silent_count: int = 0
    empty_count: int = 0
    error_count: int = 0
    missing_path_count: int = 0
    unanswered_count: int = 0
    barren_round_count: int = 0

    @property
    def counting_count(self) -> int:
        """The denominator: calls that count."""
        return self.call_count - self.silent_count

    @property
    def fruitless_count(self) -> int:
        """Calls that count and brought nothing."""
        return self.empty_count + self.error_count + self.missing_path_count + self.unanswered_count

    @property
    def fruitless_share(self) -> float | None:
        """Fruitless calls of those that count; unknown where none does."""
        return self.fruitless_count / self.counting_count if self.counting_count else None


@dataclass(slots=True)
class RoundTally:
    """Trials and rounds; ``calling_round_count`` are rounds with a tool call that counts."""

    trial_count: int = 0
    round_count: int = 0
    calling_round_count: int = 0
    barren_round_count: int = 0

    @property
    def barren_share(self) -> float | None:
        """Barren rounds of those that could be; unknown where none could."""
        rounds = self.calling_round_count
        return self.barren_round_count / rounds if rounds else None

    def add(self, other: RoundTally) -> None:
        """Counts another tally in."""
        self.trial_count += other.trial_count
        self.round_count += other.round_count
        self.calling_round_count += other.calling_round_count
        self.barren_round_count += other.barren_round_count


def tally_rounds(trajectories: Iterable[Trajectory], tools: dict[str, ToolTally]) -> RoundTally:
    """The rounds of some trajectories; their tool calls are added to ``tools``, by name."""
    found = RoundTally()
    for trajectory in trajectories:
        found.trial_count += 1
        found.round_count += len(trajectory.rounds)
        for one in trajectory.rounds:
            found.calling_round_count += bool(one.counting_calls)
            found.barren_round_count += one.is_barren
            _tally_calls(one, tools)
    return found


def _tally_calls(one: Round, tools: dict[str, ToolTally]) -> None:
    for call in one.tool_calls:
        tool = tools.setdefault(call.tool, ToolTally(call.tool))
        tool.call_count += 1
        if call.is_silent:
            tool.silent_count += 1
            continue
        tool.empty_count += call.status == "empty"
        tool.error_count += call.status == "error"
        tool.missing_path_count += call.status == "missing_path"
        tool.unanswered_count += call.status == "unanswered"
    if one.is_barren:
        for name in {call.tool for call in one.counting_calls}:
            tools[name].barren_round_count += 1
