"""Messages as OpenAI's and Anthropic's interfaces hold them → rounds.

One assistant message is one response and so one round; several in a row with one id are parts of
the same. A result belongs to the newest call that still waits for one under its id: ids are
unique within a response, not within a conversation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from watchkeeper.domain.trajectory import Round, ToolCall, Usage, call_status
from watchkeeper.errors import UsageError
from watchkeeper.importers._source import Foreign, Place
from watchkeeper.parsing.validation import shown


class Function(Foreign):
    """What is called, and with what."""

    name: str = Field(min_length=1)
    arguments: str | dict[str, Any] = ""


class Call(Foreign):
    """One of an assistant's ``tool_calls``."""

    id: str | None = None
    function: Function


class Block(Foreign):
    """One part of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None


class Message(Foreign):
    """A message of either interface."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Block] | None = None
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    function_call: Function | None = None

    @property
    def blocks(self) -> Sequence[Block]:
        """The parts of the content; none where it is a text."""
        return self.content if isinstance(self.content, list) else ()

    @property
    def text(self) -> str:
        """What the message says."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.text or "" for block in self.blocks if block.type == "text")

    @property
    def refused(self) -> str | None:
        """The refusal, where there is one."""
        return self.refusal or next((one.refusal for one in self.blocks if one.refusal), None)


@dataclass(slots=True)
class Response:
    """A model response whose results are still coming in."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = ""
    served_model: str | None = None
    latency_ms: float | None = None
    agent: str | None = None
    message_id: str | None = None

    def answer(
        self, call_id: str | None, name: str | None, text: str | None, *, is_error: bool
    ) -> bool:
        """Gives a result to the call that waits for it; whether there is one."""
        for index, call in enumerate(self.calls):
            fits = call.call_id == call_id if call_id else name in (None, call.tool)
            if fits and call.result is None and call.status == "unanswered":
                self.calls[index] = ToolCall(
                    tool=call.tool,
                    arguments=call.arguments,
                    result=text,
                    status=call_status(text, is_error=is_error),
                    call_id=call.call_id,
                    is_silent=call.is_silent,
                    is_error=is_error,
                )
                return True
        return False

    def round(self) -> Round:
        """The response as a round."""
        return Round(
            text=self.text,
            tool_calls=tuple(self.calls),
            usage=self.usage,
            stop_reason=self.stop_reason,
            served_model=self.served_model,
            latency_ms=self.latency_ms,
            agent=self.agent,
        )


def rounds_of(
    messages: Sequence[tuple[Place, Message]], silent: Collection[str] = ()
) -> tuple[Round, ...]:
    """The rounds of a conversation.

    Args:
        messages: Each with its place in the file.
        silent: The tools that have nothing to say by design.

    Raises:
        UsageError: A result belongs to no call.
    """
    responses: list[Response] = []
    is_open = False  # whether nothing came after the newest response yet
    for place, message in messages:
        if message.role == "assistant":
            newest = responses[-1] if responses else None
            if not (is_open and newest and message.id and newest.message_id == message.id):
                newest = Response(message_id=message.id, served_model=message.model)
                responses.append(newest)
            _take(newest, message, place, silent)
            is_open = True
            continue
        is_open = False
        for call_id, name, text, is_error in _results(message):
            given = (call_id, name, text)
            if not any(one.answer(*given, is_error=is_error) for one in reversed(responses)):
                raise UsageError(
                    f"{place}: a result of {shown(call_id or name)} that no call before it "
                    "waits for; is the beginning of the conversation missing?"
                )
    return tuple(one.round() for one in responses)


def text_of(content: object) -> str | None:
    """The text of a tool result; parts that are no text are named in brackets."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return json.dumps(content, ensure_ascii=False)


def arguments_of(given: object) -> dict[str, object]:
    """The arguments of a call; what is no object stands under ``arguments``."""
    value = given
    if isinstance(given, str):
        try:
            value = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            value = given
    return value if isinstance(value, dict) else {"arguments": value}


def _take(response: Response, message: Message, place: Place, silent: Collection[str]) -> None:
    response.text += message.text or message.refused or ""
    response.stop_reason = message.stop_reason or ("refusal" if message.refused else "")
    if message.usage is not None:
        response.usage = _usage(message.usage)
    calls = [
        (one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()
    ]
    if message.function_call is not None:
        calls.append((None, message.function_call.name, message.function_call.arguments))
    for number, block in enumerate(message.blocks):
        if block.type == "tool_use":
            if not block.name:
                where = place.below(f".content[{number}]")
                raise UsageError(f"{where}: a call without the tool's name")
            calls.append((block.id, block.name, block.input or {}))
    response.calls.extend(
        ToolCall(name, arguments_of(given), call_id=call_id or "", is_silent=name in silent)
        for call_id, name, given in calls
    )


def _results(message: Message) -> Iterator[tuple[str | None, str | None, str, bool]]:
    if message.role in ("tool", "function"):
        content = message.content
        text = content if isinstance(content, str) else "".join(map(_part, message.blocks))
        yield message.tool_call_id, message.name, text, False
        return
    for block in message.blocks:
        if block.type == "tool_result":
            text = text_of(block.content) or ""
            yield block.tool_use_id, None, text, bool(block.is_error)


def _part(part: object) -> str:
    kind = part.type if isinstance(part, Block) else _key(part, "type")
    text = part.text if isinstance(part, Block) else _key(part, "text")
    if isinstance(part, str):
        return part
    return text if isinstance(text, str) else f"[{kind}]"


def _key(part: object, name: str) -> object:
    return part.get(name) if isinstance(part, dict) else None


def _usage(given: dict[str, Any]) -> Usage:
    """Tokens as either interface reports them; what is no count is unknown."""

    def count(*path: str) -> int | None:
        value: object = given
        for key in path:
            value = _key(value, key)
        return value if type(value) is int and value >= 0 else None

    if "prompt_tokens" in given:
        prompt, cached = count("prompt_tokens"), count("prompt_tokens_details", "cached_tokens")
        return Usage(
            input_tokens=None if prompt is None else max(prompt - (cached or 0), 0),
            cache_read_tokens=cached,
            output_tokens=count("completion_tokens"),
            thinking_tokens=count("completion_tokens_details", "reasoning_tokens"),
        )
    written, hour = (
        count("cache_creation_input_tokens"),
        count("cache_creation", "ephemeral_1h_input_tokens"),
    )
    return Usage(
        input_tokens=count("input_tokens"),
        cache_write_5m_tokens=None if written is None else max(written - (hour or 0), 0),
        cache_write_1h_tokens=hour if written is None else hour or 0,
        cache_read_tokens=count("cache_read_input_tokens"),
        output_tokens=count("output_tokens"),
        thinking_tokens=count("output_tokens_details", "thinking_tokens"),
    )
