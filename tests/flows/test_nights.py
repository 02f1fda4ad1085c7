"""A night as Prefect shows it: states, subflows, tasks and the summary, all from the verdicts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.flows.prefect_view import Prefect
from tests.projects import bench, case, script, suite, write_project
from watchkeeper.errors import UsageError
from watchkeeper.flows.nightly import run_nightly
from watchkeeper.notifiers.headline import headline, status

SECRET = "sesame-open-0815"
GATED = {"facts": {"gate": 0.9, "action": "page"}}
AGENTS: dict[str, dict[str, Any]] = {
    "good": {"endings": [{"text": "yes"}]},
    "regressed": {"endings": [{"text": "no"}]},
    "broken": {"faults": [{"kind": "authentication"}]},
}


def _project(folder: Path, agent: str, *, shard_trials: int = 5) -> Path:
    cases = [case(f"case-{number}") for number in range(4)]
    return write_project(
        folder,
        watchkeeper={"limits": {"confirm_delay_minutes": 0, "shard_trials": shard_trials}},
        suites={"basic": suite(cases, categories=GATED)},
        scripts={"agent": script(AGENTS[agent])},
    )


@pytest.mark.parametrize(
    ("agent", "exit_code", "state_type", "state_name"),
    [
        ("good", 0, "COMPLETED", "Completed"),
        ("regressed", 1, "FAILED", "Regressed"),
        ("broken", 3, "FAILED", "Broken"),
    ],
)
def test_state_agrees_with_the_exit_code(
    tmp_path: Path,
    prefect: Prefect,
    agent: str,
    exit_code: int,
    state_type: str,
    state_name: str,
) -> None:
    """Night and pair end in the state that the verdict's exit code stands for."""
    slot_at = datetime(2026, 3, 3 + exit_code, 2, 30, tzinfo=UTC)
    made = bench(_project(tmp_path, agent), at=slot_at)

    result = run_nightly(None, slot_at.isoformat(), services=made.services)

    assert result.exit_code == exit_code
    night = prefect.flow_run(f"night of {slot_at.isoformat()}")
    (pair,) = prefect.subflow_runs(night)
    assert pair.name == "agent × basic"
    for run in (night, pair):
        assert run.state is not None
        assert (run.state.type.value, run.state.name) == (state_type, state_name)
    (concluded,) = result.pairs
    assert concluded.verdict is not None
    assert pair.state is not None
    assert pair.state.message == headline(concluded.verdict)


def test_summary_says_what_the_verdict_says(tmp_path: Path, prefect: Prefect) -> None:
    """The table has a line for every pair with the numbers of its verdict, and its incident."""
    slot_at = datetime(2026, 4, 1, 2, 30, tzinfo=UTC)
    made = bench(_project(tmp_path, "regressed"), at=slot_at)

    result = run_nightly(None, slot_at.isoformat(), services=made.services)

    shown = prefect.markdown(prefect.flow_run(f"night of {slot_at.isoformat()}"))
    (pair,) = result.pairs
    verdict = pair.verdict
    assert verdict is not None
    percent, line = prefect.progress(prefect.pair_run("agent × basic", verdict.run_id))
    assert percent == 100
    assert _plain(line).startswith("agent × basic: 12/12 trials, ")
    (incident,) = {event["incident_id"] for event in made.services.records.events()}
    (row,) = [_plain(line) for line in shown.splitlines() if line.startswith("| agent")]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "agent",
        "basic",
        status(verdict),
        "0/12 = 0 %",
        "12/12 = 100 %",
        "not compared",
        incident,
        verdict.run_id,
    ]
    assert headline(verdict) in _plain(shown)


def test_a_task_is_a_shard_and_never_a_trial(tmp_path: Path, prefect: Prefect) -> None:
    """12 trials in shards of 5 are three tasks of trials, each named after its place."""
    slot_at = datetime(2026, 4, 2, 2, 30, tzinfo=UTC)
    made = bench(_project(tmp_path, "good"), at=slot_at)

    run_nightly(None, slot_at.isoformat(), services=made.services)

    (pair,) = prefect.subflow_runs(prefect.flow_run(f"night of {slot_at.isoformat()}"))
    names = prefect.task_run_names(pair, at_least=9)
    shards = [f"agent × basic: shard {number}" for number in (1, 2, 3)]
    assert sorted(name for name in names if re.fullmatch(r".*shard \d+", name)) == shards
    assert f"{shards[2]}, grades" in names
    assert {"agent × basic: plan", "agent × basic: commit", "agent × basic: verdict"} < set(names)


def test_no_secret_reaches_prefect(tmp_path: Path, prefect: Prefect) -> None:
    """Parameters, states and summary hold no value of a variable that holds a secret."""
    slot_at = datetime(2026, 4, 3, 2, 30, tzinfo=UTC)
    folder = _project(tmp_path, "good")
    made = bench(folder, at=slot_at, variables={"AGENT_TOKEN": SECRET})
    (folder / "config/scripts/agent.yaml").write_text(f"served: {SECRET}\n")  # quoted by the error

    result = run_nightly(None, slot_at.isoformat(), services=made.services)

    (pair,) = result.pairs
    assert pair.error is not None
    assert SECRET in str(pair.error)
    night = prefect.flow_run(f"night of {slot_at.isoformat()}")
    runs = [night, *prefect.subflow_runs(night)]
    tasks = [one for run in runs for one in prefect.task_runs(run, at_least=1)]
    seen = [*(one.model_dump_json() for one in (*runs, *tasks)), prefect.markdown(night)]
    assert not [text for text in seen if SECRET in text]
    assert any("[secret AGENT_TOKEN]" in text for text in seen)


def test_slot_in_the_future_is_refused_before_prefect_is_started(tmp_path: Path) -> None:
    """Its runs would be taken for those of the night that is still to come."""
    made = bench(_project(tmp_path, "good"))
    later = made.clock.now() + timedelta(days=1)
    with pytest.raises(UsageError, match="future"):
        run_nightly(None, later.isoformat(), services=made.services)


def _plain(markdown: str) -> str:
    """Markdown text without its escapes."""
    return re.sub(r"\\(?=[^\w\s])", "", markdown)
