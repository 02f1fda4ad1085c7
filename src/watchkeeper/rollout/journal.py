"""The write-ahead file of a run: a finished trial is written down before anything else happens.

One line a finished attempt. A line is handed to the operating system at once, so that a killed
process loses nothing, and forced to the disk in groups, so that a power cut loses little.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from watchkeeper.errors import BrokenEvaluation, RecordUnreadable

SYNC_EVERY_LINES = 16
SYNC_EVERY_SECONDS = 0.2


class Journal:
    """An append-only file of JSON lines that survives a kill at any moment."""

    def __init__(self, path: Path) -> None:
        """Opens the file for appending; a torn last line is cut off first."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        _cut_torn_line(self._descriptor)
        self._unsynced = 0
        self._synced_at = time.monotonic()

    def append(self, record: dict[str, Any]) -> None:
        """Writes one record.

        Raises:
            BrokenEvaluation: The disk is full or cannot be written.
        """
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        before = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, before)
            raise BrokenEvaluation(
                f"{self._path}: a finished trial could not be written down "
                f"({error.strerror}); free the disk and start the same run again, "
                "finished trials are kept"
            ) from error
        self._unsynced += 1
        if (
            self._unsynced >= SYNC_EVERY_LINES
            or time.monotonic() - self._synced_at >= SYNC_EVERY_SECONDS
        ):
            self.sync()

    def sync(self) -> None:
        """Forces what was written to the disk."""
        if self._unsynced:
            os.fsync(self._descriptor)
            self._unsynced = 0
        self._synced_at = time.monotonic()

    def close(self) -> None:
        """Syncs and closes the file."""
        if self._descriptor >= 0:
            self.sync()
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Journal:
        """The journal itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the file."""
        self.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal, in order; a torn last line is not one.

    Raises:
        RecordUnreadable: A whole line is not JSON.
    """
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield json.loads(line)
            except ValueError as error:
                raise RecordUnreadable(
                    f"{path}:{number}: not a record; the file was damaged after it was written. "
                    "Move it away to run the trials again"
                ) from error


class RunLock:
    """Holds a run for one process of this machine; a killed process lets go by itself."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> RunLock:
        """Takes the lock.

        Raises:
            BrokenEvaluation: Another process works on the same run.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise BrokenEvaluation(
                f"run {self._path.parent.name} is being worked on by another process; "
                "wait for it, or end it, before starting the same run again"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Lets go of the lock."""
        os.close(self._descriptor)


def _cut_torn_line(descriptor: int) -> None:
    """Cuts off what stands behind the last line break: a write that a kill interrupted."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    position, block = end, 65_536
    while position > 0:
        start = max(0, position - block)
        chunk = os.pread(descriptor, position - start, start)
        found = chunk.rfind(b"\n")
        if found >= 0:
            keep = start + found + 1
            break
        position = start
    else:
        keep = 0
    if keep != end:
        os.ftruncate(descriptor, keep)
        os.fsync(descriptor)
