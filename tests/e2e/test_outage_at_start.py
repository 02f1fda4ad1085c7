"""The provider is down when a run begins: a night waits within its window, a person is told."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gateway import Gateway
from tests.flows.nights import evaluated
from tests.projects import FIRST_SLOT, Bench, bench, case, suite, write_project
from tests.servers.anthropic_replies import DEFAULT_MODEL, message
from tests.servers.anthropic_server import AnthropicServer, anthropic_server
from watchkeeper.clock import SimulatedClock
from watchkeeper.pipeline.nightly import NightResult, nightly


class OpeningClock(SimulatedClock):
    """Opens a gateway when its time has come."""

    def __init__(self, gateway: Gateway, server: AnthropicServer, opens_at: datetime) -> None:
        super().__init__(FIRST_SLOT)
        self._gateway, self._server, self._opens_at = gateway, server, opens_at

    async def sleep(self, seconds: float) -> None:
        """Moves on, and opens what is due."""
        await super().sleep(seconds)
        if self.now() >= self._opens_at:
            self._gateway.target = self._server.url


def parts(
    folder: Path, gateway: Gateway, clock: SimulatedClock, **watchkeeper: Any
) -> tuple[Bench, SimulatedClock]:
    """A project whose provider stands behind the gateway."""
    endpoint = {
        "kind": "anthropic",
        "model": DEFAULT_MODEL,
        "api_key": "env:KEY",
        "base_url": gateway.url,
        "owner": "team",
        "suites": ["basic"],
    }
    write_project(
        folder,
        watchkeeper=watchkeeper,
        endpoints={"agent": endpoint},
        suites={"basic": suite([case("a"), case("b")])},
    )
    return bench(folder, variables={"KEY": "local-key"}, clock=clock), clock


def night(made: Bench) -> NightResult:
    """The night of the first slot."""
    return asyncio.run(nightly(FIRST_SLOT, made.steps()))


def limits(wait: float) -> dict[str, float]:
    """How long an outage is waited for."""
    return {"confirm_delay_minutes": 0, "provider_wait_minutes": wait}


@pytest.mark.parametrize(
    ("watchkeeper", "down_for", "is_made"),
    [
        ({"limits": limits(20)}, timedelta(minutes=15), True),
        ({"limits": limits(20)}, timedelta(minutes=25), False),
        ({"limits": limits(0)}, timedelta(minutes=1), False),
        (
            {"limits": limits(0), "schedule": {"finish_by": "06:00"}},
            timedelta(hours=2),
            True,
        ),
        (
            {"limits": limits(0), "schedule": {"finish_by": "03:00"}},
            timedelta(hours=2),
            False,
        ),
    ],
)
def test_a_night_waits_within_its_window(
    watchkeeper: dict[str, Any], down_for: timedelta, is_made: bool, tmp_path: Path
) -> None:
    """Until ``finish_by``, else for ``provider_wait_minutes``; and says that it waits."""
    with anthropic_server(then=message("yes")) as api, Gateway().running() as gateway:
        clock = OpeningClock(gateway, api, FIRST_SLOT + down_for)
        made, _ = parts(tmp_path, gateway, clock, **watchkeeper)
        (pair,) = night(made).pairs
    assert pair.verdict is not None
    counts = pair.verdict.counts
    assert (counts.passed, counts.harness_error) == ((6, 0) if is_made else (0, 6))
    assert len(api.calls) > 0 if is_made else api.calls == []
    has_window = "schedule" in watchkeeper or watchkeeper["limits"]["provider_wait_minutes"] > 0
    assert any("asked again in 30 s" in line for line in made.told) == has_window


def test_whoever_asked_for_a_run_is_told_at_once(tmp_path: Path) -> None:
    """Nobody sits in front of a terminal for twenty minutes."""
    with Gateway().running() as gateway:
        made, clock = parts(tmp_path, gateway, SimulatedClock(FIRST_SLOT), limits=limits(20))
        verdict = evaluated(made)
    assert verdict.counts.harness_error == 6
    assert clock.now() < FIRST_SLOT + timedelta(minutes=1)
