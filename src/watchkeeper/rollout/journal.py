"""The write-ahead file of a run: a finished trial is written down before anything else happens.

One line a finished attempt; what was said in it lies in a file beside, so that whoever goes on
with a run reads what can be counted and nothing else. A line is handed to the operating system at
once, so that a killed process loses nothing, and forced to the disk in groups, so that a power cut
loses little.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from watchkeeper.domain.records import transcripts_beside
from watchkeeper.errors import BrokenEvaluation, RecordUnreadable

SYNC_EVERY_LINES = 32
SYNC_EVERY_SECONDS = 0.2
_BLOCK = 65_536
_PLACE = b'{"said":['  # nothing else in a record is written like this: texts escape their quotes


class Journal:
    """An append-only file of JSON lines that survives a kill at any moment.

    The member ``transcript`` of a record goes to the file beside; ``said`` is its place there,
    the first byte and the number of bytes.
    """

    def __init__(self, path: Path) -> None:
        """Opens the files for appending; a torn last line is cut off first."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lines = _opened(path)
        self._said = _opened(transcripts_beside(path))
        _reconcile(self._lines, self._said)
        self._unsynced = 0
        self._synced_at = time.monotonic()

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes one record.

        Raises:
            BrokenEvaluation: The disk is full or cannot be written.
        """
        if "transcript" in record:
            # First what was said: a line never promises what is not there.
            said = _line({"transcript": record["transcript"]})
            place = [self._written(self._said, said), len(said)]
            rest = {name: value for name, value in record.items() if name != "transcript"}
            try:
                self._written(self._lines, _line({"said": place, **rest}))
            except BrokenEvaluation:
                os.ftruncate(self._said, place[0])
                raise
        else:
            self._written(self._lines, _line(record))
        self._unsynced += 1
        if (
            self._unsynced >= SYNC_EVERY_LINES
            or time.monotonic() - self._synced_at >= SYNC_EVERY_SECONDS
        ):
            self.sync()

    def _written(self, descriptor: int, line: bytes) -> int:
        """Where the line begins; one that does not fit leaves no half of it."""
        before = os.lseek(descriptor, 0, os.SEEK_END)
        try:
            written = os.write(descriptor, line)
            while written < len(line):
                written += os.write(descriptor, line[written:])
        except OSError as error:
            os.ftruncate(descriptor, before)
            raise BrokenEvaluation(
                f"{self._path}: a finished trial could not be written down "
                f"({error.strerror}); free the disk and start the same run again, "
                "finished trials are kept"
            ) from error
        return before

    def sync(self) -> None:
        """Forces what was written to the disk."""
        if self._unsynced:
            os.fsync(self._said)
            os.fsync(self._lines)
            self._unsynced = 0
        self._synced_at = time.monotonic()

    def close(self) -> None:
        """Syncs and closes the files."""
        if self._lines >= 0:
            self.sync()
            os.close(self._lines)
            os.close(self._said)
            self._lines = self._said = -1

    def __enter__(self) -> Journal:
        """The journal itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the files."""
        self.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal, in order, without transcripts; a torn last line is not one.

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


def read_transcript(path: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """What was said in the attempt of one of a journal's records.

    Raises:
        RecordUnreadable: It is not there.
    """
    start, length = record["said"]
    beside = transcripts_beside(path)
    try:
        with beside.open("rb") as file:
            file.seek(start)
            found: dict[str, Any] = json.loads(file.read(length))["transcript"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordUnreadable(
            f"{beside}: no transcript at byte {start}; the file was damaged after it was written. "
            f"Move it and {path.name} away to run the trials again"
        ) from error
    return found


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


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _opened(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    _cut(descriptor, _last(descriptor, b"\n") + 1)
    return descriptor


def _reconcile(lines: int, said: int) -> None:
    """Cuts off whatever stands in one of the files without the other.

    A kill leaves a transcript without its line; a power cut may keep a line whose transcript had
    not reached the disk.
    """
    size, end = os.lseek(said, 0, os.SEEK_END), 0
    while (at := _last(lines, _PLACE)) >= 0:
        place = os.pread(lines, 64, at + len(_PLACE)).partition(b"]")[0]
        end = sum(map(int, place.split(b",")))
        if end <= size:
            break
        _cut(lines, at)
        end = 0
    _cut(said, end)


def _last(descriptor: int, what: bytes) -> int:
    """Where some bytes stand last; -1 where they do not."""
    position = os.lseek(descriptor, 0, os.SEEK_END)
    while position > 0:
        start = max(0, position - _BLOCK)
        # A little more than the block: it may stand across two of them.
        found = os.pread(descriptor, position - start + len(what) - 1, start).rfind(what)
        if found >= 0:
            return start + found
        position = start
    return -1


def _cut(descriptor: int, size: int) -> None:
    if size < os.lseek(descriptor, 0, os.SEEK_END):
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
