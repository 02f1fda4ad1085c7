"""Agents that are right, wrong or down for some cases, and nights and runs of one project."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.projects import FIRST_SLOT, Bench, bench, case
from watchkeeper.domain.ports import Notifier
from watchkeeper.domain.run import Purpose, RunRequest
from watchkeeper.domain.verdict import Verdict
from watchkeeper.pipeline.nightly import NightResult, evaluate_and_compare, nightly, shared_spending
from watchkeeper.pipeline.steps.bundle import plain_steps
from watchkeeper.pipeline.steps.work import Workshop

YES: dict[str, Any] = {"endings": [{"text": "yes"}]}
NO: dict[str, Any] = {"endings": [{"text": "no"}]}
DOWN: dict[str, Any] = {"faults": [{"kind": "authentication"}]}


def meant(behaviour: Mapping[str, Any], *cases: str, served: str | None = None) -> dict[str, Any]:
    """A behaviour for these cases only, or for one served model only."""
    match: dict[str, Any] = {"cases": list(cases)}
    if served is not None:
        match["served"] = [served]
    return {**behaviour, "match": match}


def finding_files(calls: int) -> dict[str, Any]:
    """An agent that calls one tool so often, a round a call, and then answers yes."""
    call = {"tool": "find_files", "result": "nothing here" if calls < 4 else ""}
    return {"rounds": [{"calls": [call], "times": calls}], **YES}


def cases_of(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """So many cases a category, named ``<category>-<number>``."""
    return [
        case(f"{category}-{number:02}", category)
        for category, count in counts.items()
        for number in range(count)
    ]


def gates(action: str = "block", **thresholds: float) -> dict[str, Any]:
    """Gates by category, all with one action."""
    return {name: {"gate": value, "action": action} for name, value in thresholds.items()}


def slot(number: int) -> datetime:
    """The slot of a night; ``number`` counts from 1."""
    return FIRST_SLOT + timedelta(days=number - 1)


def evaluated(made: Bench, purpose: Purpose = "on_demand", run_id: str = "run-1") -> Verdict:
    """One evaluation of the basic suite with plain steps, as the command line makes it."""
    request = RunRequest(
        run_id=run_id,
        endpoint="agent",
        suite="basic",
        purpose=purpose,
        trigger="test",
        seed=1,
    )
    shared = shared_spending(made.services, [request], is_night=False)
    steps = plain_steps(Workshop(made.services, night=shared))
    return asyncio.run(evaluate_and_compare(request, steps))


def night(made: Bench, number: int = 1) -> NightResult:
    """One whole night with plain steps."""
    made.clock.move_to(slot(number))
    return asyncio.run(nightly(slot(number), made.steps()))


def verdict_of(result: NightResult) -> Verdict:
    """The verdict of a night's only pair."""
    (pair,) = result.pairs
    assert pair.verdict is not None, pair.error
    return pair.verdict


def nights(folder: Path, first: int, last: int, notifier: Notifier | None = None) -> list[Verdict]:
    """The verdicts of several nights, each in a process of its own as far as parts go."""
    return [
        verdict_of(night(bench(folder, at=slot(number), notifier=notifier), number))
        for number in range(first, last + 1)
    ]
