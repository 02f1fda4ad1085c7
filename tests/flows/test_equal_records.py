"""What a run leaves behind does not depend on why it was made: by hand and at night the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from tests.flows.nights import NO, cases_of, evaluated, gates, meant, night, slot, verdict_of
from tests.projects import Bench, bench, script, scripted_endpoint, suite, write_project
from watchkeeper.domain.run import Manifest
from watchkeeper.domain.verdict import Verdict
from watchkeeper.store import tables
from watchkeeper.store.payloads import manifest_from_json

# What must differ: names, moments, why the run was made, and how long a trial waited for others.
OF_THE_RUN = {
    "latency_ms",
    "run_id",
    "trial_id",
    "started_at",
    "ended_at",
    "graded_at",
    "planned_at",
    "committed_at",
    "decided_at",
    "slot_at",
    "purpose",
    "trigger",
    "seed",
    "confirms",
    "finish_by",
}
MIXED = (
    meant(NO, "tone-0[01]"),
    meant({"faults": [{"kind": "authentication"}]}, "facts-07"),
    meant({"faults": [{"kind": "crash"}]}, "tone-02"),
    meant({"endings": [{"text": ""}]}, "tone-03"),
    {
        "rounds": [
            {"calls": [{"tool": "find", "result": ""}], "times": 2},
            {"calls": [{"tool": "read", "args": {"path": "a"}, "result": "text"}]},
        ],
        "endings": [{"text": "yes", "action": "answer", "state": {"done": True}}],
        "usage": {"input": 100, "input_growth": 50, "output": 10},
        "latency_ms": 20,
    },
)
PRICES = {
    "source": "made up",
    "models": {"model-v1": [{"valid_from": "2026-01-01", "input": 3.0, "output": 15.0}]},
}


def project(folder: Path, concurrency: int = 8) -> Path:
    """Twenty cases, an agent without chance: right, wrong, silent, crashing and unreachable."""
    folder.mkdir()
    return write_project(
        folder,
        suites={
            "basic": suite(
                cases_of({"facts": 10, "tone": 10}),
                trials=2,
                categories=gates("report", facts=0.5, tone=0.95),
            )
        },
        endpoints={"agent": scripted_endpoint(concurrency=concurrency)},
        scripts={"agent": script(*MIXED)},
        prices=PRICES,
    )


def rows(made: Bench, table: str, run_id: str) -> list[dict[str, Any]]:
    """The rows of one run, without what must differ, in an order of their own."""
    connection = made.services.history().connect([run_id])
    found = connection.execute(f"select * from {table}")
    names = [column[0] for column in found.description or ()]
    shown = [
        {name: value for name, value in zip(names, row, strict=True) if name not in OF_THE_RUN}
        for row in found.fetchall()
    ]
    connection.close()
    return sorted(shown, key=repr)


def manifest(made: Bench, run_id: str) -> Manifest:
    """What a run says about itself."""
    commit = made.services.records.commit_of(run_id)
    assert commit is not None
    return manifest_from_json(commit.manifest)


def lasting(value: Manifest | Verdict) -> dict[str, Any]:
    """The fields that do not tell when and why; exemplars without the name of their trial."""
    if isinstance(value, Verdict):
        unnamed = tuple(replace(one, trial_id=None) for one in value.exemplars)
        value = replace(value, exemplars=unnamed)
    return {
        one.name: getattr(value, one.name)
        for one in fields(value)
        if one.name not in {*OF_THE_RUN, "fresh_runs"}
    }


def both(folder: Path) -> tuple[Bench, Verdict, Bench, Verdict]:
    """The same project run by hand in one folder and at night in another."""
    by_hand, at_night = bench(project(folder / "hand")), bench(project(folder / "night"))
    return by_hand, evaluated(by_hand), at_night, verdict_of(night(at_night))


def test_rows(tmp_path: Path) -> None:
    """Attempts, transcripts and grades are the same rows, of every kind of outcome."""
    by_hand, one, at_night, other = both(tmp_path)
    for table in tables.RECORD_TABLES:
        found = rows(by_hand, table, one.run_id)
        assert found, table
        assert found == rows(at_night, table, other.run_id), table
    attempts = rows(by_hand, "attempts", one.run_id)
    assert Counter(row["outcome"] for row in attempts) == {
        "passed": 30,
        "failed": 8,
        "harness_error": 2,
    }
    assert {row["stop_reason"] for row in attempts} == {
        "answered",
        "agent_error",
        "silent",
        "not_finished",
    }
    assert len(rows(by_hand, "trials", one.run_id)) == 40


def test_the_manifest(tmp_path: Path) -> None:
    """Cases, gates, graders, hashes, limits and versions are the same; the purpose is not."""
    by_hand, one, at_night, other = both(tmp_path)
    mine, theirs = manifest(by_hand, one.run_id), manifest(at_night, other.run_id)
    assert lasting(mine) == lasting(theirs)
    assert (mine.purpose, theirs.purpose) == ("on_demand", "nightly")
    assert mine.planned_count == 40


def test_the_verdict(tmp_path: Path) -> None:
    """The first record comes to the same, whoever asked for it."""
    _, one, _, other = both(tmp_path)
    assert lasting(one) == lasting(other)
    assert one.exit_code == other.exit_code == 0


def test_against_the_same_history(tmp_path: Path) -> None:
    """A run by hand after three nights is held against the nights that a fourth would be."""
    folder = project(tmp_path / "nights")
    for number in (1, 2, 3):
        night(bench(folder), number)
    by_hand = evaluated(bench(folder, at=slot(4)))
    at_night = verdict_of(night(bench(folder), 4))
    assert by_hand.screen_runs == at_night.screen_runs
    assert by_hand.confirm_runs == at_night.confirm_runs
    assert len((*by_hand.screen_runs, *by_hand.confirm_runs)) == 3
    assert lasting(by_hand) == lasting(at_night)


def test_a_run_by_hand_is_no_baseline(tmp_path: Path) -> None:
    """However often it is run by hand, the next night is held against nights alone."""
    folder = project(tmp_path / "nights")
    for number in (1, 2):
        night(bench(folder), number)
        evaluated(bench(folder, at=slot(number)), run_id=f"by-hand-{number}")
    last = verdict_of(night(bench(folder), 3))
    assert len((*last.screen_runs, *last.confirm_runs)) == 2
    assert not [one for one in (*last.screen_runs, *last.confirm_runs) if one.startswith("by-hand")]


def test_the_order_of_trials_is_the_only_draw(tmp_path: Path) -> None:
    """Another seed tries the same trials in another order and leaves the same rows."""
    first, second = (bench(project(tmp_path / name, concurrency=1)) for name in "ab")
    one, other = evaluated(first, run_id="run-a"), evaluated(second, run_id="run-b")
    orders = []
    for made, verdict in ((first, one), (second, other)):
        connection = made.services.history().connect([verdict.run_id])
        found = connection.execute("select case_id from trials order by started_at")
        orders.append([row[0] for row in found.fetchall()])
        connection.close()
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    for table in tables.RECORD_TABLES:
        assert rows(first, table, one.run_id) == rows(second, table, other.run_id)
