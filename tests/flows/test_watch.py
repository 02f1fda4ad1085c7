"""The version watch: what is seen is kept, a change starts one evaluation, whatever comes twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowFilter,
    FlowFilterName,
)
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.schedules import CronSchedule
from prefect.events import DeploymentEventTrigger

from tests.flows.nights import night
from tests.flows.prefect_view import Prefect
from tests.projects import (
    FIRST_SLOT,
    Bench,
    bench,
    case,
    script,
    scripted_endpoint,
    suite,
    write_project,
)
from tests.servers import anthropic_replies as api
from tests.servers.anthropic_server import AnthropicServer, anthropic_server
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.identity import run_id_with_token
from watchkeeper.domain.sighting import Sighting
from watchkeeper.flows.evaluate import evaluate
from watchkeeper.flows.serving import deployments_of
from watchkeeper.flows.watch_versions import (
    EVENT,
    change_events,
    emit,
    version_trigger,
    watch_versions,
)
from watchkeeper.loading.project import load_project
from watchkeeper.pipeline.watch import WatchResult, check, watch
from watchkeeper.store.sightings import Sightings

PATIENCE_S = 60.0
MOVED_AT = FIRST_SLOT + timedelta(hours=1)
MOVING = script(
    served=[{"model": "model-v1"}, {"model": "model-v2", "since": MOVED_AT.isoformat()}]
)
_SERVE = """
import sys
from pathlib import Path
from watchkeeper.flows.serving import serve_project
serve_project(Path(sys.argv[1]))
"""


class Announced:
    """Keeps what was handed on; raises instead while ``is_down``."""

    def __init__(self) -> None:
        self.sightings: list[Sighting] = []
        self.is_down = False

    async def __call__(self, endpoint: Endpoint, sighting: Sighting) -> None:
        """Hands a change on."""
        if self.is_down:
            raise ConnectionError("nobody listens")
        self.sightings.append(sighting)


async def test_change_is_handed_on_once(tmp_path: Path) -> None:
    """The first sight is no change, the same sight is none either, and a change is one."""
    made = bench(write_project(tmp_path, scripts={"agent": MOVING}))
    announced = Announced()
    codes = []
    for hours in (0, 0.5, 1, 2):
        made.clock.move_to(FIRST_SLOT + timedelta(hours=hours))
        codes.append((await watch(made.services, announced)).exit_code)
    (sighting,) = announced.sightings
    assert codes == [0, 0, 4, 0]
    assert [(one.what, one.before, one.after) for one in sighting.changes] == [
        ("served model", "model-v1", "model-v2")
    ]
    assert sighting.seen_at == MOVED_AT


async def test_watch_that_dies_before_it_has_told_tells_later(tmp_path: Path) -> None:
    """Between seeing and handing on nothing is lost, and the id stays what it was."""
    made = bench(write_project(tmp_path, scripts={"agent": MOVING}))
    announced = Announced()
    await watch(made.services, announced)
    made.clock.move_to(MOVED_AT)
    announced.is_down = True
    with pytest.raises(ConnectionError):
        await watch(made.services, announced)
    announced.is_down = False
    made.clock.move_to(MOVED_AT + timedelta(minutes=15))

    later = await watch(made.services, announced)

    assert [one.id for one in later.announced] == [one.id for one in announced.sightings]
    (sighting,) = announced.sightings
    assert sighting.seen_at == MOVED_AT
    assert (await watch(made.services, announced)).announced == ()


async def test_check_for_scripts_leaves_the_change_to_the_watch(tmp_path: Path) -> None:
    """A change that a script was told of first still starts its evaluation."""
    made = bench(write_project(tmp_path, scripts={"agent": MOVING}))
    announced = Announced()
    await check(made.services)
    made.clock.move_to(MOVED_AT)
    assert (await check(made.services)).exit_code == 4
    assert (await check(made.services)).exit_code == 0
    assert len((await watch(made.services, announced)).announced) == 1


@pytest.fixture
def provider() -> Iterator[AnthropicServer]:
    """A provider that lists one model, which answers yes."""
    with anthropic_server(then=api.message("yes", model="m-1")) as server:
        yield server


def _behind(provider: AnthropicServer, folder: Path, **card: Any) -> Bench:
    """A project whose endpoint asks that provider, which tells of its life cycle."""
    provider.models = {"alias": api.model_card("m-1", **card)}
    endpoint = {
        "kind": "anthropic",
        "model": "alias",
        "api_key": "env:SOME_API_KEY",
        "base_url": provider.url,
        "owner": "team",
        "suites": ["basic"],
    }
    write_project(folder, endpoints={"agent": endpoint})
    return bench(folder, variables={"SOME_API_KEY": "key-for-tests"})


def test_retirement_is_announced_once_by_nights_and_watch(
    tmp_path: Path, provider: AnthropicServer
) -> None:
    """Its owner hears of it within the declared days, whoever notices it first."""
    at = FIRST_SLOT + timedelta(days=31)
    made = _behind(provider, tmp_path, lifecycle="deprecated", retires_at=at.isoformat())
    night(made, 1)
    assert "retires on" not in made.sent.getvalue()
    night(made, 3)
    night(made, 4)
    asyncio.run(watch(made.services, Announced()))
    said = made.sent.getvalue()
    assert said.count("agent: model m-1 retires on 2026-04-02") == 1
    assert "[note for team]" in said
    assert "$ watchkeeper run basic -e SUCCESSOR-ENDPOINT" in said


def test_retired_model_breaks_the_pair_and_both_owners_are_told(
    tmp_path: Path, provider: AnthropicServer
) -> None:
    """Nothing is called, nothing is said of the agent, and the reason is everywhere."""
    made = _behind(provider, tmp_path, lifecycle="retired")
    result = night(made, 1)
    (pair,) = result.pairs
    assert pair.verdict is None
    assert "model 'm-1' has retired, says its provider" in str(pair.error)
    assert provider.message_calls == []
    said = " ".join(made.sent.getvalue().split())
    assert "[broken for platform] Evaluation broken: agent on basic, no verdict" in said
    assert "has retired, says its provider; set another model" in said
    assert "[note for team] agent: model m-1 has retired" in said


def test_events_name_every_suite_and_keep_their_ids(tmp_path: Path) -> None:
    """One event a suite; whoever emits the same change again emits the same events."""
    made, endpoint, sighting = _changed(tmp_path)
    root = made.services.project.root
    first, again = (change_events(root, endpoint, sighting) for _ in range(2))
    assert [one.payload["suite"] for one in first] == ["basic", "other"]
    assert [one.id for one in first] == [one.id for one in again]
    assert len({one.id for one in first}) == 2
    assert {one.event for one in first} == {EVENT}
    assert {one.resource.id for one in first} == {"watchkeeper.endpoint.007"}
    elsewhere = change_events(tmp_path / "elsewhere", endpoint, sighting)
    assert {one.id for one in elsewhere}.isdisjoint({one.id for one in first})


def test_deployments_have_watch_and_trigger(tmp_path: Path) -> None:
    """The watch has its own schedule, and ``evaluate`` waits for this project's events alone."""
    folder = write_project(tmp_path / "here", watchkeeper={"schedule": {"watch": "*/15 * * * *"}})
    made = {one.flow_name: one for one in deployments_of(load_project(folder))}
    (planned,) = made["watchkeeper-watch"].schedules or []
    assert isinstance(planned.schedule, CronSchedule)
    assert planned.schedule.cron == "*/15 * * * *"
    (trigger,) = made["watchkeeper-evaluate"].triggers
    assert trigger == version_trigger(folder)
    assert isinstance(trigger, DeploymentEventTrigger)
    assert trigger.model_dump()["match"]["watchkeeper.project"] == str(folder)


