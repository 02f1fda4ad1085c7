"""Rounds while they are still read from an agent's stream, and what every reader offers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from watchkeeper.adapters._reported_format import Unreadable, clean, read_json
from watchkeeper.domain.ports import Step
from watchkeeper.domain.trajectory import Round, ToolCall, Usage, call_status

Json = Mapping[str, object]


class StreamReader(Protocol):
    """Reads what a program prints in one turn, line by line."""

    @property
    def session_id(self) -> str | None:
        """What the agent calls the conversation, to go on with it."""
        ...

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far; the last one may lack results."""
        ...

    @property
    def round_count(self) -> int:
        """How many rounds there are so far."""
        ...

    def line(self, line: bytes, at_ms: float) -> None:
        """Takes a line.

        Args:
            line: Without its end.
            at_ms: Milliseconds since the program was started.

        Raises:
            Unreadable: It is not of the format.
        """
        ...

    def step(self, at_ms: float) -> Step:
        """The finished turn, once the program has ended.

        Raises:
            Unreadable: There is no end of a turn in what was read.
            EndpointFault: The agent says that its own provider failed.
        """
        ...


@dataclass(slots=True)
class OpenCall:
    """A tool call whose result may still come."""

    tool: str
    arguments: dict[str, object]
    call_id: str
    began_ms: float
    is_silent: bool = False
    result: str | None = None
    is_error: bool = False
    ended_ms: float | None = None

    def answer(self, result: str | None, at_ms: float, *, is_error: bool) -> None:
        """Takes the result."""
        self.result, self.is_error, self.ended_ms = result, is_error, at_ms

    @property
    def is_open(self) -> bool:
        """Whether its end has not been seen."""
        return self.ended_ms is None

    def closed(self) -> ToolCall:
        """The call as it is kept."""
        return ToolCall(
            tool=self.tool,
            arguments=self.arguments,
            result=self.result,
            status=call_status(self.result, is_error=self.is_error),
            call_id=self.call_id,
            is_silent=self.is_silent,
            latency_ms=None if self.ended_ms is None else max(self.ended_ms - self.began_ms, 0.0),
            is_error=self.is_error,
        )


@dataclass(slots=True)
class OpenRound:
    """A response that may not be complete."""

    began_ms: float
    ended_ms: float
    texts: list[str] = field(default_factory=list)
    calls: list[OpenCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = ""
    served_model: str | None = None
    request_id: str | None = None
    agent: str | None = None

    def closed(self) -> Round:
        """The round as it is kept."""
        return Round(
            text="".join(self.texts),
            tool_calls=tuple(call.closed() for call in self.calls),
            usage=self.usage,
            stop_reason=self.stop_reason,
            served_model=self.served_model,
            latency_ms=max(self.ended_ms - self.began_ms, 0.0),
            request_id=self.request_id,
            agent=self.agent,
        )


def event_of(line: bytes, *, is_strict: bool = False) -> Json | None:
    """The event in a line; ``None`` for an empty one and, unless strict, one that is no object.

    Programs print warnings between their events. A line that begins like an object and is none is
    a damaged event.

    Raises:
        Unreadable: It is damaged, or no event at all where that is asked for.
    """
    text = line.strip()
    if not text or not (is_strict or text.startswith(b"{")):
        return None
    value = clean(read_json(text))
    if not isinstance(value, dict):
        raise Unreadable("not a JSON object")
    return value


def booked(rounds: Sequence[Round], total: Usage) -> tuple[Round, ...]:
    """The rounds with what the turn's total says beyond their own counts, on the last of them.

    A stream that tells tokens only of a whole turn, or only part of them with each response, has
    the right sum this way; which round they belong to is then not known.

    Args:
        rounds: Of one turn; none stay none.
        total: Of the turn; a class that it does not know stays as it is.
    """
    if not rounds:
        return ()
    counts = [list(one.usage.counts()) for one in rounds]
    for number, whole in enumerate(total.counts()):
        if whole is None:
            continue
        known = sum(one[number] or 0 for one in counts)
        if known > whole and all(one[number] is not None for one in counts):
            continue
        for one in counts:
            one[number] = one[number] or 0
        counts[-1][number] = (counts[-1][number] or 0) + max(whole - known, 0)
    return tuple(
        replace(one, usage=Usage(*count)) for one, count in zip(rounds, counts, strict=True)
    )


def text_of(content: object) -> str | None:
    """A result's text: itself, or that of its blocks; other blocks are named in brackets."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    parts: list[str] = []
    for block in content:
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            parts.append(str(block["text"]))
        elif isinstance(block, Mapping):
            parts.append(f"[{block.get('type', 'unknown')}]")
        else:
            parts.append(str(block))
    return "\n".join(parts)


def texts(event: Json, *names: str) -> list[str]:
    """The values of some keys that are texts with something in them."""
    values = (event.get(name) for name in names)
    return [value for value in values if isinstance(value, str) and value]


def count_of(value: object) -> int | None:
    """A count, or unknown."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None  # type: ignore[return-value]
