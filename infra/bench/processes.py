"""Whole commands and what they take: time, processor, memory of everything they start."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAMPLE_EVERY_S = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE")


class CommandFailed(Exception):
    """A contestant's command failed; its text is the end of what it said."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is started, where, and with which variables beside PATH, HOME and TMPDIR."""

    words: Sequence[str]
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    accepted: frozenset[int] = frozenset({0})


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took.

    ``cpu_s`` is user and system time of the process and of all that it waited for. ``peak_mb`` is
    the largest sum over its processes; pages that they share count in each. ``memory`` holds
    seconds since the start with megabytes.
    """

    started_at: float
    wall_s: float
    cpu_s: float
    peak_mb: float
    exit_code: int
    out: str
    memory: tuple[tuple[float, float], ...]


def run(
    command: Command,
    *,
    timeout_s: float = 600.0,
    until: Callable[[float], bool] | None = None,
) -> Cost:
    """What a command takes.

    Args:
        command: What is started; it is ended with everything it started when time is up.
        timeout_s: Seconds until it is given up.
        until: Asked at every sample with the seconds passed; the command is killed once it is
            true, which is then no failure.

    Raises:
        CommandFailed: It ended with a code that is not accepted, or not in time.
    """
    environment = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "HOME": str(command.folder),
        "TMPDIR": str(command.folder),
        "DO_NOT_TRACK": "1",
        **command.variables,
    }
    memory: list[tuple[float, float]] = []
    peaks: dict[int, float] = {}
    is_wanted_dead = False
    with tempfile.TemporaryFile() as said:
        started_at = time.monotonic()
        process = subprocess.Popen(
            command.words,
            cwd=command.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ended = threading.Event()
        waiter: dict[str, Any] = {}

        def wait() -> None:
            waiter["end"] = os.wait4(process.pid, 0)
            waiter["at"] = time.monotonic()
            ended.set()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        while not ended.wait(SAMPLE_EVERY_S):
            passed = time.monotonic() - started_at
            memory.append((round(passed, 2), round(_tree_mb(process.pid, peaks), 1)))
            is_wanted_dead = until is not None and until(passed)
            if is_wanted_dead or passed > timeout_s:
                _kill_group(process.pid)
                break
        thread.join(30)
        _kill_group(process.pid)  # whatever it left behind
        _, status, usage = waiter["end"]
        process.returncode = code = os.waitstatus_to_exitcode(status)
        said.seek(0)
        out = said.read().decode(errors="replace")
    wall_s = waiter["at"] - started_at
    if wall_s > timeout_s or (code not in command.accepted and not is_wanted_dead):
        what = "gave no end" if wall_s > timeout_s else f"ended with {code}"
        raise CommandFailed(f"{command.words[0]} {what} after {wall_s:.0f} s: {out[-600:]}")
    peak = max([megabytes for _, megabytes in memory] + [*peaks.values()], default=0.0)
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cost(started_at, wall_s, cpu_s, peak, code, out, tuple(memory))


@dataclass(frozen=True, slots=True)
class Server:
    """A running model; ``counts`` asks it what it was asked."""

    url: str

    def counts(self) -> dict[str, Any]:
        """What it was asked so far."""
        with urllib.request.urlopen(f"{self.url}/bench/counts", timeout=10) as reply:  # noqa: S310
            found: dict[str, Any] = json.load(reply)
        return found


@contextmanager
def model_server(
    *, latency_s: float, rounds: int, rate_limited: float = 0.0, overloaded: float = 0.0
) -> Iterator[Server]:
    """The model in a process of its own, until the block ends."""
    words = [sys.executable, "-m", "infra.bench.server", "--latency", str(latency_s)]
    words += ["--rounds", str(rounds), "--rate-limited", str(rate_limited)]
    words += ["--overloaded", str(overloaded)]
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line.startswith("ready "):
            raise CommandFailed("the model server did not start")
        yield Server(line.split()[1])
    finally:
        process.terminate()
        process.communicate(timeout=10)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _tree_mb(pid: int, peaks: dict[int, float]) -> float:
    """Resident megabytes of a process and its descendants; each one's own peak is noted."""
    total, waiting = 0.0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
            for line in Path(f"/proc/{one}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    peaks[one] = int(line.split()[1]) * 1024 / 1e6
        except (OSError, IndexError, ValueError):
            continue
        total += pages * _PAGE / 1e6
    return total
