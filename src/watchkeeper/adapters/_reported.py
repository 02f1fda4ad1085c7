"""From what an agent that owns its loop reports to the turn as the library keeps it.

A report is one value (``read_reported``), or a stream of events (``ReportedStream``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from watchkeeper.adapters._reported_format import (
    EVENT,
    MAX_ROUNDS,
    MAX_TEXT,
    TURN,
    NoteEvent,
    ReportedCall,
    ReportedRound,
    ReportedTurn,
    RoundEvent,
    TextEvent,
    Unreadable,
    clean,
    fitted,
    read_json,
)
from watchkeeper.domain.ports import Step
from watchkeeper.domain.trajectory import Round, ToolCall, Usage, call_status

__all__ = ["ReportedStream", "Unreadable", "clean", "read_json", "read_reported"]


def read_reported(value: object) -> Step:
    """A finished turn from what the agent reported: a text, or a mapping in the format.

    Raises:
        Unreadable: It is neither.
    """
    if isinstance(value, str):
        value = {"answer": value}
    if not isinstance(value, Mapping):
        raise Unreadable(f"expected a text or a mapping, found {type(value).__name__}")
    return _step(fitted(TURN, clean(value)))


class ReportedStream:
    """A turn that is reported as it goes on, event by event; the last one is the ``result``."""

    def __init__(self) -> None:
        self._rounds: list[ReportedRound] = []
        self._pieces: list[str] = []
        self._length = 0
        self._first_piece_ms: float | None = None
        self._result: ReportedTurn | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the result has been reported; nothing may follow it but notes."""
        return self._result is not None

    def add(self, event: object, at_ms: float | None = None) -> None:
        """Takes the next event.

        Args:
            event: A mapping whose ``type`` is text, round, note or result.
            at_ms: Milliseconds since the turn began. The first piece of text tells by it when
                the first token of the first round came, unless that round says so itself.

        Raises:
            Unreadable: It is no event of the format, or stands where none may.
        """
        if not isinstance(event, Mapping):
            raise Unreadable(f"expected an event, a mapping; found {type(event).__name__}")
        read = fitted(EVENT, clean(event))
        if isinstance(read, NoteEvent):
            return
        if self._result is not None:
            raise Unreadable(f"{read.type}: an event after the result")
        if isinstance(read, TextEvent):
            self._add_piece(read.text, at_ms)
        elif isinstance(read, RoundEvent):
            self._add_round(read)
        else:
            if read.rounds and self._rounds:
                raise Unreadable("result.rounds: the rounds were already reported one by one")
            self._result = read

    def step(self) -> Step:
        """The finished turn.

        Raises:
            Unreadable: The stream ended before the result.
        """
        result = self._result
        if result is None:
            raise Unreadable(f"no result after {len(self._rounds)} rounds")
        given: dict[str, object] = {}
        if self._rounds:
            given["rounds"] = self._rounds
        if self._pieces and result.answer is None:
            given["answer"] = "".join(self._pieces)
        step = _step(result.model_copy(update=given))
        if not step.rounds or step.rounds[0].first_token_ms is not None:
            return step
        first = replace(step.rounds[0], first_token_ms=self._first_piece_ms)
        return replace(step, rounds=(first, *step.rounds[1:]))

    def _add_piece(self, text: str, at_ms: float | None) -> None:
        if text and not self._rounds and self._first_piece_ms is None:
            self._first_piece_ms = at_ms
        self._length += len(text)
        if self._length > MAX_TEXT:
            raise Unreadable(f"text: pieces of more than {MAX_TEXT:,} characters")
        self._pieces.append(text)

    def _add_round(self, one: RoundEvent) -> None:
        if len(self._rounds) == MAX_ROUNDS:
            raise Unreadable(f"more than {MAX_ROUNDS:,} rounds")
        said = one.text or "".join(self._pieces)
        self._rounds.append(one.model_copy(update={"text": said}))
        self._pieces, self._length = [], 0


def _step(turn: ReportedTurn) -> Step:
    rounds = _rounds(turn)
    end = turn.end or ("answered" if turn.error is None else "agent_error")
    answer = _text(turn.answer)
    if answer is None:
        answer = next((one.text for one in reversed(rounds) if one.agent is None), "")
    if not rounds and (answer or end != "agent_error"):
        # How many responses it took is unknown; that there was one is what was reported.
        rounds = (_round(ReportedRound(text=answer, usage=turn.usage), turn),)
    return Step(
        rounds=rounds,
        answer=answer,
        action=turn.action,
        state=dict(turn.state) if turn.state is not None else None,
        end=end,
        error=turn.error,
        cost_usd=turn.cost_usd,
    )


def _rounds(turn: ReportedTurn) -> tuple[Round, ...]:
    rounds = tuple(_round(one, turn) for one in turn.rounds)
    if turn.usage is None or not rounds or any(one.usage for one in turn.rounds):
        return rounds
    # Booked on the last round, so that the turn's sum is right.
    total = Usage(**turn.usage.model_dump())
    nothing = Usage(*(None if count is None else 0 for count in total.counts()))
    others = tuple(replace(one, usage=nothing) for one in rounds[:-1])
    return (*others, replace(rounds[-1], usage=total))


def _round(one: ReportedRound, turn: ReportedTurn) -> Round:
    return Round(
        text=one.text,
        tool_calls=tuple(_call(call, number) for number, call in enumerate(one.tool_calls)),
        usage=Usage(**one.usage.model_dump()) if one.usage is not None else Usage(),
        stop_reason=one.stop_reason,
        served_model=one.served_model or turn.served_model,
        latency_ms=one.latency_ms,
        first_token_ms=one.first_token_ms,
        agent=one.agent,
    )


def _call(call: ReportedCall, number: int) -> ToolCall:
    text = _text(call.result)
    return ToolCall(
        tool=call.tool,
        arguments=_arguments(call.arguments),
        result=text,
        status=call_status(text, is_error=call.is_error),
        call_id=call.id or f"call_{number}",
        is_silent=call.is_silent,
        latency_ms=call.latency_ms,
        is_error=call.is_error,
    )


def _arguments(given: dict[str, JsonValue] | str) -> dict[str, object]:
    """Arguments as they are; a model may have written a text that is no JSON at all."""
    if not isinstance(given, str):
        return dict(given)
    try:
        read = clean(read_json(given))
    except Unreadable:
        read = None
    return read if isinstance(read, dict) else {"text": given}


def _text(value: JsonValue) -> str | None:
    """A text as it is, any other JSON as its text; ``None`` where there is nothing."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
