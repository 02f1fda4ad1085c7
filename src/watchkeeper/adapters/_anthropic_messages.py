"""The Messages API in both directions, as JSON: what is sent, and what came back.

Responses are read from their bytes, because the SDK hands on whatever a server answers: a list
where an object was promised, text where a number was, the usage missing. What is not as promised
is said (``Unreadable``) or left unknown (usage), and never guessed.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.ports import Observation, ToolSpec
from watchkeeper.domain.redaction import whole_text
from watchkeeper.domain.trajectory import ToolCall, Usage

Json = dict[str, object]

MAX_DEPTH = 100


class Unreadable(ValueError):
    """A response that is not what the Messages API promises; its text says how."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the model; ``blocks`` are its content as the server gave it."""

    blocks: tuple[Json, ...]
    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: str
    served_model: str | None
    usage: Usage
    refusal: str | None = None

    def sent_back(self, *, with_calls: bool) -> tuple[Json, ...]:
        """The assistant's turn for the next request, or nothing where it said nothing.

        The API refuses blank text and a turn without content, also where it was the model that
        produced them; calls that nobody is going to answer are refused as well.
        """
        kept = [
            block
            for block in self.blocks
            if not (block["type"] == "text" and not str(block["text"]).strip())
            and (with_calls or block["type"] != "tool_use")
        ]
        return ({"role": "assistant", "content": kept},) if kept else ()


def clean(value: object, depth: int = 0) -> object:
    """A copy of decoded JSON that can be encoded again: whole texts, finite numbers.

    Raises:
        Unreadable: It is nested deeper than ``MAX_DEPTH``.
    """
    if depth > MAX_DEPTH:
        raise Unreadable(f"JSON nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, Mapping):
        return {whole_text(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, float) and math.isinf(value):  # 1e999 is valid JSON
        return math.copysign(sys.float_info.max, value)
    return value


def read_object(content: bytes) -> Json:
    """The JSON object in a response body.

    Raises:
        Unreadable: The body is something else.
    """
    try:
        body = clean(json.loads(content, parse_constant=_refuse_constant))
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:
        raise Unreadable("not JSON") from error
    if not isinstance(body, dict):
        raise Unreadable("not a JSON object")
    return body


def read_reply(content: bytes, silent: frozenset[str] = frozenset()) -> Reply:
    """What the model answered.

    Args:
        content: The body of a response with status 200.
        silent: Names of the tools whose calls never make a round barren.

    Raises:
        Unreadable: Content or stop reason are not what the Messages API promises.
    """
    body = read_object(content)
    blocks = _blocks(body)
    stop_reason = body.get("stop_reason")
    if not isinstance(stop_reason, str) or not stop_reason:
        raise Unreadable("no stop reason")
    return Reply(
        blocks=blocks,
        text="".join(str(block["text"]) for block in blocks if block["type"] == "text"),
        calls=_calls(blocks, silent),
        stop_reason=stop_reason,
        served_model=_served_model(body),
        usage=read_usage(body.get("usage")),
        refusal=_refusal(body.get("stop_details")),
    )


def read_usage(usage: object) -> Usage:
    """Tokens by class, each counted once; what is missing or no count is unknown.

    Cache writes that the provider does not split by lifetime count as 5 minutes.
    """
    if not isinstance(usage, Mapping):
        return Usage()
    split = usage.get("cache_creation")
    split = split if isinstance(split, Mapping) else {}
    written = _count(usage.get("cache_creation_input_tokens"))
    hour = _count(split.get("ephemeral_1h_input_tokens"))
    minutes = _count(split.get("ephemeral_5m_input_tokens"))
    if written is not None:
        hour = hour or 0
        minutes = max(minutes or 0, written - hour)
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=_count(usage.get("input_tokens")),
        cache_write_5m_tokens=minutes,
        cache_write_1h_tokens=hour,
        cache_read_tokens=_count(usage.get("cache_read_input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        thinking_tokens=_count(details.get("thinking_tokens"))
        if isinstance(details, Mapping)
        else None,
    )


def tool_definitions(tools: Iterable[ToolSpec]) -> list[Json]:
    """The tools as a request declares them."""
    definitions: list[Json] = []
    for tool in tools:
        described: Json = {"description": whole_text(tool.description)} if tool.description else {}
        schema = clean(tool.input_schema)
        definitions.append({"name": tool.name, **described, "input_schema": schema})
    return definitions


def observed(observation: Observation) -> tuple[Json, ...]:
    """The user's turn that tells the model of an observation; none for no results at all."""
    if isinstance(observation, UserTurn):
        return ({"role": "user", "content": whole_text(observation.text)},)
    results = [_tool_result(call) for call in observation.calls]
    return ({"role": "user", "content": results},) if results else ()


def _tool_result(call: ToolCall) -> Json:
    result: Json = {"type": "tool_result", "tool_use_id": call.call_id}
    text = whole_text(call.result or "")
    if call.is_error or call.status == "unanswered":
        # The API refuses an error without a text.
        return {**result, "content": text or "The tool gave no result.", "is_error": True}
    return {**result, "content": text}


def _blocks(body: Json) -> tuple[Json, ...]:
    content = body.get("content")
    if not isinstance(content, list):
        raise Unreadable("no list of content blocks")
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise Unreadable("a content block without a type")
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise Unreadable("a text block without text")
    return tuple(content)


def _calls(blocks: Iterable[Json], silent: frozenset[str]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for block in blocks:
        if block["type"] != "tool_use":
            continue
        name, call_id, arguments = block.get("name"), block.get("id"), block.get("input")
        if not (isinstance(name, str) and isinstance(call_id, str) and name and call_id):
            raise Unreadable("a tool call without a name or an id")
        if not isinstance(arguments, dict):
            raise Unreadable(f"a call of {name} whose arguments are not an object")
        if any(call.call_id == call_id for call in calls):
            raise Unreadable(f"two tool calls with the id {call_id}")
        # A copy: whoever runs the tool may change its arguments, and these are sent back.
        arguments = copy.deepcopy(arguments)
        calls.append(ToolCall(name, arguments, call_id=call_id, is_silent=name in silent))
    return tuple(calls)


def _served_model(body: Json) -> str | None:
    """The model that answered: a fallback where one took over, else the one that is named."""
    usage = body.get("usage")
    iterations = usage.get("iterations") if isinstance(usage, Mapping) else None
    fallbacks = [
        entry["model"]
        for entry in (iterations if isinstance(iterations, list) else [])
        if isinstance(entry, Mapping)
        and entry.get("type") == "fallback_message"
        and isinstance(entry.get("model"), str)
    ]
    model = body.get("model")
    named = model if isinstance(model, str) else ""
    return "+".join(dict.fromkeys(fallbacks)) or named or None


def _refusal(details: object) -> str | None:
    """The category and the explanation of a refusal, where the provider gives them."""
    if not isinstance(details, Mapping) or details.get("type") != "refusal":
        return None
    said = [details.get("category"), details.get("explanation")]
    return ": ".join(text for text in said if isinstance(text, str) and text)[:500] or None


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count and isinstance(value, int) else None


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not a JSON number")
