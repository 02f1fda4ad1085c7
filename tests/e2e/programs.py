"""Watchkeeper as programs of their own, which can be killed, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.process import ROOT
from watchkeeper.rollout.journal import read_journal

PATIENCE_S = 90.0
WATCHKEEPER = "watchkeeper"
NIGHT = "tests.e2e.night"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended and what it said."""

    exit_code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """Standard output as the one JSON object that it is."""
        document: dict[str, Any] = json.loads(self.out)
        return document


class Running:
    """A program at work; its output goes to files, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    def wait(self, patience_s: float = PATIENCE_S) -> Ended:
        """Its end."""
        self.process.wait(patience_s)
        return self.ended()

    def ended(self) -> Ended:
        """What it has said; its exit code is that of a program which has ended."""
        code = self.process.returncode
        assert code is not None
        return Ended(code, self._out.read_text(), self._err.read_text())

    def kill(self) -> Ended:
        """Ends it as ``kill -9`` does; it must still be at work."""
        assert self.process.poll() is None, f"ended before it was killed: {self.ended()}"
        self.process.kill()
        self.process.wait(PATIENCE_S)
        return self.ended()

    def until(self, happened: Callable[[], bool]) -> None:
        """Returns as soon as something has happened, which must be before the program ends."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert self.process.poll() is None, f"ended before it happened: {self.ended()}"
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.002)


@contextmanager
def started(
    module: str, *arguments: str, folder: Path, variables: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """``python -m module`` in a project folder, with these variables and no others of ours."""
    said = folder / "said"
    scratch = folder / "tmp"
    said.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)
    number = len(list(said.iterdir()))
    out, err = said / f"{number:04}.out", said / f"{number:04}.err"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(scratch),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error",
        **(variables or {}),
    }
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        yield Running(process, out, err)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)


def finished(
    module: str, *arguments: str, folder: Path, variables: Mapping[str, str] | None = None
) -> Ended:
    """The same, to its end."""
    with started(module, *arguments, folder=folder, variables=variables) as program:
        return program.wait()


def run_folder(folder: Path) -> Path | None:
    """What this project folder keeps of the one run that is not committed."""
    found = sorted((folder / ".watchkeeper" / "runs").glob("*"))
    assert len(found) <= 1
    return found[0] if found else None


def journaled(folder: Path) -> dict[str, str]:
    """Case by id of every trial that the run at work has finished and written down."""
    run = run_folder(folder)
    if run is None:
        return {}
    rows = (line.get("trial") for line in read_journal(run / "trials.jsonl"))
    return {row["trial_id"]: row["case_id"] for row in rows if row is not None}
