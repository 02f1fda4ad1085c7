"""A streamed message of the Messages API, put together from its events."""

from __future__ import annotations

from collections.abc import Mapping

from watchkeeper.adapters._model.json import (
    Json,
    ReportedError,
    Unreadable,
    decoded,
    invalid_arguments,
    mapping,
    read_arguments,
)

_STATUS_OF_ERROR = {
    "authentication_error": 401,
    "billing_error": 402,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "request_too_large": 413,
    "timeout_error": 408,
}
_TEXTS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""What brings a piece of text, and under which key; input arrives as pieces of JSON."""


class MessageAssembly:
    """One message; pieces of a kind that nobody knows are left out."""

    may_end = False

    def __init__(self) -> None:
        self.has_begun = False
        self.is_complete = False
        self._message: Json = {}
        self._blocks: dict[object, Json] = {}
        self._pieces: dict[tuple[object, str], list[str]] = {}

    def take(self, data: str) -> None:
        """Takes the next event."""
        event = decoded(data)
        type_ = event.get("type")
        if type_ == "error":
            error = str(mapping(event.get("error")).get("type"))
            raise ReportedError(_STATUS_OF_ERROR.get(error, 500), event)
        if type_ == "message_start":
            self._message = dict(_object(event, "message"))
        elif type_ == "content_block_start":
            self._blocks[event.get("index")] = dict(_object(event, "content_block"))
        elif type_ == "content_block_delta":
            self._add(event.get("index"), _object(event, "delta"))
        elif type_ == "message_delta":
            self._message.update(_object(event, "delta"))
            usage = mapping(self._message.get("usage"))
            fresh = {
                key: one for key, one in mapping(event.get("usage")).items() if one is not None
            }
            if usage or fresh:
                self._message["usage"] = {**usage, **fresh}
        elif type_ == "message_stop":
            self.is_complete = True

    def body(self) -> Json:
        """The message as it would have been in one piece."""
        for (index, key), pieces in self._pieces.items():
            block, text = self._blocks[index], "".join(pieces)
            if key != "partial_json":
                block[key] = f"{block.get(key) or ''}{text}"
            elif text:
                block["input"] = _arguments(text)
        return {**self._message, "content": list(self._blocks.values())}

    def _add(self, index: object, delta: Mapping[str, object]) -> None:
        block = self._blocks.get(index)
        if block is None:
            raise Unreadable("a piece of a block that has not begun")
        self.has_begun = True
        if delta.get("type") == "citations_delta":
            cited = block.get("citations")
            block["citations"] = [
                *(cited if isinstance(cited, list) else []),
                delta.get("citation"),
            ]
            return
        key = _TEXTS.get(str(delta.get("type")))
        if key is None:
            return
        piece = delta.get(key)
        if not isinstance(piece, str):
            raise Unreadable(f"a piece without its {key}")
        self._pieces.setdefault((index, key), []).append(piece)


def _arguments(text: str) -> Json:
    """The input of a call; one that was cut off within is kept as it is."""
    try:
        return read_arguments(text)
    except Unreadable:
        return invalid_arguments(text)


def _object(event: Json, key: str) -> Mapping[str, object]:
    value = event.get(key)
    if not isinstance(value, Mapping):
        raise Unreadable(f"an event {event.get('type')} without its {key}")
    return value
