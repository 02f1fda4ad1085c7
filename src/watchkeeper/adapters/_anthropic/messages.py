"""The Messages API in both directions, as JSON: what is sent, and what came back."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from watchkeeper.adapters._anthropic.stream import MessageAssembly
from watchkeeper.adapters._attachments import IMAGES, PDF, TEXTS, SentPart
from watchkeeper.adapters._model.json import Json, Unreadable, clean, count, mapping, text_at
from watchkeeper.adapters._model.session import Reply, Stops
from watchkeeper.adapters._model.settings import ModelSettings
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.redaction import whole_text
from watchkeeper.domain.trajectory import ToolCall, Usage

ACCEPTED_MEDIA = (*IMAGES, PDF, *TEXTS)

_STOPS = Stops(
    ends={
        "end_turn": "answered",
        "stop_sequence": "answered",
        "max_tokens": "truncated",
        "model_context_window_exceeded": "truncated",
        "refusal": "refused",
        "tool_use": "agent_error",
    },
    calling=frozenset({"tool_use", "end_turn", "stop_sequence", "pause_turn"}),
    pausing=frozenset({"pause_turn"}),
)


class MessagesWire:
    """How one endpoint is spoken to."""

    stops = _STOPS
    accepted_media = ACCEPTED_MEDIA

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings

    def request(self, tools: Iterable[ToolSpec]) -> dict[str, Any]:
        """Model, bounds and tools."""
        request: dict[str, Any] = {
            "model": self._settings.model,
            "max_tokens": self._settings.max_tokens,
        }
        if self._settings.stream:
            request["stream"] = True
        definitions = tool_definitions(tools)
        return {**request, "tools": definitions} if definitions else request

    def said(self, system: str | None, messages: tuple[Json, ...]) -> dict[str, Any]:
        """The prompt and the conversation so far."""
        return {**({"system": system} if system else {}), "messages": list(messages)}

    def user_turn(self, parts: tuple[SentPart, ...]) -> tuple[Json, ...]:
        """Text as text; files as the blocks that fit them."""
        if len(parts) == 1 and isinstance(parts[0], str):
            return ({"role": "user", "content": parts[0]},)
        return ({"role": "user", "content": [_block(part) for part in parts]},)

    def result_turn(self, calls: Iterable[ToolCall]) -> tuple[Json, ...]:
        """All results in one turn; none for no results at all."""
        results = [_tool_result(call) for call in calls]
        return ({"role": "user", "content": results},) if results else ()

    def read(self, body: Json, silent: frozenset[str]) -> Reply:
        """What the model answered.

        Raises:
            Unreadable: Content or stop reason are not what the Messages API promises.
        """
        blocks = _blocks(body)
        stop_reason = body.get("stop_reason")
        if not isinstance(stop_reason, str) or not stop_reason:
            raise Unreadable("no stop reason")
        return Reply(
            text="".join(str(block["text"]) for block in blocks if block["type"] == "text"),
            calls=_calls(blocks, silent),
            stop_reason=stop_reason,
            served_model=_served_model(body),
            usage=read_usage(body.get("usage")),
            turn=_sent_back(blocks),
            turn_without_calls=_sent_back(one for one in blocks if one["type"] != "tool_use"),
            refusal=_refusal(body.get("stop_details")),
        )

    def assembly(self) -> MessageAssembly:
        """Puts a streamed message together."""
        return MessageAssembly()

    def identity(self, entry: Json) -> dict[str, Any]:
        """When the model was made, and how long it stays."""
        return identity(entry)


def identity(entry: Json) -> dict[str, Any]:
    """What a model's entry in the list says of its age and of how long it stays."""
    return {
        "created_at": _moment(entry.get("created_at")),
        "lifecycle": text_at(entry.get("lifecycle")),
        "retires_at": _moment(entry.get("retires_at")),
    }


def read_usage(usage: object) -> Usage:
    """Tokens by class, each counted once; what is missing or no count is unknown.

    Cache writes that the provider does not split by lifetime count as 5 minutes.
    """
    if not isinstance(usage, Mapping):
        return Usage()
    split = mapping(usage.get("cache_creation"))
    written = count(usage.get("cache_creation_input_tokens"))
    hour = count(split.get("ephemeral_1h_input_tokens"))
    minutes = count(split.get("ephemeral_5m_input_tokens"))
    if written is not None:
        hour = hour or 0
        minutes = max(minutes or 0, written - hour)
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        cache_write_5m_tokens=minutes,
        cache_write_1h_tokens=hour,
        cache_read_tokens=count(usage.get("cache_read_input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        thinking_tokens=count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


def tool_definitions(tools: Iterable[ToolSpec]) -> list[Json]:
    """The tools as a request declares them."""
    definitions: list[Json] = []
    for tool in tools:
        described: Json = {"description": whole_text(tool.description)} if tool.description else {}
        schema = clean(tool.input_schema)
        definitions.append({"name": tool.name, **described, "input_schema": schema})
    return definitions


def _block(part: SentPart) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.text is not None:
        return {"type": "text", "text": part.titled_text}
    source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
    if part.is_image:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": part.name}


def _tool_result(call: ToolCall) -> Json:
    result: Json = {"type": "tool_result", "tool_use_id": call.call_id}
    text = whole_text(call.result or "")
    if call.is_error or call.status == "unanswered":
        # The API refuses an error without a text.
        return {**result, "content": text or "The tool gave no result.", "is_error": True}
    return {**result, "content": text}


def _sent_back(blocks: Iterable[Json]) -> tuple[Json, ...]:
    """The assistant's turn for the next request, or nothing where it said nothing.

    The API refuses blank text and a turn without content, also where it was the model that
    produced them; calls that nobody is going to answer are refused as well.
    """
    kept = [one for one in blocks if one["type"] != "text" or str(one["text"]).strip()]
    return ({"role": "assistant", "content": kept},) if kept else ()


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
    iterations = mapping(body.get("usage")).get("iterations")
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


def _moment(value: object) -> datetime | None:
    """A time that the server gave; the epoch stands for one that it does not know."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if moment is None or moment.year <= 1970:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
