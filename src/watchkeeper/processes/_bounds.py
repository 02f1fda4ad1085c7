"""What a foreign program may take, how it ended, and the measures of both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SMALLEST_ENTRY_BYTES = 256  # an empty file takes an inode

EndReason = Literal["exited", "time", "output", "disk", "stopped"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a program may take.

    ``output_bytes`` bounds standard output and standard error, each; ``disk_bytes`` what the
    watched folders may grow by, and any one file; ``grace_s`` is the time between SIGTERM and
    SIGKILL.
    """

    seconds: float
    output_bytes: int = 10_000_000
    disk_bytes: int | None = None
    grace_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what it said.

    ``reason`` says who ended it: it itself or somebody outside (``exited``), or we, for time,
    output or disk, or because ``on_line`` had enough (``stopped``). One of ``exit_code`` and
    ``signal`` is set. ``stdout`` is empty where ``on_line`` was given the lines. ``left_count``
    counts processes that not even SIGKILL ended.
    """

    reason: EndReason
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_byte_count: int
    stderr_byte_count: int
    seconds: float
    left_count: int = 0


@dataclass(slots=True)
class Output:
    """One of the two streams, within its bound."""

    limit: int
    on_line: Callable[[bytes], bool | None] | None = None
    kept: bytearray = field(default_factory=bytearray)
    byte_count: int = 0
    is_stopped: bool = False

    def take(self, chunk: bytes) -> EndReason | None:
        """Keeps a chunk or hands out its lines; the reason to end the program, if there is one."""
        self.byte_count += len(chunk)
        if self.is_stopped:
            return None
        excess = self.byte_count - self.limit
        if excess > 0:
            chunk = chunk[: max(len(chunk) - excess, 0)]
        searched = len(self.kept)
        self.kept += chunk
        if self.on_line is not None and self._hand_out(self.on_line, searched):
            self.is_stopped = True
            return "stopped"
        return "output" if excess > 0 else None

    def finish(self) -> None:
        """Hands out the last line where it has no end; one that was cut is no line."""
        if self.on_line is not None and self.kept:
            if self.byte_count <= self.limit and not self.is_stopped:
                self.on_line(bytes(self.kept))
            self.kept.clear()

    def _hand_out(self, on_line: Callable[[bytes], bool | None], searched: int) -> bool:
        last = self.kept.rfind(b"\n", searched)
        if last < 0:
            return False
        whole = bytes(self.kept[:last])
        del self.kept[: last + 1]
        return any(on_line(line) for line in whole.split(b"\n"))


@dataclass(frozen=True, slots=True)
class Disk:
    """Folders and the most that they may take, in bytes."""

    folders: tuple[Path, ...]
    most: int

    def is_full(self) -> bool:
        """Whether they take more."""
        return disk_bytes(self.folders) > self.most


def disk_bytes(folders: Iterable[Path]) -> int:
    """What folders take on the disk; an entry counts at least ``SMALLEST_ENTRY_BYTES``."""
    total = 0
    waiting = [os.fspath(folder) for folder in folders]
    while waiting:
        # A program that runs removes what was just listed.
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    total += max(found.st_blocks * 512, SMALLEST_ENTRY_BYTES)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return total
