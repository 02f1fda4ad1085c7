"""What both APIs of OpenAI have in common: settings, tool calls, usage, errors in bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from watchkeeper.adapters._attachments import IMAGES, PDF, TEXTS
from watchkeeper.adapters._model.json import (
    Json,
    Unreadable,
    clean,
    count,
    invalid_arguments,
    mapping,
    read_arguments,
)
from watchkeeper.adapters._model.settings import ModelSettings
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.redaction import whole_text
from watchkeeper.domain.trajectory import ToolCall, Usage, call_status

ACCEPTED_MEDIA = (*IMAGES, PDF, *TEXTS)

_STATUS_OF_WORD = {
    "authentication_error": 401,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "requests": 429,
    "server_error": 500,
    "server_overloaded": 529,
    "timeout": 408,
    "tokens": 429,
    "vector_store_timeout": 408,
}
_WORDS_OF_REQUESTS = (
    "content_filter",
    "context_length",
    "data_residency",
    "image",
    "invalid",
    "policy",
    "unsupported",
)


class Settings(ModelSettings):
    """What an endpoint behind OpenAI's APIs, or a server that speaks them, is configured with.

    What is not given is not sent: the server's own default holds.
    """

    api: Literal["chat", "responses"] = Field(
        "chat", description="chat: Chat Completions; responses: the Responses API"
    )
    output_bound: Literal["max_completion_tokens", "max_tokens"] = Field(
        "max_completion_tokens",
        description="what Chat Completions calls max_tokens; older servers know the short name",
    )
    temperature: float | None = Field(None, ge=0, le=2, description="sampling temperature")
    top_p: float | None = Field(None, gt=0, le=1, description="share of the likeliest tokens")
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        Field(None, description="how long a reasoning model may think")
    )
    organization: str | None = Field(None, pattern=r"^[\w.-]{1,200}$", description="who is billed")
    project: str | None = Field(
        None, pattern=r"^[\w.-]{1,200}$", description="which project is billed"
    )

    @property
    def sampling(self) -> dict[str, Any]:
        """Temperature and the like, as both APIs take them."""
        given = {"temperature": self.temperature, "top_p": self.top_p}
        return {key: value for key, value in given.items() if value is not None}


def function_of(tool: ToolSpec) -> Json:
    """A tool as both APIs describe a function."""
    described: Json = {"description": whole_text(tool.description)} if tool.description else {}
    return {"name": tool.name, **described, "parameters": clean(tool.input_schema)}


def result_text(call: ToolCall) -> str:
    """A result as the model is shown it; there is no flag for errors, so that a word says it."""
    text = whole_text(call.result or "")
    if call.is_error or call.status == "unanswered":
        return f"Error: {text or 'the tool gave no result'}"
    return text


def read_call(name: object, call_id: object, arguments: object, silent: frozenset[str]) -> ToolCall:
    """A call that the model asks for.

    Arguments that are no JSON object are the model's mistake: the call is not carried out, and
    its result says so.

    Raises:
        Unreadable: The server promises something else.
    """
    if not (isinstance(name, str) and isinstance(call_id, str) and name and call_id):
        raise Unreadable("a tool call without a name or an id")
    if not isinstance(arguments, str):
        raise Unreadable(f"a call of {name} whose arguments are not text")
    is_silent = name in silent
    try:
        return ToolCall(name, read_arguments(arguments), call_id=call_id, is_silent=is_silent)
    except Unreadable as error:
        told = f"the arguments are not a JSON object ({error}); the tool was not called"
    return ToolCall(
        name,
        invalid_arguments(arguments),
        result=told,
        status=call_status(told, is_error=True),
        call_id=call_id,
        is_silent=is_silent,
        is_error=True,
    )


def refuse_twins(calls: Iterable[ToolCall]) -> None:
    """Checks that every call can be answered.

    Raises:
        Unreadable: Two have the same id.
    """
    seen: set[str] = set()
    for call in calls:
        if call.call_id in seen:
            raise Unreadable(f"two tool calls with the id {call.call_id}")
        seen.add(call.call_id)


def read_usage(usage: object, asked: str, answered: str) -> Usage:
    """Tokens by class, each counted once; what is missing or no count is unknown.

    Cached and written tokens are part of the prompt's; writes, which the price list gives one
    factor, count as the short-lived class.

    Args:
        usage: What the server says.
        asked: What the API calls the prompt (``prompt``, ``input``).
        answered: What it calls the answer (``completion``, ``output``).
    """
    said = mapping(usage)
    details = mapping(said.get(f"{asked}_tokens_details"))
    whole, read = count(said.get(f"{asked}_tokens")), count(details.get("cached_tokens"))
    written = count(details.get("cache_write_tokens"))
    thought = mapping(said.get(f"{answered}_tokens_details")).get("reasoning_tokens")
    return Usage(
        input_tokens=None if whole is None else max(0, whole - (read or 0) - (written or 0)),
        cache_write_5m_tokens=written,
        cache_read_tokens=read,
        output_tokens=count(said.get(f"{answered}_tokens")),
        thinking_tokens=count(thought),
    )


def status_of(error: Mapping[str, object]) -> int:
    """The HTTP status that an error in a body of status 200 stands for."""
    code = error.get("code")
    number = int(code) if isinstance(code, str) and code.isdecimal() else code
    if isinstance(number, int) and 400 <= number < 600:
        return number
    for word in (code, error.get("type")):
        if isinstance(word, str) and word in _STATUS_OF_WORD:
            return _STATUS_OF_WORD[word]
    if isinstance(code, str) and any(word in code for word in _WORDS_OF_REQUESTS):
        return 400
    return 500


def served_model(body: Json) -> str | None:
    """The model that answered, as far as the server names it."""
    model = body.get("model")
    return model if isinstance(model, str) and model else None


def identity(entry: Json) -> dict[str, Any]:
    """When a model was made; the epoch stands for a time that the server does not know."""
    created = count(entry.get("created"))
    try:
        made = datetime.fromtimestamp(created, UTC) if created else None
    except (ValueError, OverflowError, OSError):
        made = None
    return {"created_at": made}
