"""A run that is killed ten times, as a command and as a worker in turn, ends as if it never was."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lookups import (
    CASES,
    CONCURRENCY,
    EVERY_CASE_ONCE,
    KEY,
    ROUNDS,
    left_over,
    lookup_api,
    lookup_project,
    recorded,
)
from tests.e2e.programs import WATCHKEEPER, finished, journaled, run_folder, started
from tests.flows.prefect_view import own_prefect
from tests.projects import FIRST_SLOT
from watchkeeper.flows.server import prefect_server
from watchkeeper.store.objects import open_objects
from watchkeeper.store.records import RunRecords

KILLS = 10
SEED = 20260302
NIGHT = ("nightly", "--slot", FIRST_SLOT.isoformat(), "--json")


@pytest.fixture
def prefect_variables(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a worker needs to find a Prefect server that outlives it."""
    home = tmp_path / "prefect"
    with own_prefect(home), prefect_server() as address:
        yield {
            "PREFECT_API_URL": address,
            "PREFECT_HOME": str(home),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "PYTHONWARNINGS": "default",  # Prefect's own
        }


def finished_count(folder: Path) -> int:
    """How many trials are written down; -1 where no run has begun."""
    run = run_folder(folder)
    if run is None:
        return -1
    journal = run / "trials.jsonl"
    return journal.read_bytes().count(b'"trial":{') if journal.exists() else 0


@pytest.mark.slow
def test_run_killed_ten_times_makes_every_trial_once(
    tmp_path: Path, prefect_variables: dict[str, str]
) -> None:
    """Kill -9 at ten moments drawn by a seed, a worker of Prefect's and the command in turn.

    Every planned trial is in history once. No finished trial is paid for again: beyond one call
    a round there are at most those of the trials that were in flight at a kill.
    """
    drawn = random.Random(SEED)
    moments = sorted(drawn.sample(range(CASES - CONCURRENCY), KILLS))
    in_flight = 0
    with lookup_api(tmp_path / "api", delay_s=0.05) as api:
        folder = lookup_project(tmp_path / "project", api)
        paid_for: dict[str, int] = {}
        for number, count in enumerate(moments):
            run = run_folder(folder)
            as_worker = number % 2 == 0
            assert as_worker or run is not None
            command = NIGHT if run is None or as_worker else ("run", "--resume", run.name)
            variables = {**KEY, **(prefect_variables if as_worker else {})}
            with started(WATCHKEEPER, *command, folder=folder, variables=variables) as program:

                def has_come_to(wanted: int = count) -> bool:
                    time.sleep(0.01)  # two cores: whoever looks all the time delays it
                    return finished_count(folder) >= wanted

                program.until(has_come_to)
                program.kill()
            asked = api.asked()
            assert {name: asked[name] for name in paid_for} == paid_for
            paid_for = {name: asked[name] for name in journaled(folder).values()}
            begun = {name for name, times in asked.items() if times and name not in paid_for}
            in_flight += min(len(begun), CONCURRENCY)
        run = run_folder(folder)
        assert run is not None
        resume = ("run", "--resume", run.name, "--json")
        ended = finished(WATCHKEEPER, *resume, folder=folder, variables=KEY)
        asked = api.asked()

    assert ended.exit_code == 0, ended.err
    assert ended.json()["run_id"] == run.name
    assert recorded("file:./store", folder, run.name) == EVERY_CASE_ONCE
    records = RunRecords(open_objects("file:./store", root=folder))
    assert left_over(folder, records, run.name) == []
    assert {name: asked[name] for name in paid_for} == paid_for
    assert CASES * ROUNDS <= asked.total() <= (CASES + in_flight) * ROUNDS
    assert in_flight <= KILLS * CONCURRENCY
