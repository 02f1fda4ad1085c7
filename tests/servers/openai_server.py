"""A scripted server that speaks Chat Completions, the Responses API and the list of models.

`with openai_server([Answer("Paris")]) as api`: the same script answers in both APIs, whole or
streamed, as each request asks.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from tests.servers.loopback import LoopbackServer, Reply, Request
from tests.servers.openai_replies import (
    DEFAULT_MODEL,
    Answer,
    chat_body,
    chat_events,
    failed,
    model_card,
    model_missing,
    response_body,
    response_events,
    stream,
    unauthorized,
)

RATE_LIMITS = {
    "x-ratelimit-limit-requests": "1000",
    "x-ratelimit-remaining-requests": "999",
    "x-ratelimit-reset-requests": "60ms",
    "x-ratelimit-limit-tokens": "100000",
    "x-ratelimit-remaining-tokens": "25000",
    "x-ratelimit-reset-tokens": "1m30.5s",
}
_CHAT, _RESPONSES = "/v1/chat/completions", "/v1/responses"


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived; `number` counts from 1."""

    number: int
    verb: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def said(self) -> list[dict[str, Any]]:
        """The conversation so far."""
        return list(self.body.get("messages", self.body.get("input", ())))


Script = Callable[[Call], Answer | Reply] | Sequence[Answer | Reply]


class OpenAIServer(LoopbackServer):
    """The server in this process.

    Attributes:
        script: Answers in order, or a function of the call, which runs on many threads at once.
        then: The answer once those in order are used up; without it a 400 says so.
        models: Name asked for → card; a name which is not there is a 404.
        calls: Every request in order of arrival.
        connection_count: How many connections were made.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        then: Answer | Reply | None = None,
        models: Mapping[str, Mapping[str, Any]] | None = None,
        api_key: str | None = None,
    ) -> None:
        super().__init__()
        self.script = script
        self.then = then
        self.models = dict(models or {DEFAULT_MODEL: model_card(DEFAULT_MODEL)})
        self.calls: list[Call] = []
        self._api_key = api_key
        self.connection_count = 0
        self._taken = 0

    @property
    def base_url(self) -> str:
        """What a client is configured with."""
        return f"{self.url}/v1"

    @property
    def answer_calls(self) -> list[Call]:
        """The calls that asked for an answer of the model."""
        with self.lock:
            return [call for call in self.calls if call.path in {_CHAT, _RESPONSES}]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count the connection."""
        self.connection_count += 1
        super().process_request(request, client_address)

    def answer(self, request: Request) -> Reply:
        """The scripted reply, in the shape and with the headers of the real API."""
        body = json.loads(request.body) if request.body else {}
        with self.lock:
            call = Call(len(self.calls) + 1, request.verb, request.path, request.headers, body)
            self.calls.append(call)
        reply = self._refused(call) or self._routed(call)
        headers = {**reply.headers, "x-request-id": f"req_{call.number:06d}"}
        if reply.status == 200:
            headers.update(RATE_LIMITS)
        return replace(reply, headers=headers)

    def _refused(self, call: Call) -> Reply | None:
        key = call.headers.get("authorization", "").removeprefix("Bearer ")
        if not key or (self._api_key is not None and key != self._api_key):
            return unauthorized()
        needed = {_CHAT: ("model", "messages"), _RESPONSES: ("model", "input")}
        for name in needed.get(call.path, ()):
            if not call.body.get(name):
                return failed(400, f"Missing required parameter: '{name}'.")
        return None

    def _routed(self, call: Call) -> Reply:
        if call.verb == "POST" and call.path in {_CHAT, _RESPONSES}:
            answer = self._scripted(call)
            return answer if isinstance(answer, Reply) else _shaped(answer, call)
        if call.verb == "GET" and call.path == "/v1/models":
            return Reply.json({"object": "list", "data": list(self.models.values())})
        if call.verb == "GET" and call.path.startswith("/v1/models/"):
            name = call.path.removeprefix("/v1/models/")
            return Reply.json(self.models[name]) if name in self.models else model_missing(name)
        return failed(404, f"Invalid URL ({call.verb} {call.path})")

    def _scripted(self, call: Call) -> Answer | Reply:
        if callable(self.script):
            return self.script(call)
        with self.lock:
            self._taken += 1
            turn = self._taken
        if turn <= len(self.script):
            return self.script[turn - 1]
        text = f"the test's script has {len(self.script)} replies; this is call {turn}"
        return self.then if self.then is not None else failed(400, text)


def openai_server(
    script: Script = (),
    *,
    then: Answer | Reply | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    api_key: str | None = None,
) -> AbstractContextManager[OpenAIServer]:
    """The server running in this process until the block ends; see `OpenAIServer`."""
    return OpenAIServer(script, then=then, models=models, api_key=api_key).running()


def _shaped(answer: Answer, call: Call) -> Reply:
    """The answer in the API that was asked, as a stream where that was asked for."""
    model, turn = str(call.body["model"]), len(call.said)  # the same again where it is retried
    is_stream = bool(call.body.get("stream"))
    if call.path == _RESPONSES:
        body = response_body(answer, turn, model)
        reply = stream(response_events(body), answer) if is_stream else Reply.json(body)
    else:
        body = chat_body(answer, turn, model)
        has_usage = bool((call.body.get("stream_options") or {}).get("include_usage"))
        events = chat_events(body, has_usage=has_usage)
        end = "data: [DONE]\n\n"
        reply = stream(events, answer, end=end) if is_stream else Reply.json(body)
    return reply.after(answer.delay_s)
