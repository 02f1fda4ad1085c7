"""The model that every contestant asks: Messages API and Chat Completions, on loopback.

    python -m infra.bench.server --latency 1 --rounds 3

It reads just enough of a request to know which round it is, so that it is never the slowest part.
``GET /bench/counts`` says what it was asked so far.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

MODEL = "claude-sonnet-4-5"
ANSWER = "yes"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RESULT = re.compile(rb'"type": ?"tool_result"|"role": ?"tool"')
_USAGE = {
    "input_tokens": 120,
    "output_tokens": 40,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}
_CHAT_USAGE = {"prompt_tokens": 120, "completion_tokens": 40, "total_tokens": 160}


@dataclass(slots=True)
class Counts:
    """What was asked; times are of the machine's monotonic clock."""

    asked: int = 0
    answered: Counter[int] = field(default_factory=Counter)
    first_at: float | None = None
    last_at: float | None = None
    waiting: int = 0
    most_waiting: int = 0


@dataclass(slots=True)
class Faults:
    """Which share of the requests is refused, by a seed; half of the 429 say how long to wait."""

    rate_limited: float = 0.0
    overloaded: float = 0.0
    retry_after_s: int = 1
    _random: random.Random = field(default_factory=lambda: random.Random(20260301))
    _numbers: count[int] = field(default_factory=count)

    def draw(self) -> bytes | None:
        """A refusal, or nothing: the request is answered."""
        if not self.rate_limited and not self.overloaded:
            return None
        drawn = self._random.random()
        if drawn < self.overloaded:
            return _refusal(529, "overloaded_error", "Overloaded")
        if drawn < self.overloaded + self.rate_limited:
            wait = self.retry_after_s if next(self._numbers) % 2 else None
            return _refusal(429, "rate_limit_error", "Number of requests exceeded", wait)
        return None


class Model:
    """What all connections share: the answers, ready as bytes, and the counts."""

    def __init__(self, latency_s: float, rounds: int, faults: Faults) -> None:
        self.latency_s = latency_s
        self.counts = Counts()
        self.faults = faults
        self.rounds = rounds
        self._messages = [_ok(_message(number, rounds)) for number in range(rounds)]
        self._chats = [_ok(_chat(number, rounds)) for number in range(rounds)]

    def answer(self, head: bytes, body: bytes) -> tuple[bytes, float]:
        """The response to one request, and after how many seconds it is due."""
        verb, path, _ = head.split(b" ", 2)
        if path == b"/bench/counts":
            return _ok(self._told()), 0.0
        if verb != b"POST":
            return _ok(_card(path.decode("latin-1"))), 0.0
        counts, now = self.counts, time.monotonic()
        counts.asked += 1
        counts.first_at = counts.first_at or now
        counts.last_at = now
        refusal = self.faults.draw()
        if refusal is not None:
            counts.answered[int(refusal[9:12])] += 1
            return refusal, 0.0
        counts.answered[200] += 1
        number = min(len(_RESULT.findall(body)), self.rounds - 1)
        answers = self._chats if b"chat/completions" in path else self._messages
        return answers[number], self.latency_s

    def _told(self) -> dict[str, object]:
        told = self.counts
        return {
            "asked": told.asked,
            "answered": {str(status): number for status, number in told.answered.items()},
            "first_at": told.first_at,
            "last_at": told.last_at,
            "most_waiting": told.most_waiting,
        }


class _Connection(asyncio.Protocol):
    """One kept-alive connection; its requests are answered in turn."""

    def __init__(self, model: Model, loop: asyncio.AbstractEventLoop) -> None:
        self._model = model
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps where answers are written."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP has no other
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Forgets it."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answers every request that is complete."""
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end]
            found = _LENGTH.search(head)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            body, self._buffer = self._buffer[end + 4 : whole], self._buffer[whole:]
            response, delay_s = self._model.answer(head, body)
            counts = self._model.counts
            counts.waiting += 1
            counts.most_waiting = max(counts.most_waiting, counts.waiting)
            if delay_s:
                self._loop.call_later(delay_s, self._write, response)
            else:
                self._write(response)

    def _write(self, response: bytes) -> None:
        self._model.counts.waiting -= 1
        if self._transport is not None:
            self._transport.write(response)


def _message(number: int, rounds: int) -> dict[str, object]:
    is_last = number == rounds - 1
    call = {"type": "tool_use", "id": f"toolu_{number:02}", "name": "lookup", "input": {"id": 1}}
    said = {"type": "text", "text": ANSWER if is_last else "I look that up."}
    return {
        "id": f"msg_{number:02}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [said] if is_last else [said, call],
        "stop_reason": "end_turn" if is_last else "tool_use",
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _chat(number: int, rounds: int) -> dict[str, object]:
    is_last = number == rounds - 1
    call = {
        "id": f"call_{number:02}",
        "type": "function",
        "function": {"name": "lookup", "arguments": '{"id": 1}'},
    }
    message: dict[str, object] = {"role": "assistant", "content": ANSWER}
    if not is_last:
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop" if is_last else "tool_calls"}
    return {
        "id": f"chatcmpl-{number:02}",
        "object": "chat.completion",
        "created": 1772323200,
        "model": MODEL,
        "choices": [choice],
        "usage": _CHAT_USAGE,
    }


def _card(path: str) -> dict[str, object]:
    """What the list of models says of one; its lifecycle is all that contestants may ask for."""
    name = path.rpartition("/")[2]
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-02-01T00:00:00Z",
        "lifecycle": "active",
    }


def _ok(body: object) -> bytes:
    return _response(200, "OK", json.dumps(body, separators=(",", ":")).encode())


def _refusal(status: int, kind: str, text: str, retry_after_s: int | None = None) -> bytes:
    body = {"type": "error", "error": {"type": kind, "message": text}}
    more = b"" if retry_after_s is None else b"retry-after: %d\r\n" % retry_after_s
    return _response(status, "Refused", json.dumps(body).encode(), more)


def _response(status: int, reason: str, body: bytes, more: bytes = b"") -> bytes:
    head = (
        f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\n"
        f"request-id: req_bench\r\ncontent-length: {len(body)}\r\n"
    )
    return head.encode() + more + b"\r\n" + body


async def _serve(model: Model) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(model, loop), "127.0.0.1", 0, backlog=512)
    sys.stdout.write(f"ready http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # Whoever started it holds the other end; it ends with them, however they end.
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    """Serves until standard input closes."""
    parser = argparse.ArgumentParser(prog="python -m infra.bench.server")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer")
    parser.add_argument("--rounds", type=int, default=1, help="the last of them is the answer")
    parser.add_argument("--rate-limited", type=float, default=0.0, help="share refused with 429")
    parser.add_argument("--overloaded", type=float, default=0.0, help="share refused with 529")
    given = parser.parse_args()
    gc.freeze()
    faults = Faults(given.rate_limited, given.overloaded)
    asyncio.run(_serve(Model(given.latency, given.rounds, faults)))


if __name__ == "__main__":
    main()
