"""The parts of an Inspect log that are read: messages, responses, events, tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from watchkeeper.domain.trajectory import Usage
from watchkeeper.importers._chat import text_of
from watchkeeper.importers._source import Foreign


class ChatCall(Foreign):
    """A tool call of an assistant message."""

    id: str
    function: str = Field(min_length=1)
    arguments: Any = None


class ToolFault(Foreign):
    """Why a tool call failed, as the model is told."""

    type: str = ""
    message: str = ""


class ChatMessage(Foreign):
    """A message as Inspect keeps it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Any] = ""
    source: str | None = None
    model: str | None = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None
    function: str | None = None
    error: ToolFault | None = None


class ModelTokens(Foreign):
    """Tokens of one response, as Inspect names them."""

    input_tokens: int | None = Field(None, ge=0)
    output_tokens: int | None = Field(None, ge=0)
    total_tokens: int | None = Field(None, ge=0)
    input_tokens_cache_write: int | None = Field(None, ge=0)
    input_tokens_cache_read: int | None = Field(None, ge=0)
    reasoning_tokens: int | None = Field(None, ge=0)
    total_cost: float | None = Field(None, ge=0)


class Choice(Foreign):
    """One of the answers of a response; only the first is read."""

    message: ChatMessage
    stop_reason: str = ""


class Output(Foreign):
    """A response."""

    model: str | None = None
    choices: list[Choice] = Field([])
    usage: ModelTokens | None = None

    @property
    def text(self) -> str:
        """What it says."""
        return (text_of(self.choices[0].message.content) or "") if self.choices else ""


class BatchConfig(Foreign):
    """How a response was asked for."""

    batch: Any = None


class ModelEvent(Foreign):
    """A request to a model and the response; a failed one has an error and no choice."""

    model: str
    role: str | None = None
    output: Output = Output()
    config: BatchConfig = BatchConfig()
    retries: int | None = Field(None, ge=0)
    error: Any = None
    working_time: float | None = Field(None, ge=0)
    timestamp: datetime | None = Field(None, strict=False)


class ToolEvent(Foreign):
    """A tool call that was carried out; older logs keep what happened within it in ``events``."""

    id: str
    function: str
    result: Any = None
    error: ToolFault | None = None
    working_time: float | None = Field(None, ge=0)
    events: list[dict[str, Any]] | None = None


class SpanEvent(Foreign):
    """The beginning of a part of the sample: a solver, an agent, a tool, a scorer."""

    id: str
    parent_id: str | None = None
    type: str | None = None
    name: str = ""


class StepEvent(Foreign):
    """The beginning or the end of a part, in logs before there were spans."""

    action: Literal["begin", "end"]
    type: str | None = None
    name: str = ""


def usage_of(tokens: ModelTokens) -> Usage:
    """Each token once, whatever the log's version took ``input_tokens`` to be.

    Some versions count cached tokens of some providers into the input, others beside it; the
    total tells which. Where it tells neither, the input is unknown.
    """
    read, written = tokens.input_tokens_cache_read, tokens.input_tokens_cache_write
    cached = (read or 0) + (written or 0)
    given, output, total = tokens.input_tokens, tokens.output_tokens, tokens.total_tokens
    if cached and given is not None and output is not None:
        if total == given + output and given >= cached:
            given -= cached
        elif total != given + output + cached:
            given = None
    return Usage(
        input_tokens=given,
        cache_write_5m_tokens=written,
        cache_write_1h_tokens=None if written is None else 0,
        cache_read_tokens=read,
        output_tokens=output,
        thinking_tokens=tokens.reasoning_tokens,
    )
