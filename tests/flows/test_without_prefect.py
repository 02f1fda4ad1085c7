"""Prefect's trouble costs no night: what was asked for is done, and what failed is said."""

from __future__ import annotations

import os
import signal
from datetime import datetime
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from tests.flows.prefect_view import own_prefect
from tests.projects import FIRST_SLOT, bench, script, write_project
from watchkeeper.clock import SimulatedClock
from watchkeeper.flows import server
from watchkeeper.flows.nightly import run_nightly

SLOT = FIRST_SLOT.isoformat()
NOBODY = "http://127.0.0.1:9/api"


def test_night_is_made_though_the_configured_server_does_not_answer(tmp_path: Path) -> None:
    """The records are there, and the trouble is told."""
    made = bench(write_project(tmp_path))

    with temporary_settings({PREFECT_API_URL: NOBODY, PREFECT_CLIENT_MAX_RETRIES: 0}):
        result = run_nightly(None, SLOT, services=made.services)

    assert result.exit_code == 0
    assert [commit.run_id for commit in made.services.records.commits()] == [
        pair.request.run_id for pair in result.pairs
    ]
    assert "Failed to reach API" in made.told[0]
    assert "without Prefect" in made.told[1]


def test_night_is_made_though_no_server_can_be_started(tmp_path: Path) -> None:
    """A database that cannot be opened ends the server, and not the night."""
    made = bench(write_project(tmp_path / "project"))
    nowhere = f"sqlite+aiosqlite:///{tmp_path}/missing/prefect.db"

    with own_prefect(tmp_path, PREFECT_SERVER_DATABASE_CONNECTION_URL=nowhere):
        result = run_nightly(None, SLOT, services=made.services)

    assert result.exit_code == 0
    assert made.told[0].startswith("Prefect: ServerTrouble: Prefect's server ended with code 3")


@pytest.mark.slow
def test_verdicts_stand_though_the_server_is_lost_in_mid_night(
    tmp_path: Path, own_home: Path
) -> None:
    """Trials that were made are not made again, and the result is the night's own."""

    class FatalClock(SimulatedClock):
        """Ends the server while the first trials are under way."""

        slept = 0

        def __init__(self, start: datetime) -> None:
            super().__init__(start)
            self.others = _servers()
            self.killed: list[int] = []

        async def sleep(self, seconds: float) -> None:
            self.slept += 1
            if self.slept == 5:
                self.killed = [pid for pid in _servers() if pid not in self.others]
                for pid in self.killed:
                    os.kill(pid, signal.SIGKILL)
            await super().sleep(seconds)

    clock = FatalClock(FIRST_SLOT)
    slow = script({"endings": [{"text": "yes"}], "latency_ms": 10})
    made = bench(write_project(tmp_path, scripts={"agent": slow}), clock=clock)

    with own_prefect(own_home, PREFECT_CLIENT_MAX_RETRIES=1):
        result = run_nightly(None, SLOT, services=made.services)

    assert clock.killed
    assert clock.slept == 12  # one a trial
    assert result.exit_code == 0
    assert result.pairs[0].verdict is not None
    assert any("Prefect: ConnectError" in line for line in made.told)


def _servers() -> list[int]:
    """The servers that this process has started."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in path.read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if server.PROGRAM in command:
                found.append(int(pid))
    return found
