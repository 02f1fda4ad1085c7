"""Small project folders for tests, written as YAML the way a team would write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.ports import Clock, Notifier
from watchkeeper.loading.project import load_project
from watchkeeper.pipeline.steps.bundle import Steps, plain_steps
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.settings import Settings
from watchkeeper.wiring import Services, build_services

FIRST_SLOT = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)

WATCHKEEPER: dict[str, Any] = {
    "store": "file:./store",
    "timezone": "UTC",
    "platform_owner": "platform",
    "limits": {"confirm_delay_minutes": 0, "provider_wait_minutes": 0},
}
OWNERS: dict[str, Any] = {"team": {}, "platform": {}}


def scripted_endpoint(**more: Any) -> dict[str, Any]:
    """An endpoint whose agent plays config/scripts/agent.yaml."""
    return {
        "kind": "scripted",
        "model": "alias",
        "script": "config/scripts/agent.yaml",
        "owner": "team",
        "suites": ["basic"],
        **more,
    }


def case(name: str, category: str = "facts", **more: Any) -> dict[str, Any]:
    """A case that passes when the answer holds ``yes``."""
    return {
        "id": name,
        "category": category,
        "input": f"question {name}",
        "expect": {"must_mention": "yes"},
        **more,
    }


def suite(cases: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A suite named ``basic``; every category it uses is gated at 0.5 and only reported."""
    categories = {one["category"]: {"gate": 0.5, "action": "report"} for one in cases}
    return {
        "suite": "basic",
        "claim": "Answers yes.",
        "owner": "team",
        "trials": 3,
        "categories": categories,
        "cases": cases,
        **more,
    }


def script(*behaviours: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A script whose model is ``model-v1``; without behaviours the agent always answers yes."""
    return {
        "served": [{"model": "model-v1"}],
        "behaviours": [*behaviours] or [{"endings": [{"text": "yes"}]}],
        **more,
    }


def write_project(
    folder: Path,
    *,
    watchkeeper: Mapping[str, Any] | None = None,
    owners: Mapping[str, Any] | None = None,
    endpoints: Mapping[str, Any] | None = None,
    suites: Mapping[str, Any] | None = None,
    scripts: Mapping[str, Any] | None = None,
    prices: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a project and returns its folder; what is not given is small and valid."""
    config = folder / "config"
    (config / "suites").mkdir(parents=True, exist_ok=True)
    (config / "scripts").mkdir(exist_ok=True)
    four = [case(f"case-{number}") for number in range(4)]
    files: dict[str, Any] = {
        "watchkeeper.yaml": {**WATCHKEEPER, **(watchkeeper or {})},
        "owners.yaml": owners or OWNERS,
        "endpoints.yaml": {"endpoints": endpoints or {"agent": scripted_endpoint()}},
    }
    if prices is not None:
        files["prices.yaml"] = prices
    for name, value in (suites or {"basic": suite(four)}).items():
        files[f"suites/{name}.yaml"] = value
    for name, value in (scripts or {"agent": script()}).items():
        files[f"scripts/{name}.yaml"] = value
    for name, value in files.items():
        (config / name).write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    return folder


@dataclass
class Bench:
    """A project's real parts on a simulated clock, with what was told and sent."""

    services: Services
    clock: SimulatedClock
    sent: StringIO
    told: list[str]

    def steps(self) -> Steps:
        """Fresh plain steps, as a new process would have them."""
        return plain_steps(Workshop(self.services))


def bench(
    folder: Path,
    *,
    at: datetime = FIRST_SLOT,
    notifier: Notifier | None = None,
    variables: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Bench:
    """The parts of the project in a folder.

    Messages go to a text, unless a notifier is given or the project itself names Slack.
    """
    simulated = SimulatedClock(at)
    sent = StringIO()
    told: list[str] = []
    services = build_services(
        load_project(folder),
        Settings(project=folder, store=None, variables=dict(variables or {})),
        clock=clock or simulated,
        notifier=notifier,
        out=sent,
        tell=told.append,
    )
    return Bench(services, simulated, sent, told)
