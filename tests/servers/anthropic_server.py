"""A scripted Messages and Models API on loopback that counts every call it is paid for.

In a test's own process: `with anthropic_server([message("Paris")]) as api`. Outside it, so that
a client can be killed and its calls still be counted:

    python -m tests.servers.anthropic_server --port 0 --script script.json --log calls.jsonl

prints `ready http://127.0.0.1:PORT`. The script file holds `{"rules": [...], "replies": [...],
"then": {...}, "models": {...}}`, each of them optional; a reply is `{"reply": NAME, ...}` with
NAME one of `REPLIES` and the rest its arguments, also `delay_s`; a rule is a reply with `when`,
a text that the last message must hold. `read_log` reads the log.

A call counts as paid once its answer is due, even if the client has gone by then: a provider
would charge for it too.
"""

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import process
from tests.servers.loopback import DROPPED, LoopbackServer, Reply, Request

DEFAULT_MODEL = "claude-sonnet-5-5"
ECHO = "requested"
"""A model name in a reply that stands for the one which the request asks for."""

_RATE_LIMITS = {
    "anthropic-ratelimit-requests-limit": "1000",
    "anthropic-ratelimit-requests-remaining": "999",
    "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:00Z",
    "anthropic-ratelimit-input-tokens-limit": "450000",
    "anthropic-ratelimit-input-tokens-remaining": "449000",
    "anthropic-ratelimit-output-tokens-limit": "90000",
    "anthropic-ratelimit-output-tokens-remaining": "89000",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived; `number` counts from 1.

    `fingerprint` is the same for two requests with the same path and the same JSON body, so a
    trial made twice shows as one fingerprint paid more often than there are trials.
    """

    number: int
    verb: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    fingerprint: str

    @property
    def last_text(self) -> str:
        """The last message's content; blocks other than text as JSON."""
        messages = self.body.get("messages") or [{}]
        content = messages[-1].get("content", "")
        if isinstance(content, str):
            return content
        return "\n".join(block.get("text") or json.dumps(block) for block in content)

    @property
    def retry_number(self) -> int:
        """0 for a first attempt; the client's own count of retries after that."""
        return int(self.headers.get("x-stainless-retry-count", "0"))


@dataclass(frozen=True, slots=True)
class Answered:
    """A call and the status it was answered with; None when the connection was dropped."""

    call: Call
    status: int | None


Script = Callable[[Call], Reply] | Sequence[Reply]


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
    """The connection closed without a byte of an answer."""
    return DROPPED


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


class AnthropicServer(LoopbackServer):
    """The server in this process; script, `then` and `models` may be exchanged while it runs.

    Attributes:
        script: A function of the call, or replies in order.
        then: The reply once those in order are used up; without it a 400 says so, which
            clients do not retry.
        rules: Text → reply, asked before the script: the first whose text the last message
            holds answers.
        models: Name asked for → card; a name which is not there is a 404.
        calls: Every request in order of arrival, paid or not.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        then: Reply | None = None,
        rules: Mapping[str, Reply] | None = None,
        models: Mapping[str, Mapping[str, Any]] | None = None,
        api_key: str | None = None,
        log: Path | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(port)
        self.script = script
        self.then = then
        self.rules = dict(rules or {})
        self.models = dict(models or {DEFAULT_MODEL: model_card(DEFAULT_MODEL)})
        self.calls: list[Call] = []
        self.outcomes: list[Answered] = []
        self._api_key = api_key
        self._log = log
        self._taken = 0
        self._open: dict[int, Call] = {}

    @property
    def message_calls(self) -> list[Call]:
        """The calls that asked for a message."""
        with self.lock:
            return [call for call in self.calls if call.path == "/v1/messages"]

    def paid(self) -> Counter[str]:
        """How often each request was answered with a message, by fingerprint."""
        with self.lock:
            return _paid(self.outcomes)

    def answer(self, request: Request) -> Reply:
        """The scripted reply, in the shape and with the headers of the real API."""
        with self.lock:
            call = _call(len(self.calls) + 1, request)
            self.calls.append(call)
            self._open[id(request)] = call
            self._write("received", call, None)
            reply = self._refused(request, call) or self._routed(call)
        headers = {**reply.headers, "request-id": f"req_{call.number:06d}"}
        if reply.status == 200 and call.path == "/v1/messages":
            headers.update(_RATE_LIMITS)
        return Reply(
            status=reply.status,
            body=_echoed(reply, call),
            headers=headers,
            delay_s=reply.delay_s,
            drop=reply.drop,
        )

    def answered(self, request: Request, reply: Reply) -> None:
        """Note with what a call ended."""
        with self.lock:
            call = self._open.pop(id(request))
            status = None if reply.drop else reply.status
            self.outcomes.append(Answered(call, status))
            self._write("answered", call, status)

    def _refused(self, request: Request, call: Call) -> Reply | None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        key = request.headers.get("x-api-key") or bearer
        if not key or (self._api_key is not None and key != self._api_key):
            return unauthorized()
        if "anthropic-version" not in request.headers:
            return failed(400, "invalid_request_error", "anthropic-version: header is required")
        if call.path == "/v1/messages":
            for name in ("model", "max_tokens", "messages"):
                if name not in call.body:
                    return failed(400, "invalid_request_error", f"{name}: Field required")
            if call.body.get("stream"):
                return failed(400, "invalid_request_error", "stream: not scripted here")
        return None

    def _routed(self, call: Call) -> Reply:
        if call.verb == "POST" and call.path == "/v1/messages":
            return self._scripted(call)
        if call.verb == "GET" and call.path == "/v1/models":
            cards = list(self.models.values())
            page = {"data": cards, "has_more": False, "first_id": None, "last_id": None}
            return Reply.json(page)
        if call.verb == "GET" and call.path.startswith("/v1/models/"):
            name = call.path.removeprefix("/v1/models/")
            return Reply.json(self.models[name]) if name in self.models else model_missing(name)
        return failed(404, "not_found_error", f"{call.verb} {call.path}")

    def _scripted(self, call: Call) -> Reply:
        for text, reply in self.rules.items():
            if text in call.last_text:
                return reply
        if callable(self.script):
            return self.script(call)
        self._taken += 1
        if self._taken <= len(self.script):
            return self.script[self._taken - 1]
        if self.then is not None:
            return self.then
        text = f"the test's script has {len(self.script)} replies; this is call {self._taken}"
        return failed(400, "invalid_request_error", text)

    def _write(self, event: str, call: Call, status: int | None) -> None:
        if self._log is None:
            return
        line = {
            "event": event,
            "number": call.number,
            "verb": call.verb,
            "path": call.path,
            "fingerprint": call.fingerprint,
            "retry_number": call.retry_number,
            "status": status,
            "body": call.body,
        }
        with self._log.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def anthropic_server(
    script: Script = (),
    *,
    then: Reply | None = None,
    rules: Mapping[str, Reply] | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    api_key: str | None = None,
) -> AbstractContextManager[AnthropicServer]:
    """The server running in this process until the block ends; see `AnthropicServer`."""
    server = AnthropicServer(script, then=then, rules=rules, models=models, api_key=api_key)
    return server.running()


@contextmanager
def anthropic_program(script: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Path]]:
    """URL and call log of the server in a process of its own; files are put into `folder`."""
    script_file, log = folder / "anthropic-script.json", folder / "anthropic-calls.jsonl"
    script_file.write_text(json.dumps(script), encoding="utf-8")
    log.touch()
    arguments = ("--port", "0", "--script", str(script_file), "--log", str(log))
    with process.module("tests.servers.anthropic_server", *arguments) as program:
        yield program.url, log


@dataclass(frozen=True, slots=True)
class CallLog:
    """What a server in another process was asked; `received` in order of arrival."""

    received: Sequence[Mapping[str, Any]]
    paid: Counter[str]

    @property
    def message_count(self) -> int:
        """How many messages were asked for, retries included."""
        return sum(1 for line in self.received if line["path"] == "/v1/messages")


def read_log(log: Path) -> CallLog:
    """The calls in the log so far; a line still being written is left out."""
    text = log.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines()]
    paid = Counter(
        line["fingerprint"]
        for line in lines
        if line["event"] == "answered" and line["status"] == 200 and line["path"] == "/v1/messages"
    )
    return CallLog(received=[x for x in lines if x["event"] == "received"], paid=paid)


def reply_from(document: Mapping[str, Any]) -> Reply:
    """The reply that one entry of a script file names.

    Raises:
        KeyError: the file names a reply that does not exist.
    """
    arguments = {key: value for key, value in document.items() if key not in _NOT_ARGUMENTS}
    reply = REPLIES[document["reply"]](**arguments)
    return reply.after(float(document.get("delay_s", 0.0)))


def _call(number: int, request: Request) -> Call:
    try:
        body = json.loads(request.body) if request.body else {}
    except json.JSONDecodeError:
        body = {}
    canonical = json.dumps([request.path, body], sort_keys=True).encode()
    return Call(
        number=number,
        verb=request.verb,
        path=request.path,
        headers=request.headers,
        body=body if isinstance(body, dict) else {},
        fingerprint=hashlib.sha256(canonical).hexdigest()[:16],
    )


def _echoed(reply: Reply, call: Call) -> bytes:
    """The body with the ids and the model name that depend on the request."""
    if not reply.headers.get("content-type", "").startswith("application/json"):
        return reply.body
    body = json.loads(reply.body)
    if not isinstance(body, dict):
        return reply.body
    asked = call.body.get("model", DEFAULT_MODEL)
    if body.get("model") == ECHO:
        body["model"] = asked
    if body.get("id") == ECHO:
        body["id"] = f"msg_{call.number:06d}"
    if body.get("request_id") == ECHO:
        body["request_id"] = f"req_{call.number:06d}"
    for entry in (body.get("usage") or {}).get("iterations") or []:
        if entry.get("model") == ECHO:
            entry["model"] = asked
    return json.dumps(body).encode()


def _paid(outcomes: Sequence[Answered]) -> Counter[str]:
    return Counter(
        outcome.call.fingerprint
        for outcome in outcomes
        if outcome.status == 200 and outcome.call.path == "/v1/messages"
    )


def main(arguments: Sequence[str]) -> None:
    """Serve the script until the process is told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers.anthropic_server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path, default=None)
    parser.add_argument("--until-stdin-closes", action="store_true")
    options = parser.parse_args(arguments)
    document = json.loads(options.script.read_text(encoding="utf-8"))
    server = AnthropicServer(
        [reply_from(entry) for entry in document.get("replies", [])],
        then=reply_from(document["then"]) if "then" in document else None,
        rules={entry["when"]: reply_from(entry) for entry in document.get("rules", [])},
        models=document.get("models"),
        log=options.log,
        port=options.port,
    )
    with server.running():
        process.announce(server.url)
        process.wait_for_end(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
