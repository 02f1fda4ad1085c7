"""Events of an Inspect sample → rounds: who answered, with which calls, and what came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from watchkeeper.domain.trajectory import Round, ToolCall, Usage
from watchkeeper.importers._chat import Response, arguments_of, text_of
from watchkeeper.importers._inspect_parts import (
    ChatMessage,
    ModelEvent,
    SpanEvent,
    StepEvent,
    ToolEvent,
    ToolFault,
    usage_of,
)
from watchkeeper.importers._source import Place, items, parsed

_REFERENCES = ("attachment://", "tc://")
_SCORING = frozenset({"scorer", "scorers"})
_JUDGES = frozenset({"grader", "judge"})


@dataclass(slots=True)
class Events:
    """The rounds of a sample as its events tell them."""

    attachments: Mapping[str, str]
    started_at: datetime | None = None
    cost_usd: float | None = None
    is_batch: bool = False
    retry_count: int = 0
    _responses: list[Response] = field(default_factory=list)
    _spans: dict[str, SpanEvent] = field(default_factory=dict)
    _steps: list[StepEvent] = field(default_factory=list)
    _costs: list[float | None] = field(default_factory=list)

    def take(self, events: object, place: Place, agent: str | None = None) -> None:
        """Reads events in their order; ``agent`` is the sub-agent that they are of."""
        for where, event in items(events, place):
            kind = event.get("event") if isinstance(event, dict) else None
            if kind == "span_begin":
                span = parsed(SpanEvent, event, where)
                self._spans[span.id] = span
            elif kind == "step":
                self._step(parsed(StepEvent, event, where))
            elif kind == "model":
                self._model(parsed(ModelEvent, event, where), event.get("span_id"), agent)
            elif kind == "tool":
                tool = parsed(ToolEvent, event, where)
                self.take(tool.events or [], where.below(".events"), tool.function)
                self._tool(tool)
            elif kind == "subtask":
                inner = event.get("events") or []
                self.take(inner, where.below(".events"), agent)

    def rounds(self, messages: Sequence[ChatMessage]) -> tuple[Round, ...]:
        """The rounds; what no event tells is taken from the sample's messages.

        Where there is no event of a response, the assistant's messages are the responses: those
        that the model generated, where the log tells them from those that it was given.
        """
        has_events = bool(self._responses)
        tells_source = any(one.source == "generate" for one in messages)
        for message in messages:
            if message.role == "tool":
                self._result_of(message)
            elif message.role == "assistant" and not has_events:
                self._message(message, is_given=tells_source and message.source != "generate")
        total = [cost for cost in self._costs if cost is not None]
        self.cost_usd = sum(total) if total and len(total) == len(self._costs) else None
        return tuple(one.round() for one in self._responses)

    def _message(self, message: ChatMessage, *, is_given: bool) -> None:
        if is_given:
            return
        text = resolved(text_of(message.content) or "", self.attachments)
        calls = _calls(message)
        self._responses.append(Response(text=text, calls=calls, served_model=message.model))
        self._costs.append(None)

    def _step(self, step: StepEvent) -> None:
        if step.action == "begin":
            self._steps.append(step)
        elif self._steps:
            self._steps.pop()

    def _model(self, event: ModelEvent, span_id: object, agent: str | None) -> None:
        parents = self._parents(span_id)
        kinds = {span.type for span in parents} | {step.type for step in self._steps}
        if kinds & _SCORING or event.role in _JUDGES:
            return
        self.started_at = self.started_at or event.timestamp
        if not event.output.choices:
            self.retry_count += 1
            return
        self.retry_count += event.retries or 0
        self.is_batch = self.is_batch or bool(event.config.batch)
        choice = event.output.choices[0]
        tokens = event.output.usage
        self._costs.append(tokens.total_cost if tokens else None)
        self._responses.append(
            Response(
                text=resolved(event.output.text, self.attachments),
                calls=_calls(choice.message),
                usage=usage_of(tokens) if tokens else Usage(),
                stop_reason=choice.stop_reason,
                served_model=event.output.model or None,
                latency_ms=None if event.working_time is None else event.working_time * 1000,
                agent=agent or _sub_agent(parents),
            )
        )

    def _tool(self, event: ToolEvent) -> None:
        text = event.error.message if event.error else text_of(event.result)
        self._give(event.id, event.function, text, event.error)
        if event.working_time is not None:
            self._time(event.id, event.working_time * 1000)

    def _result_of(self, message: ChatMessage) -> None:
        text = message.error.message if message.error else text_of(message.content)
        self._give(message.tool_call_id, message.function, text, message.error)

    def _give(
        self, call_id: str | None, tool: str | None, text: str | None, fault: ToolFault | None
    ) -> None:
        """A result for the newest call that waits for it; a call of a solver's own has none."""
        shown = resolved(text or "", self.attachments)
        for one in reversed(self._responses):
            if one.answer(call_id, tool, shown, is_error=fault is not None):
                if fault is not None and fault.type == "file_not_found":
                    _mark(one.calls, call_id)
                return

    def _time(self, call_id: str, latency_ms: float) -> None:
        for one in reversed(self._responses):
            for index, call in enumerate(one.calls):
                if call.call_id == call_id:
                    one.calls[index] = replace(call, latency_ms=latency_ms)
                    return

    def _parents(self, span_id: object) -> list[SpanEvent]:
        """The spans round an event, the innermost first."""
        found: list[SpanEvent] = []
        while isinstance(span_id, str) and span_id in self._spans and len(found) < 1000:
            found.append(self._spans[span_id])
            span_id = found[-1].parent_id
        return found


def resolved(text: str, attachments: Mapping[str, str]) -> str:
    """A text, or the attachment that it refers to."""
    for head in _REFERENCES:
        if text.startswith(head):
            return attachments.get(text.removeprefix(head), text)
    return text


def _calls(message: ChatMessage) -> list[ToolCall]:
    return [
        ToolCall(call.function, arguments_of(call.arguments or {}), call_id=call.id)
        for call in message.tool_calls or ()
    ]


def _mark(calls: list[ToolCall], call_id: str | None) -> None:
    for index, call in enumerate(calls):
        if call.call_id == call_id:
            calls[index] = replace(call, status="missing_path")


def _sub_agent(parents: Sequence[SpanEvent]) -> str | None:
    """The agent round an event where that is one within another agent or a tool."""
    kinds = [span.type for span in parents]
    if "agent" not in kinds:
        return None
    inner = kinds.index("agent")
    is_within = any(kind in ("agent", "tool", "handoff") for kind in kinds[inner + 1 :])
    return parents[inner].name or None if is_within else None
