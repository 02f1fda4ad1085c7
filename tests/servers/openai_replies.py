"""What the scripted OpenAI server can answer, in the shapes of both APIs, whole or streamed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.servers.loopback import Reply

DEFAULT_MODEL = "gpt-6-mini"
PIECE = 3
"""Characters that a streamed piece of text has."""

_CHAT_STOPS = {"length": "length", "content_filter": "content_filter"}
_RESPONSE_STOPS = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the model, which the server puts into the shape that it is asked in.

    Args:
        calls: Names and arguments; arguments that are text are sent as they stand.
        stop: `length`, `content_filter`, or anything else for what is natural.
        thoughts: What a reasoning model thought, encrypted.
        cut_after: Of a stream, the events after which the connection is closed.
        error_after: The same, after which `error` is sent instead.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    stop: str = ""
    refusal: str | None = None
    thoughts: str | None = None
    model: str | None = None
    usage: tuple[int, int, int, int, int] | None = (20, 5, 0, 7, 2)
    delay_s: float = 0.0
    cut_after: int | None = None
    error_after: int | None = None
    error: Mapping[str, Any] | None = None

    def after(self, seconds: float) -> "Answer":
        """The same answer, given later."""
        return replace(self, delay_s=seconds)


def failed(
    status: int, text: str, kind: str = "invalid_request_error", code: object = None, **headers: str
) -> Reply:
    """An error in the API's own shape; header names with underscores."""
    error = {"message": text, "type": kind, "param": None, "code": code}
    return Reply.json({"error": error}, status=status, **headers)


def rate_limited(retry_after: float | None = None) -> Reply:
    """429 for a minute that is used up."""
    text = "Rate limit reached for gpt-6-mini on tokens per min (TPM): Limit 30000, Used 30000."
    headers = {} if retry_after is None else {"retry_after": f"{retry_after:g}"}
    return failed(429, text, "tokens", "rate_limit_exceeded", **headers)


def out_of_money() -> Reply:
    """429 for an account with nothing left."""
    text = "You exceeded your current quota, please check your plan and billing details."
    return failed(429, text, "insufficient_quota", "insufficient_quota")


def server_error() -> Reply:
    """500 in the API's own shape."""
    return failed(500, "The server had an error while processing your request.", "server_error")


def unauthorized() -> Reply:
    """401: the key is not known."""
    return failed(401, "Incorrect API key provided.", code="invalid_api_key")


def model_missing(model: str = DEFAULT_MODEL) -> Reply:
    """404: no such model."""
    return failed(404, f"The model `{model}` does not exist.", code="model_not_found")


def model_card(model_id: str, created: int = 1_770_000_000) -> dict[str, Any]:
    """What `GET /v1/models/{id}` answers."""
    return {"id": model_id, "object": "model", "created": created, "owned_by": "openai"}


def chat_body(answer: Answer, number: int, model: str) -> dict[str, Any]:
    """The answer as a chat completion."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text or None,
        "refusal": answer.refusal,
        "annotations": [],
    }
    if answer.thoughts is not None:
        message["reasoning_content"] = answer.thoughts
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{place}",
                "type": "function",
                "function": {"name": name, "arguments": _arguments(arguments)},
            }
            for place, (name, arguments) in enumerate(answer.calls)
        ]
    stop = _CHAT_STOPS.get(answer.stop) or ("tool_calls" if answer.calls else "stop")
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_770_000_000,
        "model": answer.model or model,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": stop},
        ],
        "usage": _chat_usage(answer),
        "system_fingerprint": "fp_1",
    }


def response_body(answer: Answer, number: int, model: str) -> dict[str, Any]:
    """The answer as a response."""
    output: list[dict[str, Any]] = []
    if answer.thoughts is not None:
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        output.append({**thought, "encrypted_content": answer.thoughts or None})
    if answer.text or answer.refusal or not answer.calls:
        parts: list[dict[str, Any]] = [
            {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        ]
        if answer.refusal is not None:
            parts = [{"type": "refusal", "refusal": answer.refusal}]
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        output.append({**message, "status": "completed", "content": parts})
    for place, (name, arguments) in enumerate(answer.calls):
        call = {"type": "function_call", "id": f"fc_{number}_{place}", "status": "completed"}
        call |= {"call_id": f"call_{number}_{place}", "name": name}
        output.append({**call, "arguments": _arguments(arguments)})
    reason = _RESPONSE_STOPS.get(answer.stop)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_770_000_000,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": answer.model or model,
        "output": output,
        "usage": _response_usage(answer),
    }


def chat_events(body: Mapping[str, Any], *, has_usage: bool) -> list[dict[str, Any]]:
    """A chat completion as the chunks of a stream, without the mark at its end."""
    (choice,) = body["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for key in ("reasoning_content", "content", "refusal"):
        deltas += [{key: piece} for piece in _pieces(message.get(key) or "")]
    for place, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        begun = {**call, "index": place, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        for piece in _pieces(arguments):
            deltas.append({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    frame = {key: body[key] for key in ("id", "created", "model")}
    frame["object"] = "chat.completion.chunk"
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks = [{**frame, "choices": [one], "usage": None} for one in (*choices, last)]
    return [*chunks, {**frame, "choices": [], "usage": body["usage"]}] if has_usage else chunks


def response_events(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A response as the events of a stream."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(body["output"]):
        at = {"output_index": place, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "item": {**item, "content": []}, **at})
        if item["type"] == "function_call":
            kind = "response.function_call_arguments.delta"
            events += [{"type": kind, "delta": one, **at} for one in _pieces(item["arguments"])]
        for part in item.get("content", ()):
            is_text = part["type"] == "output_text"
            kind = "response.output_text.delta" if is_text else "response.refusal.delta"
            text = part["text"] if is_text else part["refusal"]
            events += [{"type": kind, "delta": one, **at} for one in _pieces(text)]
        events.append({"type": "response.output_item.done", "item": item, **at})
    return [*events, {"type": f"response.{body['status']}", "response": body}]


def stream(events: Sequence[Mapping[str, Any]], answer: Answer, *, end: str = "") -> Reply:
    """A stream of events, as far as the answer lets it come."""
    kept = list(events)
    if answer.error_after is not None:
        kept = [*kept[: answer.error_after], answer.error or {}]
    elif answer.cut_after is not None:
        kept = kept[: answer.cut_after]
    is_whole = answer.cut_after is None and answer.error_after is None
    return streamed("".join(map(_event, kept)) + (end if is_whole else ""), is_cut=not is_whole)


def streamed(text: str, *, is_cut: bool = False) -> Reply:
    """A stream as it stands; a cut one closes the connection before what it announced."""
    body = text.encode("utf-8", "surrogatepass")
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    if is_cut:
        headers |= {"content-length": str(len(body) + 100), "connection": "close"}
    return Reply(body=body, headers=headers)


def _event(event: Mapping[str, Any]) -> str:
    name = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _arguments(given: Mapping[str, Any] | str) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _chat_usage(answer: Answer) -> dict[str, Any] | None:
    if answer.usage is None:
        return None
    asked, cached, written, answered, thought = answer.usage
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _response_usage(answer: Answer) -> dict[str, Any] | None:
    if answer.usage is None:
        return None
    asked, cached, written, answered, thought = answer.usage
    return {
        "input_tokens": asked,
        "output_tokens": answered,
        "total_tokens": asked + answered,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens_details": {"reasoning_tokens": thought},
    }
