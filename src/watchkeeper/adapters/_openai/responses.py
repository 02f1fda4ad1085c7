"""The Responses API in both directions, as JSON: what is sent, and what came back.

Nothing is kept at the provider (``store: false``): every request brings the whole conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from watchkeeper.adapters._attachments import SentPart
from watchkeeper.adapters._model.json import (
    Json,
    ReportedError,
    Unreadable,
    decoded,
    mapping,
)
from watchkeeper.adapters._model.session import Reply, Stops
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
    status_of,
)
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.trajectory import ToolCall

_STOPS = Stops(
    ends={
        "completed": "answered",
        "max_output_tokens": "truncated",
        "content_filter": "refused",
    },
    calling=frozenset({"completed"}),
)
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesWire:
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
            "max_output_tokens": settings.max_tokens,
            "store": False,
            **settings.sampling,
        }
        if settings.reasoning_effort is not None:
            request["reasoning"] = {"effort": settings.reasoning_effort}
            if settings.reasoning_effort != "none":
                # So that the thoughts can be sent back; models without any refuse it.
                request["include"] = ["reasoning.encrypted_content"]
        if settings.stream:
            request["stream"] = True
        functions = [{"type": "function", **function_of(tool), "strict": False} for tool in tools]
        return {**request, "tools": functions} if functions else request

    def said(self, system: str | None, messages: tuple[Json, ...]) -> dict[str, Any]:
        """The prompt and the conversation so far."""
        return {**({"instructions": system} if system else {}), "input": list(messages)}

    def user_turn(self, parts: tuple[SentPart, ...]) -> tuple[Json, ...]:
        """Text as text; files as the parts that fit them."""
        if len(parts) == 1 and isinstance(parts[0], str):
            return ({"role": "user", "content": parts[0]},)
        return ({"role": "user", "content": [_part(part) for part in parts]},)

    def result_turn(self, calls: Iterable[ToolCall]) -> tuple[Json, ...]:
        """Every result in an item of its own."""
        return tuple(
            {"type": "function_call_output", "call_id": call.call_id, "output": result_text(call)}
            for call in calls
        )

    def read(self, body: Json, silent: frozenset[str]) -> Reply:
        """What the model answered.

        Raises:
            Unreadable: It is not what the Responses API promises.
            ReportedError: It says that the response failed.
        """
        stop_reason = _stop_reason(body)
        items = body.get("output")
        if not isinstance(items, list):
            raise Unreadable("no list of output items")
        if any(not isinstance(one, dict) or not isinstance(one.get("type"), str) for one in items):
            raise Unreadable("an output item without a type")
        said = [_said(one) for one in items if one["type"] == "message"]
        refusal = "".join(refused for _, refused in said)
        calls = tuple(
            read_call(one.get("name"), one.get("call_id"), one.get("arguments"), silent)
            for one in items
            if one["type"] == "function_call"
        )
        refuse_twins(calls)
        is_filtered = stop_reason == "content_filter"
        return Reply(
            text="".join(text + refused for text, refused in said),
            calls=calls,
            stop_reason=stop_reason,
            served_model=served_model(body),
            usage=read_usage(body.get("usage"), "input", "output"),
            turn=_sent_back(items, {call.call_id: call for call in calls}),
            turn_without_calls=_sent_back(items, {}),
            refusal=refusal[:500] or ("the provider's content filter" if is_filtered else None),
        )

    def assembly(self) -> ResponseAssembly:
        """Waits for the end of a streamed response, which holds the whole of it."""
        return ResponseAssembly()

    def identity(self, entry: Json) -> dict[str, Any]:
        """When the model was made."""
        return identity(entry)


class ResponseAssembly:
    """One response: its last event brings it whole, what comes before tells when it began."""

    may_end = False

    def __init__(self) -> None:
        self.has_begun = False
        self._response: Json | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the last event has come."""
        return self._response is not None

    def take(self, data: str) -> None:
        """Takes the next event."""
        if data.strip() == "[DONE]":
            return
        event = decoded(data)
        type_ = event.get("type")
        if type_ == "error" or event.get("error"):
            error = mapping(event.get("error") or event)
            raise ReportedError(status_of(error), {"error": {**error, "type": _word(error)}})
        if not isinstance(type_, str):
            raise Unreadable("an event without a type")
        if type_.endswith(".delta") and event.get("delta"):
            self.has_begun = True
        elif type_ in _LAST_EVENTS:
            response = event.get("response")
            if not isinstance(response, dict):
                raise Unreadable("a last event without the response")
            self._response = response

    def body(self) -> Json:
        """The response as it would have been in one piece."""
        return self._response or {}


def _word(error: Mapping[str, object]) -> object:
    """The type of an error, which is not that of the event."""
    return None if error.get("type") == "error" else error.get("type")


def _stop_reason(body: Json) -> str:
    status = body.get("status")
    if status == "failed":
        error = mapping(body.get("error"))
        raise ReportedError(status_of(error), {"error": error or "the response failed"})
    if status == "incomplete":
        reason = mapping(body.get("incomplete_details")).get("reason")
        return reason if isinstance(reason, str) and reason else "incomplete"
    if status != "completed":
        raise Unreadable(f"status {str(status)[:40]!r} of a response that is over")
    return "completed"


def _said(item: Mapping[str, object]) -> tuple[str, str]:
    """The text of a message and what it refuses."""
    content = item.get("content")
    if not isinstance(content, list):
        raise Unreadable("a message without a list of parts")
    said: dict[str, list[str]] = {"text": [], "refusal": []}
    for part in content:
        key = {"output_text": "text", "refusal": "refusal"}.get(str(mapping(part).get("type")))
        if key is None:
            continue
        text = mapping(part).get(key)
        if not isinstance(text, str):
            raise Unreadable(f"a part without its {key}")
        said[key].append(text)
    return "".join(said["text"]), "".join(said["refusal"])


def _part(part: SentPart) -> Json:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if part.text is not None:
        return {"type": "input_text", "text": part.titled_text}
    if part.is_image:
        return {"type": "input_image", "image_url": part.data_url, "detail": "auto"}
    return {"type": "input_file", "filename": part.name, "file_data": part.data_url}


def _sent_back(items: list[Json], answered: Mapping[str, ToolCall]) -> tuple[Json, ...]:
    """The items of a response for the next request; of calls those that are answered.

    Thoughts that are not in the item itself cannot be looked up by the server, which keeps
    nothing; what refers to them by its id must not have one then.
    """
    kept: list[Json] = []
    is_whole = True
    for one in items:
        if one["type"] == "reasoning" and not one.get("encrypted_content"):
            is_whole = False
        elif one["type"] != "function_call":
            kept.append(one)
        elif one["call_id"] in answered:
            call = answered[str(one["call_id"])]
            is_given = not call.is_error and str(one["arguments"]).strip()
            arguments = one["arguments"] if is_given else json.dumps(call.arguments)
            kept.append({**one, "arguments": arguments})
    if all(one["type"] == "reasoning" for one in kept):
        return ()
    if is_whole:
        return tuple(kept)
    return tuple({key: value for key, value in one.items() if key != "id"} for one in kept)
