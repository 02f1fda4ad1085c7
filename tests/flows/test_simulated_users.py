"""A model plays the user in real runs: what is stored of it, and who pays, and who failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.flows.nights import evaluated, night, verdict_of
from tests.projects import Bench, bench, case, script, scripted_endpoint, suite, write_project
from watchkeeper.store.payloads import manifest_from_json

PRICES = {
    "source": "made up",
    "models": {
        "model-v1": [{"valid_from": "2026-01-01", "input": 1.0, "output": 1.0}],
        "user-v1": [{"valid_from": "2026-01-01", "input": 10.0, "output": 10.0}],
    },
}
TOKENS = {"usage": {"input": 100, "output": 10}}


def project(folder: Path, user: dict[str, Any], served: str = "user-v1") -> Path:
    """One case with a simulated user and one without, each tried three times."""
    talked = case("talked", user={"simulator": "grumpy", "goal": "a refund"})
    scripts = {
        "agent": script({"endings": [{"text": "yes"}], **TOKENS}),
        "user": {"served": [{"model": served}], "behaviours": [{**TOKENS, **user}]},
    }
    write_project(
        folder,
        suites={"basic": suite([talked, case("plain")])},
        endpoints={"agent": scripted_endpoint()},
        scripts=scripts,
        prices=PRICES,
    )
    (folder / "user.md").write_text("You are in a hurry.")
    simulator = {
        "kind": "scripted",
        "model": "user",
        "script": "config/scripts/user.yaml",
        "prompt": "user.md",
        "max_turns": 2,
    }
    text = yaml.safe_dump({"simulators": {"grumpy": simulator}})
    (folder / "config/simulators.yaml").write_text(text)
    return folder


def rows(made: Bench, statement: str) -> list[tuple[Any, ...]]:
    """What a question to the store's history brings."""
    connection = made.services.history().connect()
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_agent_and_user_are_counted_apart(tmp_path: Path) -> None:
    """Rounds, tokens and dollars of the agent are those of the agent; the user has its own."""
    made = bench(project(tmp_path, {"endings": [{"text": "and?"}]}))
    verdict = evaluated(made)
    assert (verdict.counts.passed, verdict.counts.planned) == (6, 6)
    found = rows(
        made,
        "select case_id, round_count, round(cost_usd * 1e6), simulator, simulator_round_count, "
        "simulator_tokens, round(simulator_cost_usd * 1e6) from trials order by 1, trial_index",
    )
    assert (
        found
        == [("plain", 1, 110, None, None, None, None)] * 3
        + [("talked", 3, 330, "grumpy", 2, 220, 2200)] * 3
    )
    ((said,),) = rows(
        made, "select simulator_rounds from transcripts where case_id = 'talked' limit 1"
    )
    assert [(one["text"], one["served_model"]) for one in said] == [("and?", "user-v1")] * 2


def test_what_was_served_for_the_user_is_part_of_the_run(tmp_path: Path) -> None:
    """And another model for it is a change that heads the verdict."""
    user = {"endings": [{"text": "[END]"}]}
    project(tmp_path, user)
    for number in (1, 2, 3):
        made = bench(tmp_path)
        verdict = verdict_of(night(made, number))
    manifest = manifest_from_json(made.services.history().commits[-1].manifest)
    assert [(one.name, one.resolved_model) for one in manifest.simulators] == [
        ("grumpy", "user-v1")
    ]
    assert not [one for one in verdict.changes if one.what == "simulated users"]
    project(tmp_path, user, served="user-v2")
    changed = verdict_of(night(bench(tmp_path), 4))
    assert [one.what for one in changed.changes] == ["simulated users"]
    assert "user-v2" in changed.changes[0].after


def test_a_broken_user_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    """Its trials have no outcome; those of other cases do."""
    user = {"endings": [{"text": ""}]}
    made = bench(project(tmp_path, user))
    verdict = evaluated(made)
    assert (verdict.counts.passed, verdict.counts.harness_error) == (3, 3)
    kinds = rows(made, "select distinct error_kind, attempt from trials where case_id = 'talked'")
    assert kinds == [("simulator_silent", 2)]


def test_the_user_is_paid_from_the_runs_budget(tmp_path: Path) -> None:
    """Nobody else pays for it."""
    folder = project(tmp_path, {"endings": [{"text": "and?"}]})
    endpoint = scripted_endpoint(run_budget_usd=0.004, concurrency=1)
    text = yaml.safe_dump({"endpoints": {"agent": endpoint}})
    (folder / "config/endpoints.yaml").write_text(text)
    made = bench(folder)
    verdict = evaluated(made)
    assert verdict.counts.skipped > 0
    ((spent,),) = rows(made, "select sum(cost_usd + coalesce(simulator_cost_usd, 0)) from attempts")
    assert spent <= 0.004
