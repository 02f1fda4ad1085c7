"""Single runs as flows: an evaluation on demand, and a comparison that was still owed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from prefect.client.schemas.objects import State

from tests.flows.prefect_view import Prefect
from tests.projects import FIRST_SLOT, Bench, bench, case, script, suite, write_project
from watchkeeper.domain.run import RunRequest
from watchkeeper.errors import UsageError
from watchkeeper.flows.compare import compare
from watchkeeper.flows.evaluate import evaluate
from watchkeeper.flows.handover import Handover, handing
from watchkeeper.pipeline.evaluate import evaluate as evaluate_run

RUN = "20260302T023000Z-agent-basic-00000000"


def _failing(folder: Path) -> Bench:
    """A project whose agent fails a gate that pages."""
    cases = [case(f"case-{number}") for number in range(4)]
    gated = suite(cases, categories={"facts": {"gate": 0.9, "action": "page"}})
    scripts = {"agent": script({"endings": [{"text": "no"}]})}
    return bench(write_project(folder, suites={"basic": gated}, scripts=scripts))


def _ended(made: Bench, flow: Any, **parameters: str) -> tuple[State[Any], Exception | None]:
    async def started() -> State[Any]:
        state: State[Any] = await flow(**parameters, return_state=True)
        return state

    with handing(Handover(made.services, "test")) as handover:
        return asyncio.run(started()), handover.error


def test_run_on_demand_is_judged_and_pages_nobody(tmp_path: Path, prefect: Prefect) -> None:
    """Its state says that it regressed; an owner is woken for nights and model changes."""
    made = _failing(tmp_path)

    state, error = _ended(made, evaluate, endpoint="agent", suite="basic")

    assert error is None
    assert state.name == "Regressed"
    (committed,) = [
        one for one in made.services.records.commits() if one.manifest["confirms"] is None
    ]
    assert committed.manifest["purpose"] == "on_demand"
    assert made.services.records.verdict(committed.run_id) is not None
    assert made.services.records.events() == []
    assert made.sent.getvalue() == ""


def test_version_change_pages_the_owner(tmp_path: Path, prefect: Prefect) -> None:
    """What a model change has broken is not left for the night to find."""
    made = _failing(tmp_path)
    state, _ = _ended(made, evaluate, endpoint="agent", suite="basic", purpose="version_change")
    assert state.name == "Regressed"
    assert made.sent.getvalue().startswith("[page for team]")


def test_unknown_name_is_a_bad_configuration(tmp_path: Path, prefect: Prefect) -> None:
    """Found before any call; the caller gets the error, and Prefect its text."""
    made = _failing(tmp_path)
    state, error = _ended(made, evaluate, endpoint="agnet", suite="basic")
    assert isinstance(error, UsageError)
    assert state.name == "Misconfigured"
    assert "there is no endpoint 'agnet'" in (state.message or "")


def test_owed_comparison_is_concluded_and_told_once(tmp_path: Path, prefect: Prefect) -> None:
    """A night that ended between commit and verdict is judged later, and pages once."""
    made = _failing(tmp_path)
    request = RunRequest(
        run_id=RUN,
        endpoint="agent",
        suite="basic",
        purpose="nightly",
        trigger="test",
        seed=1,
        slot_at=FIRST_SLOT,
    )
    asyncio.run(evaluate_run(request, made.steps()))
    assert made.services.records.verdict(RUN) is None

    state, _ = _ended(made, compare, run_id=RUN)

    assert state.name == "Regressed"
    assert made.sent.getvalue().startswith("[page for team]")
    shown = prefect.markdown(prefect.flow_run(RUN))
    assert "gate facts 0/12 = 0 %, needs 90 %" in shown

    told = made.sent.getvalue()
    again, _ = _ended(made, compare, run_id=RUN)
    assert again.message == state.message
    assert made.sent.getvalue() == told


def test_comparison_of_no_run_is_broken(tmp_path: Path, prefect: Prefect) -> None:
    """There is nothing to compare, and no verdict is made up."""
    made = _failing(tmp_path)
    state, _ = _ended(made, compare, run_id="20260101T000000Z-nobody")
    assert state.name == "Broken"
    assert "is not in the store" in (state.message or "")
