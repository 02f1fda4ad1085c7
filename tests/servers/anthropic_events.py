"""A message of the Messages API as the events of a stream."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.servers.loopback import Reply

PIECE = 3
"""Characters that a streamed piece of text has."""


def streamed(message: Mapping[str, Any], *, cut_after: int | None = None) -> Reply:
    """The stream of a message; `cut_after` events the connection is closed."""
    return as_stream(events(message), cut_after=cut_after)


def as_stream(given: list[dict[str, Any]], *, cut_after: int | None = None) -> Reply:
    """A stream of events as they stand."""
    kept = given[:cut_after]
    text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in kept)
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    if cut_after is not None:
        headers |= {"content-length": str(len(text) + 100), "connection": "close"}
    return Reply(body=text.encode(), headers=headers)


def events(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a stream of the message consists of."""
    usage = message.get("usage")
    begun = {**message, "content": [], "stop_reason": None, "stop_details": None}
    if isinstance(usage, Mapping):
        begun["usage"] = {**usage, "output_tokens": 1}
    ended = {key: message.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    blocks = [
        one for at, block in enumerate(message["content"]) for one in _block_events(at, block)
    ]
    return [
        {"type": "message_start", "message": begun},
        {"type": "ping"},
        *blocks,
        {"type": "message_delta", "delta": ended, **({"usage": usage} if usage else {})},
        {"type": "message_stop"},
    ]


def _block_events(at: int, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun, deltas = dict(block), []
    if block["type"] == "text":
        begun["text"] = ""
        deltas = [{"type": "text_delta", "text": one} for one in _pieces(block["text"])]
    elif block["type"] in {"tool_use", "server_tool_use"}:
        begun["input"] = {}
        text = json.dumps(block["input"]) if block["input"] else ""
        deltas = [{"type": "input_json_delta", "partial_json": one} for one in _pieces(text)]
    elif block["type"] == "thinking":
        begun |= {"thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": one} for one in _pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    yield {"type": "content_block_start", "index": at, "content_block": begun}
    yield from ({"type": "content_block_delta", "index": at, "delta": one} for one in deltas)
    yield {"type": "content_block_stop", "index": at}


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
