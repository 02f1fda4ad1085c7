"""One trial's conversation with an agent behind a URL: a request a turn, the loop its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from watchkeeper.adapters._attachments import SentFile, Unsendable, sent_parts
from watchkeeper.adapters._http.exchange import Answer
from watchkeeper.adapters._http.mapping import found, name_of
from watchkeeper.adapters._http.polling import Polling
from watchkeeper.adapters._http.stream import EventReader
from watchkeeper.adapters._http.template import DEFAULT_TEMPLATE, filled
from watchkeeper.adapters._http.wire import Wire
from watchkeeper.adapters._reported import Unreadable
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.ports import Observation, Step, TrialBrief
from watchkeeper.domain.redaction import whole_text

IDEMPOTENCY_HEADER = "idempotency-key"
_REQUEST_IDS = ("x-request-id", "request-id")
_TEXTS_IN_STREAM = {"sse": "text/event-stream", "jsonl": "application/x-ndjson, application/jsonl"}


class HttpSession:
    """A conversation in which every user turn is one request.

    A turn whose job is under way goes on where it was when a poll has failed.
    """

    def __init__(self, wire: Wire, brief: TrialBrief) -> None:
        self._wire = wire
        self._brief = brief
        self._messages: tuple[dict[str, str], ...] = ()
        self._session_id: str | None = None
        self._turn = 1
        poll = wire.settings.poll
        self._polling = Polling(poll, wire) if poll is not None else None

    async def step(self, observation: Observation) -> Step:
        """The agent's whole turn; a step that raised has changed nothing.

        Raises:
            EndpointFault: There was no report of it.
            TypeError: The observation is no user turn.
        """
        if not isinstance(observation, UserTurn):
            raise TypeError("an agent that owns its loop is given user turns only")
        clock, started = self._wire.clock, self._wire.clock.monotonic()
        said = {"role": "user", "content": whole_text(observation.text)}
        step, session_id, headers = await self._asked(observation, said, started)
        request_id = next((headers[name][:200] for name in _REQUEST_IDS if name in headers), None)
        rounds = tuple(replace(one, request_id=request_id) for one in step.rounds)
        if len(rounds) == 1 and rounds[0].latency_ms is None:
            # Of one response the whole request is the time; of several it is none's.
            rounds = (replace(rounds[0], latency_ms=(clock.monotonic() - started) * 1000),)
        self._messages = (*self._messages, said, {"role": "assistant", "content": step.answer})
        self._session_id = session_id or self._session_id
        self._turn += 1
        return replace(step, rounds=rounds)

    async def close(self) -> None:
        """Nothing to free; the connections belong to the adapter."""

    async def _asked(
        self, turn: UserTurn, said: dict[str, str], started: float
    ) -> tuple[Step, str | None, Mapping[str, str]]:
        """The turn, the conversation's id where there is one, and the answer's headers."""
        wire, polling = self._wire, self._polling
        if polling is not None and polling.is_under_way:
            body, answer = await polling.ended(None)
        else:
            reader = _TurnReader(wire, started)
            answer = await self._sent(turn, said, reader)
            if answer.was_streamed:
                return *reader.turn(answer), answer.headers
            body = wire.body(answer)
            if polling is not None:
                body, answer = await polling.ended((body, answer))
        session_id = name_of(wire.found(wire.settings.response.session, body, answer))
        step = polling.step(body, answer) if polling is not None else wire.step(body, answer)
        return step, session_id, answer.headers

    async def _sent(self, turn: UserTurn, said: dict[str, str], reader: _TurnReader) -> Answer:
        settings, stream = self._wire.settings, self._wire.settings.stream
        template = settings.request if settings.request is not None else dict(DEFAULT_TEMPLATE)
        request = filled(template, await self._values(turn, said))
        content = whole_text(json.dumps(request, ensure_ascii=False, allow_nan=False)).encode()
        headers = {IDEMPOTENCY_HEADER: f"{self._brief.trial_id}-{self._brief.seed}-{self._turn}"}
        if stream != "none":
            headers["accept"] = f"{_TEXTS_IN_STREAM[stream]}, application/json;q=0.5"
        try:
            return await self._wire.exchange.ask(
                settings.method,
                settings.url,
                content,
                headers,
                reader.take if stream != "none" else None,
            )
        except Unreadable as error:
            raise self._wire.faults.unreadable(str(error), None, is_transient=True) from None

    async def _values(self, turn: UserTurn, said: dict[str, str]) -> dict[str, object]:
        """What the placeholders stand for in this turn."""
        brief = self._brief
        try:
            parts = await sent_parts(turn) if turn.attachments else ()
        except Unsendable as error:
            raise self._wire.faults.refused(error.kind, str(error)) from error
        attachments = [_attached(one) for one in parts if isinstance(one, SentFile)]
        return {
            "attachments": attachments,
            "case_id": brief.case.id,
            "input": said["content"],
            "messages": [*self._messages, said],
            "model": self._wire.settings.model,
            "seed": brief.seed,
            "session_id": self._session_id,
            "tools": _tools(brief),
            "trial_id": brief.trial_id,
        }


class _TurnReader:
    """Reads a streamed turn; ``result`` is its last event."""

    def __init__(self, wire: Wire, started: float) -> None:
        self._response = wire.settings.response
        self._wire = wire
        self._result: Mapping[str, object] = {}
        form = wire.settings.stream
        self._events = EventReader(
            "sse" if form == "sse" else "jsonl",
            self._shaped,
            lambda: (wire.clock.monotonic() - started) * 1000,
        )
        self.take = self._events.take

    def turn(self, answer: Answer) -> tuple[Step, str | None]:
        """The finished turn and the conversation's id.

        Raises:
            EndpointFault: The stream ended too early, or in something else.
        """
        try:
            self._events.finish()
            step = self._events.report.step()
        except Unreadable as error:
            raise self._wire.faults.unreadable(str(error), None, is_transient=True) from None
        model = self._from_header(self._response.served_model, answer)
        rounds = (replace(one, served_model=one.served_model or model) for one in step.rounds)
        session = self._wire.found(self._response.session, self._result, answer)
        return replace(step, rounds=tuple(rounds)), name_of(session)

    def _from_header(self, source: str | None, answer: Answer) -> str | None:
        return name_of(self._wire.found(source, {}, answer))

    def _shaped(self, event: object) -> object:
        if self._response.event is not None:
            event = found(self._response.event, event, {})
        if isinstance(event, Mapping) and event.get("type") == "result":
            self._result = event
            return {key: item for key, item in event.items() if key != self._response.session}
        return event


def _attached(one: SentFile) -> dict[str, object]:
    """An attachment as a request holds it; of a text the text, of anything else the bytes."""
    content = {"data": one.base64} if one.text is None else {"text": one.text}
    return {"name": one.name, "media_type": one.media_type, **content}


def _tools(brief: TrialBrief) -> list[dict[str, object]]:
    """The trial's tools, with the results that the case scripts for them."""
    scripted = {tool.name: tool.results for tool in brief.case.tools}
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "results": [
                {"text": result.text, "is_error": result.is_error}
                for result in scripted.get(tool.name, ())
            ],
        }
        for tool in brief.tools
    ]
