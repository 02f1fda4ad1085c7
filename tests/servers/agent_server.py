"""A team's own agent behind a URL on loopback, which can misbehave byte by byte."""

import gzip
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.servers.loopback import DROPPED, LoopbackServer, Reply, Request, _Handler


@dataclass(frozen=True, slots=True)
class Call:
    """One request; ``number`` counts from 1, ``body`` is its JSON, ``None`` without one."""

    number: int
    request: Request
    body: Any


@dataclass(frozen=True, slots=True)
class RawReply(Reply):
    """What goes over the wire byte by byte, head included; then the server hangs up.

    Args:
        pieces: Called for every answer; a piece is sent as soon as it is there.
        pause_s: Seconds between two pieces.
    """

    pieces: Callable[[], Iterable[bytes]] = field(default=list)
    pause_s: float = 0.0


Script = Callable[[Call], Reply]


class AgentServer(LoopbackServer):
    """Answers every request as its script says and remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.RequestHandlerClass = _AgentHandler
        self.calls: list[Call] = []
        self.sent_bytes = 0
        self._script = script

    def answer(self, request: Request) -> Reply:
        """The scripted reply; none for a request that was given up in the middle."""
        if len(request.body) < int(request.headers.get("content-length", "0")):
            return DROPPED
        with self.lock:
            body = json.loads(request.body) if request.body else None
            call = Call(len(self.calls) + 1, request, body)
            self.calls.append(call)
            return self._script(call)


class _AgentHandler(_Handler):
    server: AgentServer

    def _send(self, reply: Reply) -> None:
        if not isinstance(reply, RawReply):
            super()._send(reply)
            return
        self.close_connection = True
        with suppress(ConnectionError, TimeoutError):
            for piece in reply.pieces():
                self.wfile.write(piece)
                self.wfile.flush()
                self.server.sent_bytes += len(piece)
                if reply.pause_s and self.server.closing.wait(reply.pause_s):
                    return


@contextmanager
def agent_server(script: Script | Reply) -> Iterator[AgentServer]:
    """A running agent that answers by its script, or always the same."""
    always = script
    with AgentServer(always if callable(always) else lambda _: always).running() as server:
        yield server


def report(**parts: Any) -> Reply:
    """A report in the documented format."""
    return Reply.json(parts)


def page(status: int = 200, title: str = "Sign in") -> Reply:
    """An HTML page, such as a proxy puts in front of everything."""
    body = f"<!doctype html><html><head><title>{title}</title></head></html>".encode()
    return Reply(status, body, {"content-type": "text/html; charset=utf-8"})


def redirect(to: str, status: int = 307) -> Reply:
    """A redirect."""
    return Reply(status, b"", {"location": to})


def head(media_type: str = "application/json", **headers: object) -> bytes:
    """The beginning of a raw answer; header names are given with underscores."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    start = ["HTTP/1.1 200 OK", f"content-type: {media_type}", "connection: close", *lines]
    return "\r\n".join([*start, "", ""]).encode()


def sse(events: Iterable[Mapping[str, object]], pause_s: float = 0.0) -> RawReply:
    """Server-sent events, one after the other."""
    sent = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return RawReply(pieces=lambda: [head("text/event-stream"), *sent], pause_s=pause_s)


def jsonl(events: Iterable[Mapping[str, object]], pause_s: float = 0.0) -> RawReply:
    """JSON lines, one after the other."""
    sent = [f"{json.dumps(event)}\n".encode() for event in events]
    return RawReply(pieces=lambda: [head("application/x-ndjson"), *sent], pause_s=pause_s)


def dripping(body: bytes, pause_s: float) -> RawReply:
    """A body that comes byte by byte, each in time and the whole never."""
    return RawReply(
        pieces=lambda: [head(content_length=len(body)), *(bytes([one]) for one in body)],
        pause_s=pause_s,
    )


def endless(most_bytes: int) -> RawReply:
    """A body that goes on for as long as anybody reads, up to a bound for the test's sake."""

    def pieces() -> Iterator[bytes]:
        yield head() + b'{"answer": "'
        piece = b"x" * 65_536
        for _ in range(most_bytes // len(piece)):
            yield piece

    return RawReply(pieces=pieces)


def zipped(body: bytes) -> Reply:
    """A body packed with gzip, which nobody asked for."""
    packed = gzip.compress(body)
    return Reply(200, packed, {"content-type": "application/json", "content-encoding": "gzip"})


def bomb(byte_count: int) -> Reply:
    """A small body that unpacks to many bytes."""
    return zipped(b'{"answer": "' + b"x" * byte_count + b'"}')


def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether something became true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()
