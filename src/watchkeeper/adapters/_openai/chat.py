"""Chat Completions in both directions, as JSON: what is sent, and what came back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from watchkeeper.adapters._attachments import SentPart
from watchkeeper.adapters._model.json import Json, Unreadable, mapping
from watchkeeper.adapters._model.session import Reply, Stops
from watchkeeper.adapters._openai.chat_stream import ChatAssembly
from watchkeeper.adapters._openai.shapes import (
    ACCEPTED_MEDIA,
    Settings,
    function_of,
    identity,
    read_call,
    read_usage,
    refuse_twins,
    result_text,
    served_model,
)
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.trajectory import ToolCall

_STOPS = Stops(
    ends={
        "stop": "answered",
        "length": "truncated",
        "content_filter": "refused",
        "tool_calls": "agent_error",
    },
    calling=frozenset({"tool_calls", "stop"}),
)
_THOUGHTS = ("reasoning", "reasoning_content", "reasoning_details")
"""What servers of open models call the thoughts; they want them back beside the calls."""


class ChatWire:
    """How one endpoint is spoken to."""

    stops = _STOPS
    accepted_media = ACCEPTED_MEDIA

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def request(self, tools: Iterable[ToolSpec]) -> dict[str, Any]:
        """Model, bounds, sampling and tools."""
        settings = self._settings
        request: dict[str, Any] = {
            "model": settings.model,
            settings.output_bound: settings.max_tokens,
            **settings.sampling,
        }
        if settings.reasoning_effort is not None:
            request["reasoning_effort"] = settings.reasoning_effort
        if settings.stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        functions = [{"type": "function", "function": function_of(tool)} for tool in tools]
        return {**request, "tools": functions} if functions else request

    def said(self, system: str | None, messages: tuple[Json, ...]) -> dict[str, Any]:
        """The prompt, which is the first message, and the conversation so far."""
        opening = [{"role": "system", "content": system}] if system else []
        return {"messages": [*opening, *messages]}

    def user_turn(self, parts: tuple[SentPart, ...]) -> tuple[Json, ...]:
        """Text as text; files as the parts that fit them."""
        if len(parts) == 1 and isinstance(parts[0], str):
            return ({"role": "user", "content": parts[0]},)
        return ({"role": "user", "content": [_part(part) for part in parts]},)

    def result_turn(self, calls: Iterable[ToolCall]) -> tuple[Json, ...]:
        """Every result in a message of its own."""
        return tuple(
            {"role": "tool", "tool_call_id": call.call_id, "content": result_text(call)}
            for call in calls
        )

    def read(self, body: Json, silent: frozenset[str]) -> Reply:
        """What the model answered.

        Raises:
            Unreadable: It is not what Chat Completions promises.
        """
        choices = body.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise Unreadable("no choices")
        message, stop_reason = choices[0].get("message"), choices[0].get("finish_reason")
        if not isinstance(message, dict):
            raise Unreadable("a choice without a message")
        if not isinstance(stop_reason, str) or not stop_reason:
            raise Unreadable("no finish reason")
        content, refusal = _text(message, "content"), _text(message, "refusal")
        asked = _asked(message)
        calls = tuple(
            read_call(
                mapping(one["function"]).get("name"),
                one["id"],
                mapping(one["function"]).get("arguments"),
                silent,
            )
            for one in asked
        )
        refuse_twins(calls)
        text = content + refusal
        is_filtered = stop_reason == "content_filter"
        said: Json = {"role": "assistant", "content": text}
        plain = (said,) if text.strip() else ()
        return Reply(
            text=text,
            calls=calls,
            stop_reason=stop_reason,
            served_model=served_model(body),
            usage=read_usage(body.get("usage"), "prompt", "completion"),
            turn=(_turn_with_calls(message, text, asked, calls),) if calls else plain,
            turn_without_calls=plain,
            refusal=refusal[:500] or ("the provider's content filter" if is_filtered else None),
        )

    def assembly(self) -> ChatAssembly:
        """Puts a streamed completion together."""
        return ChatAssembly()

    def identity(self, entry: Json) -> dict[str, Any]:
        """When the model was made."""
        return identity(entry)


def _part(part: SentPart) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.text is not None:
        return {"type": "text", "text": part.titled_text}
    if part.is_image:
        return {"type": "image_url", "image_url": {"url": part.data_url}}
    return {"type": "file", "file": {"filename": part.name, "file_data": part.data_url}}


def _text(message: Mapping[str, object], key: str) -> str:
    text = message.get(key)
    if text is not None and not isinstance(text, str):
        raise Unreadable(f"a message whose {key} is not text")
    return text or ""


def _asked(message: Mapping[str, object]) -> list[Json]:
    """The calls as the server gave them; one without an id is given its place as one."""
    given = message.get("tool_calls")
    if given is None:
        return []
    if not isinstance(given, list):
        raise Unreadable("tool calls which are no list")
    asked: list[Json] = []
    for place, one in enumerate(given, 1):
        if not isinstance(one, dict) or one.get("type", "function") not in {"function", None, ""}:
            raise Unreadable("a tool call which is not of a function")
        if not isinstance(one.get("function"), dict):
            raise Unreadable("a tool call without a function")
        asked.append({**one, "id": one.get("id") or f"call_{place}", "type": "function"})
    return asked


def _turn_with_calls(
    message: Mapping[str, object], text: str, asked: list[Json], calls: tuple[ToolCall, ...]
) -> Json:
    """The assistant's turn as it was, with arguments that every server can read again."""
    sent: list[Json] = []
    for one, call in zip(asked, calls, strict=True):
        function = dict(mapping(one["function"]))
        if call.is_error or not str(function.get("arguments")).strip():
            function["arguments"] = json.dumps(call.arguments)
        sent.append({**one, "function": function})
    thoughts = {key: message[key] for key in _THOUGHTS if message.get(key)}
    return {"role": "assistant", "content": text or None, **thoughts, "tool_calls": sent}
