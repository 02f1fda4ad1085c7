"""A program that runs for the length of a test: ready within bounds, gone with its children."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
READY = "ready "


class ProgramNotReady(RuntimeError):
    """The program ended, or said nothing, before its time to get ready was over."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that answers at `url`; `pid` leads its process group."""

    url: str
    pid: int


@contextmanager
def module(
    name: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    ready_s: float = 30.0,
) -> Iterator[Program]:
    """The module run by this interpreter, until the block ends.

    The module calls `announce` once it listens. It gets a pipe as standard input which closes
    when this process ends in any way, so that nothing outlives a killed test run.

    Raises:
        ProgramNotReady: it did not announce itself within `ready_s`; holds its last output.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", name, *arguments, "--until-stdin-closes"],
            env={**os.environ, **(env or {}), "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield Program(url=_announced(child, name, errors, ready_s), pid=child.pid)
        finally:
            _end(child)


def announce(url: str) -> None:
    """Tell the process that started this one where it answers."""
    sys.stdout.write(f"{READY}{url}\n")
    sys.stdout.flush()


def leave_when_stdin_closes() -> None:
    """End this process once nobody holds the other end of its standard input."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="stdin-watch", daemon=True).start()


def wait_for_end(arguments: Sequence[str]) -> None:
    """Return when SIGTERM or SIGINT arrives; watches stdin too if the arguments ask for it."""
    if "--until-stdin-closes" in arguments:
        leave_when_stdin_closes()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(0.5):
        pass


def _announced(
    child: "subprocess.Popen[bytes]", name: str, errors: IO[bytes], ready_s: float
) -> str:
    lines: list[str] = []
    stdout = child.stdout
    assert stdout is not None

    def read() -> None:
        lines.extend(line.decode(errors="replace").rstrip() for line in stdout)

    reader = threading.Thread(target=read, name=f"{name}-stdout", daemon=True)
    reader.start()
    deadline = time.monotonic() + ready_s
    while time.monotonic() < deadline:
        ended = child.poll() is not None
        for line in lines:
            if line.startswith(READY):
                return line.removeprefix(READY)
        if ended and not reader.is_alive():
            break
        time.sleep(0.01)
    errors.seek(0)
    said = "\n".join([*lines, errors.read().decode(errors="replace")])[-2000:]
    how = "said nothing" if child.returncode is None else f"ended with {child.returncode}"
    raise ProgramNotReady(f"python -m {name}: {how} within {ready_s:g} s; its output:\n{said}")


def _end(child: "subprocess.Popen[bytes]", grace_s: float = 5.0) -> None:
    for number, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, grace_s)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    child.wait(grace_s)
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
