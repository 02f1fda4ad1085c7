"""A night that is killed loses no finished trial, and leaves no server behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.projects import case, script, scripted_endpoint, suite, write_project
from watchkeeper.flows.handover import services_of

PATIENCE_S = 60.0
_NIGHT = """
import sys
from pathlib import Path
from watchkeeper.flows.nightly import run_nightly
result = run_nightly(Path(sys.argv[1]))
print("exit", result.exit_code, flush=True)
"""


_ENDING_TOOLS = """
import os
import signal


async def end_it() -> str:
    os.kill(os.getpid(), signal.SIGTERM)
    return "never"


TOOLS = [end_it]
"""


def test_killed_night_goes_on_where_it_was(tmp_path: Path, own_home: Path) -> None:
    """After kill -9 the same night makes the missing trials alone, and its verdict stands."""
    cases = [case(f"case-{number}") for number in range(10)]
    folder = write_project(
        tmp_path,
        watchkeeper={"limits": {"confirm_delay_minutes": 0, "shard_trials": 20}},
        suites={"basic": suite(cases, trials=10)},
        scripts={"agent": script({"endings": [{"text": "yes"}], "latency_ms": 250})},
    )
    with _night(folder, own_home) as process:
        before = _finished(folder, at_least=20, process=process)
        helpers = _children(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert len(before) < 100, "the night was over before it could be killed"
    assert helpers, "the night had started no server"
    _wait_until_gone(helpers)

    with _night(folder, own_home) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert "exit 0" in said

    history = services_of(folder).history()
    (run,) = history.commits
    connection = history.connect()
    rows = connection.execute(
        "select trial_id, attempt, epoch_us(started_at) from trial_attempts"
    ).fetchall()
    connection.close()
    started = {(trial, attempt): at for trial, attempt, at in rows}
    assert len(rows) == len(started) == 100
    assert run.manifest["trigger"] == "command line"
    assert {key: started[key] for key in before} == before


def test_terminated_night_ends_with_no_code_of_a_verdict(tmp_path: Path, own_home: Path) -> None:
    """A machine that is shut down has found no regression; its server ends with the night."""
    folder = write_project(
        tmp_path,
        endpoints={"agent": scripted_endpoint(concurrency=1)},
        scripts={"agent": script({"endings": [{"text": "yes"}], "latency_ms": 500})},
    )
    with _night(folder, own_home) as process:
        _finished(folder, at_least=1, process=process)
        helpers = _children(process.pid)
        process.terminate()
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "finished trials are kept" in said
    _wait_until_gone(helpers)


def test_signal_within_the_work_itself_ends_the_night_the_same_way(
    tmp_path: Path, own_home: Path
) -> None:
    """Prefect hands it on to the handler before its own, which must not be the system's."""
    (tmp_path / "ending_tools.py").write_text(_ENDING_TOOLS)
    calls = [{"tool": "end_it", "args": {}}]
    folder = write_project(
        tmp_path,
        endpoints={
            "agent": scripted_endpoint(concurrency=1, harness={"tools": "ending_tools:TOOLS"})
        },
        scripts={"agent": script({"rounds": [{"calls": calls}], "endings": [{"text": "yes"}]})},
    )
    with _night(folder, own_home) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "finished trials are kept" in said


@contextmanager
def _night(folder: Path, home: Path) -> Iterator[subprocess.Popen[str]]:
    """A night as a process of its own, in a process group that is ended in any case."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _NIGHT, str(folder)],
        env={**variables, "PREFECT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()


def _finished(
    folder: Path, *, at_least: int, process: subprocess.Popen[str]
) -> dict[tuple[str, int], int]:
    """The trials in the journal, by id and attempt, with their start, once there are enough."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        found: dict[tuple[str, int], int] = {}
        for journal in folder.glob(".watchkeeper/runs/*/trials.jsonl"):
            for line in journal.read_bytes().splitlines(keepends=True):
                row = json.loads(line).get("trial") if line.endswith(b"\n") else None
                if row is not None:
                    found[row["trial_id"], row["attempt"]] = _microseconds(row["started_at"])
        if len(found) >= at_least:
            return found
        time.sleep(0.05)
    raise AssertionError(f"the night made no {at_least} trials (ended: {process.poll()})")


def _microseconds(text: Any) -> int:
    at = datetime.fromisoformat(text).astimezone(UTC)
    return round(at.timestamp() * 1_000_000)


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def _wait_until_gone(pids: list[int]) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        left = [pid for pid in pids if _is_alive(pid)]
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"left behind: {left}")


def _is_alive(pid: int) -> bool:
    """Whether a process still does anything; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