@pytest.mark.slow
def test_change_starts_the_evaluation_once(tmp_path: Path, prefect: Prefect) -> None:
    """Through the real server: an event, delivered twice, becomes one run with its purpose.

    The names look like numbers on their way through Prefect's templates and stay texts.
    """
    made, endpoint, sighting = _changed(tmp_path)
    root = made.services.project.root
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(root)],
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
        _until(process, lambda: _has_deployment(prefect, root.name))
        events = change_events(root, endpoint, sighting)
        prefect.ask(lambda _: emit(events))
        prefect.ask(lambda _: emit(events))
        runs = _until(process, lambda: _ended_runs(prefect, root.name, 2))
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE_S)

    assert [run.state and run.state.type.value for run in runs] == ["COMPLETED"] * 2, said
    commits = {commit.manifest["suite"]: commit for commit in made.services.records.commits()}
    assert set(commits) == {"basic", "other"}
    for name, commit in commits.items():
        assert commit.run_id == run_id_with_token("007", name, sighting.seen_at, sighting.id)
        assert commit.manifest["purpose"] == "version_change"
        assert commit.manifest["trigger"] == "version watch"


@pytest.mark.slow
def test_same_sighting_is_the_same_run(tmp_path: Path, prefect: Prefect) -> None:
    """A flow run that is started for a change once more finds it evaluated and pays nothing."""
    made, _, sighting = _changed(tmp_path)
    root = str(made.services.project.root)
    states = [_evaluated(root, sighting.id) for _ in range(2)]
    assert [state.name for state in states] == ["Completed"] * 2
    assert len(made.services.records.commits()) == 1
    unknown = _evaluated(root, "0" * 20)
    assert (unknown.name, "has no sighting" in str(unknown.message)) == ("Misconfigured", True)


