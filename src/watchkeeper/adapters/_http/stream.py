"""A streamed answer, piece by piece, to events: server-sent events, or JSON lines."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from watchkeeper.adapters._reported import ReportedStream, Unreadable, read_json

_END_MARK = "[DONE]"


class EventReader:
    """Takes the bytes of a stream and hands its events to a report.

    ``shape`` turns a decoded event into one of the format, or into ``None`` to leave it out.
    ``elapsed_ms`` says how long the turn has been going on.
    """

    def __init__(
        self,
        form: Literal["sse", "jsonl"],
        shape: Callable[[object], object],
        elapsed_ms: Callable[[], float],
    ) -> None:
        self.report = ReportedStream()
        self._form = form
        self._shape = shape
        self._elapsed_ms = elapsed_ms
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._parts: list[str] = []  # of the line that has not ended yet
        self._data: list[str] = []
        self._name = ""

    def take(self, piece: bytes) -> bool:
        """Reads on and says whether the result has come, so that nothing more is needed.

        Raises:
            Unreadable: It is not what was agreed.
        """
        for line in self._lines(piece):
            if self._form == "jsonl":
                self._hand_on(line, "")
            else:
                self._take_field(line)
            if self.report.is_complete:
                return True
        return False

    def finish(self) -> None:
        """The stream has ended; what stands behind the last line break counts too."""
        rest = "".join(self._parts)
        self._parts = []
        if rest and self._form == "jsonl":
            self._hand_on(rest, "")
        elif self._form == "sse":
            self._take_field(rest)
            self._take_field("")

    def _lines(self, piece: bytes) -> Iterator[str]:
        """The lines that are whole now, without their ends (LF, or CR LF)."""
        try:
            text = self._decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise Unreadable("not UTF-8") from error
        *whole, rest = text.split("\n")
        for line in whole:
            yield "".join((*self._parts, line)).removesuffix("\r")
            self._parts = []
        if rest:
            self._parts.append(rest)

    def _take_field(self, line: str) -> None:
        """One line of server-sent events; an empty one ends the event."""
        if not line:
            if self._data:
                self._hand_on("\n".join(self._data), self._name)
            self._data, self._name = [], ""
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value

    def _hand_on(self, text: str, name: str) -> None:
        if not text.strip() or text.strip() == _END_MARK:
            return
        event = read_json(text)
        if name and isinstance(event, Mapping) and "type" not in event:
            event = {"type": name, **event}
        event = self._shape(event)
        if event is not None:
            self.report.add(event, self._elapsed_ms())
