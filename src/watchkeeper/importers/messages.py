"""Plain message lists of OpenAI's or Anthropic's interface, in JSON or JSON lines.

A file is one conversation (a list of messages, or one message a line) or several (objects with
``messages``, in a list or one a line).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.domain.trajectory import Round, Trajectory
from watchkeeper.domain.trial import StopReason
from watchkeeper.errors import UsageError
from watchkeeper.importers._chat import Message, rounds_of
from watchkeeper.importers._once import each_once
from watchkeeper.importers._source import Foreign, Place, Source, items, parsed
from watchkeeper.parsing.validation import shown

TITLE = "message lists of OpenAI or Anthropic, .json or .jsonl"
_CUT_OFF = frozenset({"max_tokens", "length", "model_context_window_exceeded"})


class Conversation(Foreign):
    """Messages with what names them; the place in the file where nothing does."""

    messages: list[Message]
    case_id: str | int | None = None
    id: str | int | None = None
    trial: int | None = Field(None, ge=0)
    model: str | None = None


def recognises(source: Source) -> bool:
    """Whether there is a message, or an object with messages, where one is expected."""
    if source.entries():
        return False
    if source.is_lines:
        first = next((value for _, value in source.lines()), None)
    else:
        first = source.document()
    for _ in range(2):
        first = first[0] if isinstance(first, list) and first else first
    if not isinstance(first, dict):
        return False
    within = first.get("messages")
    return isinstance(within, list) or ("role" in first and ("content" in first))


def read(path: Path) -> Iterator[ImportedTrial]:
    """The trials of the file, one a conversation.

    Raises:
        UsageError: The file cannot be read; the message says where and why.
    """
    yield from each_once(_trials(path))


def _trials(path: Path) -> Iterator[ImportedTrial]:
    names: Counter[str] = Counter()
    for number, (place, value) in enumerate(_conversations(path)):
        talk = parsed(Conversation, value, place)
        given = talk.case_id if talk.case_id is not None else talk.id
        name = str(given) if given is not None else f"{path.name}#{number}"
        messages = [
            (place.below(f".messages[{n}]"), message) for n, message in enumerate(talk.messages)
        ]
        rounds = rounds_of(messages)
        index = names[name] if talk.trial is None else talk.trial
        names[name] += 1
        answer = rounds[-1].text if rounds and not rounds[-1].tool_calls else ""
        yield ImportedTrial(
            source=str(place),
            case_id=name,
            index=index,
            trajectory=Trajectory(rounds, answer),
            stop_reason=_stop(rounds, answer),
            requested_model=talk.model,
        )


def _conversations(path: Path) -> Iterator[tuple[Place, Any]]:
    """Every conversation of the file as an object with messages, with its place."""
    source = Source(path)
    if source.is_lines:
        lines = [(Place(f"{path}: line {number}"), value) for number, value in source.lines()]
        if lines and all(_is_message(value) for _, value in lines):
            yield Place(str(path)), {"messages": [value for _, value in lines]}
            return
        for place, value in lines:
            yield place, _with_messages(value, place)
        return
    found, whole = source.document(), Place(str(path))
    if isinstance(found, list) and found and not _is_message(found[0]):
        for place, value in items(found, whole):
            yield place, _with_messages(value, place)
        return
    yield whole, _with_messages(found, whole)


def _with_messages(value: object, place: Place) -> object:
    if isinstance(value, list):
        return {"messages": value}
    if isinstance(value, dict) and "messages" in value:
        return value
    raise UsageError(
        f"{place}: found {shown(value)}; expected a list of messages, or an object with 'messages'"
    )


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "role" in value and "messages" not in value


def _stop(rounds: tuple[Round, ...], answer: str) -> StopReason:
    if not rounds or rounds[-1].tool_calls:
        return "not_finished"
    if rounds[-1].stop_reason in _CUT_OFF:
        return "truncated"
    if rounds[-1].stop_reason == "refusal":
        return "refused"
    return "answered" if answer.strip() else "silent"
