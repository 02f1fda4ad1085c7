"""A scripted Messages and Models API on loopback that counts every call it is paid for.

In a test's own process: `with anthropic_server([message("Paris")]) as api`. Outside it, so that
a client can be killed and its calls still be counted:

    python -m tests.servers.anthropic_server --port 0 --script script.json --log calls.jsonl

prints `ready http://127.0.0.1:PORT`. The script file holds `{"rules": [...], "replies": [...],
"then": {...}, "models": {...}}`, each of them optional. A reply is `{"reply": NAME, ...}` with
NAME one of `anthropic_replies.REPLIES` and the rest its arguments, also `delay_s`; a rule is a
reply with `when`, a text that the last message must hold. `read_log` reads the log.

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
from tests.servers.anthropic_events import streamed
from tests.servers.anthropic_replies import (
    DEFAULT_MODEL,
    ECHO,
    failed,
    model_card,
    model_missing,
    reply_from,
    unauthorized,
)
from tests.servers.loopback import LoopbackServer, Reply, Request

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
    """A call and the status of its answer, also a lost one; None when there was none at all."""

    call: Call
    status: int | None


Script = Callable[[Call], Reply] | Sequence[Reply]


class AnthropicServer(LoopbackServer):
    """The server in this process; script, `then` and `models` may be exchanged while it runs.

    Attributes:
        script: Replies in order, or a function of the call, which runs on many threads at once.
        then: The reply once those in order are used up; without it a 400 says so, which
            clients do not retry.
        rules: Text → reply, asked before the script: the first whose text the last message
            holds answers.
        models: Name asked for → card; a name which is not there is a 404.
        calls: Every request in order of arrival, paid or not.
        outcomes: The calls that were answered or hung up on, in that order.
        most_at_once: The most requests that were open at the same time.
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
        self.most_at_once = 0
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
            self.most_at_once = max(self.most_at_once, len(self._open))
            self._write("received", call, None)
        reply = self._refused(request, call) or self._routed(call)
        headers = {**reply.headers, "request-id": f"req_{call.number:06d}"}
        if reply.status == 200 and call.path == "/v1/messages":
            headers.update(_RATE_LIMITS)
        body = _echoed(reply, call)
        if call.body.get("stream") and body.startswith(b"{") and b'"type": "message"' in body[:200]:
            streaming = streamed(json.loads(body))
            headers |= streaming.headers
            body = streaming.body
        return Reply(
            status=reply.status,
            body=body,
            headers=headers,
            delay_s=reply.delay_s,
            drop=reply.drop,
        )

    def answered(self, request: Request, reply: Reply) -> None:
        """Note with what a call ended."""
        with self.lock:
            call = self._open.pop(id(request))
            status = None if reply.drop and not reply.body else reply.status
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
        with self.lock:
            self._taken += 1
            turn = self._taken
        if turn <= len(self.script):
            return self.script[turn - 1]
        if self.then is not None:
            return self.then
        text = f"the test's script has {len(self.script)} replies; this is call {turn}"
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
