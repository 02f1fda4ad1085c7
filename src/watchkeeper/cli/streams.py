"""Standard output and standard error while foreign Python code runs in this process.

A tool of somebody's harness may print: standard output belongs to our reader, and a secret belongs
to nobody.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TextIO

from watchkeeper.domain.redaction import Redactor

_LONGEST_LINE = 100_000


class RedactedStream(io.TextIOBase):
    """Hands whole lines on to another stream, without secrets."""

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor
        self._begun = ""

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Never: what asks would write codes that a line does not keep."""
        return False

    def write(self, text: str) -> int:
        """Takes text; a line is handed on when it has ended, or is too long to wait for that."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._stream.write(self._redactor.text(line) + "\n")
        if len(self._begun) > _LONGEST_LINE:
            self.finish()
        return len(text)

    def flush(self) -> None:
        """Flushes what was handed on; a line that has begun waits for its end."""
        self._stream.flush()

    def finish(self) -> None:
        """Hands on a line that has no end."""
        if self._begun:
            self._stream.write(self._redactor.text(self._begun))
            self._begun = ""
        self._stream.flush()


@contextlib.contextmanager
def guarded_output(redactor: Redactor) -> Iterator[None]:
    """Within the block everything that Python code prints goes to standard error, redacted."""
    guarded = RedactedStream(sys.stderr, redactor)
    try:
        with contextlib.redirect_stdout(guarded), contextlib.redirect_stderr(guarded):
            yield
    finally:
        guarded.finish()
