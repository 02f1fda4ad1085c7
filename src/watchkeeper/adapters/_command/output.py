"""What a command's output is, by the format that its endpoint names."""

from __future__ import annotations

import copy
from typing import Literal

from watchkeeper.adapters._command.claude import ClaudeStream
from watchkeeper.adapters._command.codex import CodexStream
from watchkeeper.adapters._command.stream_rounds import StreamReader, event_of
from watchkeeper.adapters._reported import ReportedStream, Unreadable, read_json, read_reported
from watchkeeper.domain.ports import Step
from watchkeeper.domain.redaction import whole_text
from watchkeeper.domain.trajectory import Round, Usage

Format = Literal["trajectory", "jsonl", "claude", "codex", "text"]

UNVERIFIABLE = {
    "claude": "identity unverifiable before the first trial; the stream names the model",
    "codex": "identity unverifiable: Codex names no model, except one that it falls back to",
    "jsonl": "identity unverifiable before the first trial; the agent's report may name the model",
    "trajectory": "identity unverifiable before the first trial; the report may name the model",
    "text": "identity unverifiable: a text names no model",
}


def reader_of(format_: Format, silent: frozenset[str], before: Usage | None) -> StreamReader:
    """A reader for one turn.

    Args:
        format_: Of the output.
        silent: Tools whose calls never count towards barren rounds.
        before: What Codex counted before this turn.
    """
    if format_ == "claude":
        return ClaudeStream(silent)
    if format_ == "codex":
        return CodexStream(silent, before)
    if format_ == "jsonl":
        return _ReportedLines()
    return _Whole(is_json=format_ == "trajectory")


class _Whole:
    """A text, or one report in the trajectory format."""

    session_id: str | None = None
    round_count = 0

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self._lines: list[bytes] = []

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Of a text one, once there is some of it; of a report that has not ended none."""
        text = self._text()
        return (Round(text=text),) if text and not self._is_json else ()

    def line(self, line: bytes, at_ms: float) -> None:  # noqa: ARG002 - a text has no times
        self._lines.append(line)

    def step(self, at_ms: float) -> Step:
        if self._is_json:
            return read_reported(read_json(b"\n".join(self._lines)))
        answer = self._text()
        return Step(rounds=(Round(text=answer, latency_ms=at_ms),), answer=answer, end="answered")

    def _text(self) -> str:
        return whole_text(b"\n".join(self._lines).decode("utf-8", "replace")).strip()


class _ReportedLines:
    """The trajectory format, event by event."""

    session_id: str | None = None

    def __init__(self) -> None:
        self._stream = ReportedStream()
        self.round_count = 0

    @property
    def rounds(self) -> tuple[Round, ...]:
        """What was reported so far, as if it had ended here."""
        stream = copy.deepcopy(self._stream)
        if not stream.is_complete:
            stream.add({"type": "result", "end": "agent_error"})
        return stream.step().rounds

    def line(self, line: bytes, at_ms: float) -> None:
        event = event_of(line, is_strict=True)
        if event is None:
            return
        self._stream.add(event, at_ms)
        self.round_count += event.get("type") == "round"

    def step(self, at_ms: float) -> Step:  # noqa: ARG002 - the events have theirs
        return self._stream.step()


__all__ = ["UNVERIFIABLE", "Format", "Unreadable", "reader_of"]
