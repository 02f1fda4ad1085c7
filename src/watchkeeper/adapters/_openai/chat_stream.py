"""A streamed chat completion, put together from its chunks."""

from __future__ import annotations

from collections.abc import Mapping

from watchkeeper.adapters._model.json import Json, ReportedError, Unreadable, decoded, mapping
from watchkeeper.adapters._openai.shapes import status_of

_END = "[DONE]"
_TEXTS = ("content", "refusal", "reasoning", "reasoning_content")


class ChatAssembly:
    """One completion; only its first choice is looked at, because no more are asked for."""

    def __init__(self) -> None:
        self.has_begun = False
        self.is_complete = False
        self._model: object = None
        self._usage: object = None
        self._finish_reason: object = None
        self._pieces: dict[str, list[str]] = {}
        self._details: list[object] = []
        self._calls: dict[object, Json] = {}
        self._arguments: dict[object, list[str]] = {}

    @property
    def may_end(self) -> bool:
        """Whether the reason to stop and the usage have come, of which the latter is the last."""
        return self._finish_reason is not None and self._usage is not None

    def take(self, data: str) -> None:
        """Takes the next chunk."""
        if data.strip() == _END:
            self.is_complete = True
            return
        chunk = decoded(data)
        error = chunk.get("error")
        if error:
            raise ReportedError(status_of(mapping(error)), chunk)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise Unreadable("a chunk without choices")
        self._model = self._model or chunk.get("model")
        self._usage = chunk.get("usage") or self._usage
        for choice in choices:
            if not isinstance(choice, Mapping):
                raise Unreadable("a choice that is no object")
            if not choice.get("index"):
                self._add(mapping(choice.get("delta")))
                self._finish_reason = choice.get("finish_reason") or self._finish_reason

    def body(self) -> Json:
        """The completion as it would have been in one piece."""
        message: Json = {key: "".join(pieces) for key, pieces in self._pieces.items()}
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = [
                {**call, "function": self._function(key, call)} for key, call in self._calls.items()
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {"model": self._model, "choices": [choice], "usage": self._usage}

    def _add(self, delta: Mapping[str, object]) -> None:
        for key in _TEXTS:
            piece = delta.get(key)
            if piece is None:
                continue
            if not isinstance(piece, str):
                raise Unreadable(f"a piece of {key} which is not text")
            self._pieces.setdefault(key, []).append(piece)
            self.has_begun = self.has_begun or bool(piece)
        details = delta.get("reasoning_details")
        self._details += details if isinstance(details, list) else []
        calls = delta.get("tool_calls")
        if calls is None:
            return
        if not isinstance(calls, list) or any(not isinstance(one, Mapping) for one in calls):
            raise Unreadable("tool calls which are no list of objects")
        for call in calls:
            self.has_begun = True
            self._add_call(call)

    def _add_call(self, piece: Mapping[str, object]) -> None:
        key = piece.get("index")
        if key is None:  # servers that give a call whole leave its number out
            key = len(self._calls) if piece.get("id") or not self._calls else len(self._calls) - 1
        call = self._calls.setdefault(key, {"function": {}})
        function = mapping(piece.get("function"))
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            raise Unreadable("a piece of arguments which is not text")
        self._arguments.setdefault(key, []).append(arguments or "")
        known = dict(mapping(call["function"]))
        fresh = {name: one for name, one in function.items() if one and not known.get(name)}
        kept = {name: one for name, one in piece.items() if one and not call.get(name)}
        self._calls[key] = {**call, **kept, "function": {**known, **fresh}}
        self._calls[key].pop("index", None)

    def _function(self, key: object, call: Json) -> Json:
        return {**mapping(call["function"]), "arguments": "".join(self._arguments[key])}
