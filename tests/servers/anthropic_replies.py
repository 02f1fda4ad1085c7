"""What the scripted Messages and Models API can answer, in the real API's shapes.

Tokens, ids and models are those of the arguments; `ECHO` stands for what the request decides.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.servers.loopback import DROPPED, Reply

DEFAULT_MODEL = "claude-sonnet-5-5"
ECHO = "requested"
"""In a reply: the model that the request asks for, or an id made from the call's number."""


def message(
    text: str = "ok",
    *,
    model: str = ECHO,
    stop_reason: str = "end_turn",
    content: Sequence[Mapping[str, Any]] | None = None,
    input_tokens: int = 12,
    output_tokens: int = 5,
    cache_creation: int = 0,
    cache_read: int = 0,
    iterations: Sequence[Mapping[str, Any]] | None = None,
    stop_details: Mapping[str, Any] | None = None,
) -> Reply:
    """An answer; `content` replaces the text block, `model` is echoed unless it is named."""
    usage: dict[str, Any] = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": cache_creation,
        "cache_read_input_tokens": cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": cache_creation,
            "ephemeral_1h_input_tokens": 0,
        },
        "service_tier": "standard",
    }
    if iterations is not None:
        usage["iterations"] = list(iterations)
    return Reply.json(
        {
            "id": ECHO,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}] if content is None else list(content),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "stop_details": stop_details,
            "usage": usage,
        }
    )


def tool_use(
    name: str, arguments: Mapping[str, Any], *, call_id: str = "toolu_1", text: str = ""
) -> Reply:
    """A round that asks for one tool; any text comes first."""
    return tool_uses([(name, arguments)], first_id=call_id, text=text)


def tool_uses(
    calls: Sequence[tuple[str, Mapping[str, Any]]], *, first_id: str = "toolu_1", text: str = ""
) -> Reply:
    """A round that asks for several tools at once; later ids are the first with a suffix."""
    blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}] if text else []
    for index, (name, arguments) in enumerate(calls):
        call_id = first_id if index == 0 else f"{first_id}_{index + 1}"
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)})
    return message(content=blocks, stop_reason="tool_use")


def refusal(category: str | None = None) -> Reply:
    """A refusal with no content at all."""
    details = {"type": "refusal", "category": category, "explanation": None}
    return message(content=[], stop_reason="refusal", stop_details=details, output_tokens=0)


def paused() -> Reply:
    """A long turn that the provider paused; the client is to send it back to go on."""
    search = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "weather"},
    }
    return message(content=[search], stop_reason="pause_turn")


def cut_off(text: str = "The capital of") -> Reply:
    """An answer that ran into `max_tokens`."""
    return message(text, stop_reason="max_tokens")


def context_exceeded(text: str = "") -> Reply:
    """An answer that filled the model's context window."""
    return message(text, stop_reason="model_context_window_exceeded")


def fallback(text: str = "ok", *, served_by: str = "claude-haiku-5-5") -> Reply:
    """An answer that another model gave: `usage.iterations` tells, and so does `model`."""
    tokens = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    tried = {"type": "message", "model": ECHO, "input_tokens": 12, "output_tokens": 0, **tokens}
    gave = {
        "type": "fallback_message",
        "model": served_by,
        "input_tokens": 12,
        "output_tokens": 5,
        **tokens,
    }
    return message(text, model=served_by, iterations=[tried, gave])


def failed(status: int, kind: str, text: str, **headers: str) -> Reply:
    """An error in the API's own shape; header names with underscores."""
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": ECHO}
    return Reply.json(body, status=status, **headers)


def rate_limited(retry_after: float | None = None) -> Reply:
    """429, with the seconds to wait or without."""
    text = "This request would exceed your organization's rate limit."
    if retry_after is None:
        return failed(429, "rate_limit_error", text)
    return failed(429, "rate_limit_error", text, retry_after=f"{retry_after:g}")


def overloaded() -> Reply:
    """529: the provider has no room."""
    return failed(529, "overloaded_error", "Overloaded")


def server_error() -> Reply:
    """500 in the API's own shape."""
    return failed(500, "api_error", "Internal server error")


def unauthorized() -> Reply:
    """401: the key is not known."""
    return failed(401, "authentication_error", "invalid x-api-key")


def model_missing(model: str = DEFAULT_MODEL) -> Reply:
    """404, as for a retired model."""
    return failed(404, "not_found_error", f"model: {model}")


def html_page(status: int = 200) -> Reply:
    """A gateway's page where JSON should be."""
    page = b"<!doctype html><html><body><h1>Checking your browser</h1></body></html>"
    return Reply(status=status, body=page, headers={"content-type": "text/html"})


def without_usage(text: str = "ok") -> Reply:
    """A message whose `usage` is missing."""
    body = json.loads(message(text).body)
    del body["usage"]
    return Reply.json(body)


def junk() -> Reply:
    """A 200 with JSON which is no message."""
    return Reply.json({"hello": "world"})


def dropped() -> Reply:
    """The connection closed without a byte of an answer, and nothing paid."""
    return DROPPED


def lost(text: str = "ok") -> Reply:
    """A message that is paid for but never arrives: the connection closes instead."""
    return replace(message(text), drop=True)


REPLIES: Mapping[str, Callable[..., Reply]] = {
    reply.__name__: reply
    for reply in (
        message,
        tool_use,
        tool_uses,
        refusal,
        paused,
        cut_off,
        context_exceeded,
        fallback,
        failed,
        rate_limited,
        overloaded,
        server_error,
        unauthorized,
        model_missing,
        html_page,
        without_usage,
        junk,
        dropped,
        lost,
    )
}


_NOT_ARGUMENTS = {"reply", "delay_s", "when"}


def model_card(
    model_id: str,
    *,
    created_at: str = "2026-02-01T00:00:00Z",
    lifecycle: str = "active",
    deprecated_at: str | None = None,
    retires_at: str | None = None,
) -> dict[str, Any]:
    """What `GET /v1/models/{id}` answers; an alias may be mapped to another id's card."""
    return {
        "type": "model",
        "id": model_id,
        "display_name": model_id.replace("-", " ").title(),
        "created_at": created_at,
        "lifecycle": lifecycle,
        "deprecated_at": deprecated_at,
        "retires_at": retires_at,
        "line": None,
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
        "capabilities": None,
    }


def reply_from(document: Mapping[str, Any]) -> Reply:
    """The reply that one entry of a script file names.

    Raises:
        KeyError: the file names a reply that does not exist.
    """
    arguments = {key: value for key, value in document.items() if key not in _NOT_ARGUMENTS}
    reply = REPLIES[document["reply"]](**arguments)
    return reply.after(float(document.get("delay_s", 0.0)))
