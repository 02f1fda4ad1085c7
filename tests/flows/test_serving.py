"""Deployments: their schedules, and a night that is really served."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound
from prefect.flows import load_flow_from_entrypoint

from tests.flows.prefect_view import Prefect
from tests.projects import script, write_project
from watchkeeper.errors import UsageError
from watchkeeper.flows.handover import services_of
from watchkeeper.flows.serving import deployments_of, serve_project
from watchkeeper.flows.slots import latest_slot
from watchkeeper.loading.project import load_project

PATIENCE_S = 60.0
BERLIN_NIGHTS = {"timezone": "Europe/Berlin", "schedule": {"nightly": "15 3 * * mon-fri"}}
_SERVE = """
import sys
from pathlib import Path
from watchkeeper.flows.serving import serve_project
serve_project(Path(sys.argv[1]))
"""


def test_deployments_have_the_schedule_of_the_project(tmp_path: Path) -> None:
    """The nightly one alone is scheduled, in the project's zone; all find their code by module."""
    folder = tmp_path / "acme nights"
    project = load_project(write_project(folder, watchkeeper=BERLIN_NIGHTS))

    made = {one.flow_name: one for one in deployments_of(project)}

    assert set(made) == {"watchkeeper-nightly", "watchkeeper-evaluate", "watchkeeper-compare"}
    (planned,) = made["watchkeeper-nightly"].schedules or []
    assert isinstance(planned.schedule, CronSchedule)
    assert (planned.schedule.cron, planned.schedule.timezone) == (
        "15 3 * * mon-fri",
        "Europe/Berlin",
    )
    assert not made["watchkeeper-evaluate"].schedules
    assert not made["watchkeeper-compare"].schedules
    for name, one in made.items():
        assert one.name == "acme-nights"
        assert one.parameters == {"project": str(folder)}
        assert load_flow_from_entrypoint(one.entrypoint or "").name == name


def test_bad_schedule_is_found_before_anything_is_served(tmp_path: Path) -> None:
    """Five fields that are no cron expression end the command, not the first night."""
    folder = write_project(tmp_path, watchkeeper={"schedule": {"nightly": "61 2 * * *"}})
    with pytest.raises(UsageError, match=r"schedule\.nightly '61 2 \* \* \*'"):
        serve_project(folder)


@pytest.mark.slow
def test_served_night_runs_in_the_slot_of_its_schedule(tmp_path: Path, prefect: Prefect) -> None:
    """A night started on Prefect's pages is that of the latest slot; its state is the verdict's.

    The schedule stays active when the serving process ends, so that a night is not lost to a
    restart of it.
    """
    folder = write_project(
        tmp_path / "served",
        watchkeeper=BERLIN_NIGHTS,
        scripts={"agent": script({"faults": [{"kind": "authentication"}]})},
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(folder)],
        env={
            **{name: one for name, one in os.environ.items() if not name.startswith("PREFECT_")},
            "PREFECT_HOME": str(tmp_path),
            "PREFECT_API_URL": prefect.api_url,
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        },
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        run = _ended(prefect, _deployment(prefect, process), process)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE_S)

    assert run.state is not None
    assert (run.state.type.value, run.state.name) == ("FAILED", "Broken"), said
    services = services_of(folder)
    (commit,) = services.records.commits()
    project = services.project
    slot_at = latest_slot(project.nightly_cron, project.timezone, datetime.now(UTC))
    assert datetime.fromisoformat(commit.manifest["slot_at"]) == slot_at
    assert commit.manifest["trigger"] == "Prefect"
    assert "NO VERDICT" in prefect.markdown(run)
    left = _deployment(prefect, process)
    assert [one.active for one in left.schedules] == [True]
    assert not left.paused


def _ended(
    prefect: Prefect, deployment: DeploymentResponse, process: subprocess.Popen[str]
) -> FlowRun:
    """A run of a deployment that somebody starts now, once it has ended."""
    run = prefect.ask(lambda client: client.create_flow_run_from_deployment(deployment.id))
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        found = prefect.ask(lambda client: client.read_flow_run(run.id))
        if found.state is not None and found.state.is_final():
            return found
        time.sleep(0.5)
    raise AssertionError(f"the run has not ended; the serving process: {process.poll()}")


def _deployment(prefect: Prefect, process: subprocess.Popen[str]) -> DeploymentResponse:
    """The nightly deployment, as soon as Prefect knows it."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            return prefect.ask(
                lambda client: client.read_deployment_by_name("watchkeeper-nightly/served")
            )
        except ObjectNotFound:
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.2)
    raise AssertionError("nothing was served")
