"""What an agent that owns its loop reports of one turn, in the one format for everybody.

docs/trajectory.md describes it, docs/schemas/trajectory.schema.json is made from these models.
What is left out is unknown; what is there and wrong is ``Unreadable`` and never guessed.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from watchkeeper.domain.redaction import whole_text

MAX_ROUNDS = 10_000
MAX_CALLS = 1_000
MAX_TEXT = 10_000_000
MAX_DEPTH = 100
MAX_VALUES = 500_000
_LARGEST_NUMBER = 10**300
_MAX_PLACE = 100
_MAX_COMPLAINT = 250

T = TypeVar("T")

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**12)]
Milliseconds = Annotated[float, Field(ge=0, le=10**9)]


class Unreadable(ValueError):
    """What the agent reported is not in the format; the text says where and why."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ReportedUsage(_Model):
    """Tokens by class, each counted once; what is left out or null is unknown, not 0."""

    input_tokens: Count | None = None
    cache_write_5m_tokens: Count | None = None
    cache_write_1h_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    output_tokens: Count | None = None
    thinking_tokens: Count | None = Field(None, description="part of output_tokens")


class ReportedCall(_Model):
    """A tool call with what came back."""

    tool: Name
    arguments: dict[str, JsonValue] | Text = Field(
        {}, description="or the JSON text of them; what is no JSON object is kept as {text: …}"
    )
    result: JsonValue = Field(
        None, description="text, or other JSON, kept as its text; null: nothing ever came back"
    )
    is_error: bool = False
    is_silent: bool = Field(False, description="of a tool that returns nothing by design")
    id: Annotated[str, Field(max_length=200)] = ""
    latency_ms: Milliseconds | None = None


class ReportedRound(_Model):
    """One model response with the calls it made and their results."""

    text: Text = ""
    tool_calls: list[ReportedCall] = Field([], max_length=MAX_CALLS)
    usage: ReportedUsage | None = None
    served_model: Name | None = None
    stop_reason: Annotated[str, Field(max_length=200)] = ""
    latency_ms: Milliseconds | None = Field(None, description="of the response, without tools")
    first_token_ms: Milliseconds | None = None
    agent: Name | None = Field(None, description="the sub-agent that responded; null: the agent")


class ReportedTurn(_Model):
    """Everything that an agent reports of one turn of the user."""

    answer: JsonValue = Field(
        None, description="text, or other JSON, kept as its text; null: the last round's text"
    )
    rounds: list[ReportedRound] = Field([], max_length=MAX_ROUNDS)
    usage: ReportedUsage | None = Field(
        None, description="of the whole turn, where no round says its own"
    )
    action: Name | None = Field(None, description="a named outcome, such as ask_clarification")
    state: dict[str, JsonValue] | None = Field(None, description="what is true afterwards")
    served_model: Name | None = Field(None, description="of every round that names none")
    cost_usd: Annotated[float, Field(ge=0, le=10**6)] | None = Field(
        None, description="of this turn; counts where the price table knows no price"
    )
    end: Literal["answered", "refused", "truncated", "agent_error"] | None = Field(
        None, description="null: agent_error where there is an error, else answered"
    )
    error: Text | None = None


class TextEvent(_Model):
    """A piece of the response that is being made."""

    type: Literal["text"]
    text: Text


class RoundEvent(ReportedRound):
    """A round that is complete; its text is that of the pieces before it where it has none."""

    type: Literal["round"]


class NoteEvent(BaseModel):
    """A sign of life or anything else; it counts for nothing."""

    model_config = ConfigDict(extra="allow", frozen=True)
    type: Literal["note"]


class ResultEvent(ReportedTurn):
    """The end of the turn; its rounds are those of the stream."""

    type: Literal["result"]


Event = Annotated[
    TextEvent | RoundEvent | NoteEvent | ResultEvent, Field(discriminator="type", title="Event")
]
TURN: TypeAdapter[ReportedTurn] = TypeAdapter(ReportedTurn)
EVENT: TypeAdapter[TextEvent | RoundEvent | NoteEvent | ResultEvent] = TypeAdapter(Event)


def read_json(content: bytes | str) -> object:
    """The JSON value in a text.

    Raises:
        Unreadable: It is something else, is nested too deeply or holds what is no number.
    """
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except Unreadable:
        raise
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8") from error
    except RecursionError as error:
        raise Unreadable(f"JSON nested deeper than {MAX_DEPTH}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise Unreadable(f"not JSON: {error.msg} at {where}") from error
    except ValueError as error:
        raise Unreadable("a number with too many digits") from error


def fitted(adapter: TypeAdapter[T], value: object) -> T:
    """A value as one of the format's models.

    Raises:
        Unreadable: It does not fit; the text names the first place where.
    """
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:_MAX_PLACE] or "the report"
        said = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
        # Not chained: pydantic's error quotes what the agent said.
        raise Unreadable(" ".join(f"{where}: {said}".split())[:_MAX_COMPLAINT]) from None


def trajectory_json_schema() -> dict[str, Any]:
    """The JSON Schema of a report; ``#/$defs/Event`` is that of one event of a stream."""
    report = TURN.json_schema()
    event = EVENT.json_schema(ref_template="#/$defs/{model}")
    definitions = {**report.pop("$defs"), **event.pop("$defs"), "Event": event}
    return {**report, "$defs": definitions}


def clean(value: object) -> object:
    """A copy of a value that is surely JSON where it is made of JSON's types.

    Lone halves of surrogate pairs, which a text cut by its agent ends with, are replaced.

    Raises:
        Unreadable: It is nested too deeply, holds too much, a number that is none, or a text that
            is too long.
    """
    return _clean(value, 0, itertools.count())


def _clean(value: object, depth: int, counted: Iterator[int]) -> object:
    if depth > MAX_DEPTH:
        raise Unreadable(f"nested deeper than {MAX_DEPTH}")
    if next(counted) >= MAX_VALUES:
        raise Unreadable(f"more than {MAX_VALUES:,} values")
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise Unreadable(f"a text of more than {MAX_TEXT:,} characters")
        return whole_text(value)
    if isinstance(value, Mapping):
        return {_key(key): _clean(item, depth + 1, counted) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, depth + 1, counted) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise Unreadable(f"{value} is not a JSON number")
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        raise Unreadable("a number with too many digits")
    return value


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise Unreadable(f"a key of type {type(key).__name__}; expected text")
    return whole_text(key)


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not a JSON number")