@pytest.mark.slow
def test_watch_flow_says_what_it_saw(tmp_path: Path, prefect: Prefect) -> None:
    """A change and an endpoint that cannot be asked both show in the state of the flow run."""
    folder = write_project(tmp_path)
    first = _watched(folder)
    (folder / "config/scripts/agent.yaml").write_text(
        yaml.safe_dump(script(served=[{"model": "model-v2"}]))
    )
    second = _watched(folder)
    unset = {
        "kind": "anthropic",
        "model": "m",
        "api_key": "env:NOT_SET_HERE",
        "owner": "team",
    }
    (folder / "config/endpoints.yaml").write_text(yaml.safe_dump({"endpoints": {"far": unset}}))
    third = _watched(folder)
    assert (first.name, first.message) == ("Completed", "nothing has changed")
    assert (second.name, second.message) == (
        "Changed",
        "agent: served model model-v1 → model-v2",
    )
    assert third.name == "Broken"
    assert "NOT_SET_HERE, which is not set" in str(third.message)


def _changed(folder: Path) -> tuple[Bench, Endpoint, Sighting]:
    """A project whose endpoint has just changed, and what was seen of it."""
    cases = suite([case("one")])
    made = bench(
        write_project(
            folder / "project",
            endpoints={"007": scripted_endpoint(suites=["basic", "other"])},
            suites={"basic": cases, "other": {**cases, "suite": "other"}},
            scripts={"agent": MOVING},
        )
    )
    sightings = Sightings(made.services.records.objects)
    asyncio.run(check(made.services))
    made.clock.move_to(MOVED_AT)
    result: WatchResult = asyncio.run(check(made.services))
    (seen,) = result.seen
    assert seen.sighting == sightings.last("007")
    assert seen.sighting is not None
    return made, seen.endpoint, seen.sighting


def _evaluated(root: str, sighting_id: str) -> State[Any]:
    """The state of a flow run that evaluates the changed endpoint."""

    async def started() -> State[Any]:
        return await evaluate(
            "007", "basic", root, "version_change", sighting_id, return_state=True
        )

    return asyncio.run(started())


def _watched(folder: Path) -> State[Any]:
    """The state of a flow run of the watch."""

    async def started() -> State[Any]:
        return await watch_versions(str(folder), return_state=True)

    return asyncio.run(started())


def _has_deployment(prefect: Prefect, name: str) -> bool:
    chosen = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
    found = prefect.ask(lambda client: client.read_deployments(deployment_filter=chosen))
    return len(found) >= 3 and _has_automation(prefect, name)


def _has_automation(prefect: Prefect, name: str) -> bool:
    found = prefect.ask(lambda client: client.read_automations())
    return any(name in one.name for one in found)


def _ended_runs(prefect: Prefect, name: str, count: int) -> list[FlowRun] | None:
    """The runs of ``evaluate`` once that many have ended, and none is on its way."""
    deployments = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
    flows = FlowFilter(name=FlowFilterName(any_=["watchkeeper-evaluate"]))
    found = prefect.ask(
        lambda client: client.read_flow_runs(deployment_filter=deployments, flow_filter=flows)
    )
    is_done = all(one.state is not None and one.state.is_final() for one in found)
    return found if len(found) >= count and is_done else None


def _until(process: subprocess.Popen[str], found: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if answer := found():
            return answer
        time.sleep(0.3)
    raise AssertionError(f"it did not come; the serving process: {process.poll()}")
