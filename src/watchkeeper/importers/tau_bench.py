"""Trajectories of tau-bench: a JSON list with task, trial, reward and messages of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.domain.trajectory import Round, ToolCall, Trajectory
from watchkeeper.importers._chat import Message, rounds_of
from watchkeeper.importers._once import each_once
from watchkeeper.importers._source import Foreign, Place, Source, items, parsed

TITLE = "tau-bench trajectories, .json"
SILENT = frozenset({"think"})
"""The bench's scratch-pad returns nothing by design."""


class Info(Foreign):
    """What the bench notes beside the messages.

    A trial that it ended for its number of steps has no ``reward_info``; one that its own code
    ended has an ``error`` in place of everything else.
    """

    user_cost: float | None = Field(None, ge=0)
    reward_info: dict[str, object] | None = None
    error: str | None = None


class Entry(Foreign):
    """One trial."""

    task_id: int | str
    trial: int = Field(ge=0)
    reward: float
    info: Info = Info()
    traj: list[Message]


def recognises(source: Source) -> bool:
    """Whether it is a list of trials with a ``traj`` each."""
    if source.is_lines or source.entries():
        return False
    found = source.document()
    first = found[0] if isinstance(found, list) and found else None
    return isinstance(first, dict) and "traj" in first and "task_id" in first


def read(path: Path) -> Iterator[ImportedTrial]:
    """The trials of the file.

    Raises:
        UsageError: The file cannot be read; the message says where and why.
    """
    yield from each_once(_trials(path))


def _trials(path: Path) -> Iterator[ImportedTrial]:
    for place, value in items(Source(path).document(), Place(str(path))):
        entry = parsed(Entry, value, place)
        messages = [(place.below(f".traj[{n}]"), message) for n, message in enumerate(entry.traj)]
        rounds = tuple(map(_marked, rounds_of(messages, SILENT)))
        has_ended = entry.info.reward_info is not None
        is_broken = entry.info.error is not None
        yield ImportedTrial(
            source=str(place),
            case_id=str(entry.task_id),
            index=entry.trial,
            trajectory=Trajectory(rounds, rounds[-1].text if rounds else ""),
            stop_reason="answered" if has_ended and not is_broken else "not_finished",
            status="harness_error" if is_broken else "completed",
            scores={} if is_broken else {"reward": entry.reward},
            simulator_cost_usd=entry.info.user_cost,
            error=entry.info.error,
        )


def _marked(one: Round) -> Round:
    """The round with calls of tools that do not exist marked, which the bench tells as text."""
    return replace(one, tool_calls=tuple(map(_unknown_tool, one.tool_calls)))


def _unknown_tool(call: ToolCall) -> ToolCall:
    is_unknown = call.result == f"Unknown action {call.tool}"
    return replace(call, status="error", is_error=True) if is_unknown else call
