"""Trajectories of SWE-agent: one ``.traj`` file a trial, a step a model response.

The shell is the only tool, so the tool of a step is the first word of its action. Nothing there
is flagged as an error: what the agent's own commands refuse is known by their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.domain.trajectory import Round, ToolCall, Trajectory, Usage, call_status
from watchkeeper.domain.trial import StopReason, TrialStatus
from watchkeeper.importers._source import Foreign, Place, Source, parsed

TITLE = "SWE-agent trajectories, .traj"
SILENT = frozenset({"submit"})
"""Hands in the work and ends the trial; the model is shown nothing afterwards."""

_REFUSED = re.compile(
    r"your proposed edit has introduced new syntax error|your edit was not applied"
    r"|no replacement was performed|no file open|text .{0,200} not found|usage: "
    r"|execution timed out|the command .{0,400} was cancelled because it took more than",
    re.IGNORECASE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*")
_ENDS: dict[str, StopReason] = {
    "submitted": "answered",
    "exit_forfeit": "answered",
    "exit_cost": "cost_limit",
    "exit_context": "truncated",
    "exit_format": "agent_error",
    "exit_command_timeout": "time_limit",
    "exit_total_execution_time": "time_limit",
}
_BROKEN = frozenset({"exit_error", "exit_api", "exit_environment_error"})


class Step(Foreign):
    """One response and what its action brought."""

    action: str = ""
    observation: str | None = None
    response: str | None = None
    thought: str | None = None


class Stats(Foreign):
    """What the trial took; all zero where nobody counted."""

    instance_cost: float = Field(0.0, ge=0)
    tokens_sent: int = Field(0, ge=0)
    tokens_received: int = Field(0, ge=0)
    api_calls: int = Field(0, ge=0)


class Info(Foreign):
    """How the trial ended."""

    exit_status: str | None = None
    submission: str | None = None
    model_stats: Stats = Stats()


class File(Foreign):
    """A whole file."""

    trajectory: list[Step]
    info: Info = Info()


def recognises(source: Source) -> bool:
    """Whether it is an object with a ``trajectory`` of steps."""
    if source.is_lines or source.entries():
        return False
    found = source.document()
    return isinstance(found, dict) and "trajectory" in found and "info" in found


def read(path: Path) -> Iterator[ImportedTrial]:
    """The one trial of the file; the case is named as the file is.

    Raises:
        UsageError: The file cannot be read; the message says where and why.
    """
    file = parsed(File, Source(path).document(), Place(str(path)))
    rounds = tuple(_round(step) for step in file.trajectory if not _is_forced(step))
    stats = file.info.model_stats
    status, stop = _ended(file.info.exit_status)
    is_counted = stats.api_calls > 0 and stats.tokens_sent > 0
    yield ImportedTrial(
        source=str(path),
        case_id=path.name.removesuffix(".gz").removesuffix(".traj"),
        index=0,
        trajectory=Trajectory(rounds, file.info.submission or ""),
        stop_reason=stop,
        status=status,
        usage=Usage(input_tokens=stats.tokens_sent, output_tokens=stats.tokens_received)
        if is_counted
        else None,
        cost_usd=stats.instance_cost or None,
    )


def _is_forced(step: Step) -> bool:
    """Whether the program ended the trial here: an exit that no model asked for is no round."""
    return not (step.response or "").strip() and (
        not step.action.strip() or step.action.startswith("exit_")
    )


def _round(step: Step) -> Round:
    words = [word for word in step.action.split() if not _ASSIGNMENT.fullmatch(word)]
    if not words:
        return Round(text=step.response or "")
    seen = step.observation
    is_refused = seen is not None and _REFUSED.match(seen.lstrip()) is not None
    call = ToolCall(
        tool=words[0],
        arguments={"command": step.action},
        result=seen,
        status=call_status(seen, is_error=is_refused),
        is_silent=words[0] in SILENT,
        is_error=is_refused,
    )
    return Round(text=step.response or "", tool_calls=(call,))


def _ended(exit_status: str | None) -> tuple[TrialStatus, StopReason]:
    """How it ended; ``submitted (exit_cost)`` is what the program handed in at a limit."""
    said = (exit_status or "").strip()
    inner = re.search(r"\((\w+)\)", said)
    word = inner[1] if inner else said
    if word in _BROKEN:
        return "harness_error", "not_finished"
    return "completed", _ENDS.get(word, "not_finished")
