"""A provider that refuses some requests costs time; it costs no trial and fails none."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.projects import (
    FIRST_SLOT,
    Bench,
    bench,
    case,
    suite,
    write_project,
)
from tests.servers import anthropic_replies as api
from tests.servers.anthropic_server import AnthropicServer, Call, anthropic_server
from tests.servers.loopback import Reply
from watchkeeper.clock import SimulatedClock, SystemClock
from watchkeeper.domain.ports import Clock
from watchkeeper.domain.run import RunRequest
from watchkeeper.domain.trial import Trial
from watchkeeper.domain.verdict import Verdict
from watchkeeper.pipeline.nightly import evaluate_and_compare

KEY = "key-of-the-test"
TRIALS = 200
ROUNDS = 3
CONCURRENCY = 20
LATENCY_S = 0.05
RETRY_AFTER_S = 0.2
REQUEST = RunRequest("run-1", "agent", "basic", "ci", "test", 7)


@dataclass(frozen=True)
class Made:
    """The attempts of a run, and how long they took."""

    trials: list[Trial]
    seconds: float

    @property
    def counting(self) -> list[Trial]:
        """The attempt of each trial that counts."""
        return list({one.trial_id: one for one in self.trials}.values())


def project(folder: Path, url: str, *, clock: Clock | None = None, **more: Any) -> Bench:
    """A project whose agent looks two files up before it answers."""
    limits = {"confirm_delay_minutes": 0, "provider_wait_minutes": 0, **more.pop("limits", {})}
    tools = {"find": {"returns": "a.txt"}}
    cases = [case(f"case-{number:03}", tools=tools) for number in range(TRIALS)]
    endpoint = {
        "kind": "anthropic",
        "model": api.DEFAULT_MODEL,
        "api_key": "env:SOME_API_KEY",
        "base_url": url,
        "owner": "team",
        "concurrency": CONCURRENCY,
        "suites": ["basic"],
        **more,
    }
    write_project(
        folder,
        watchkeeper={"limits": limits},
        endpoints={"agent": endpoint},
        suites={"basic": suite(cases, trials=1)},
    )
    return bench(folder, variables={"SOME_API_KEY": KEY}, clock=clock or SystemClock())


def agent(call: Call) -> Reply:
    """Two rounds with a tool, and then the answer."""
    if len(call.body["messages"]) < 2 * ROUNDS - 1:
        return api.tool_use("find", {"in": call.last_text[:80]}).after(LATENCY_S)
    return api.message("yes").after(LATENCY_S)


class Refusing:
    """The same agent behind a provider that refuses a share of the requests at random."""

    def __init__(self, seed: int, latency_s: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.latency_s = latency_s
        self.refused: Counter[str] = Counter()

    def __call__(self, call: Call) -> Reply:
        """Refuses, or lets the agent answer."""
        draw = self.rng.random()
        for name, share, reply in (
            ("429, asked to wait", 0.05, api.rate_limited(RETRY_AFTER_S)),
            ("429", 0.05, api.rate_limited()),
            ("529", 0.05, api.overloaded()),
        ):
            draw -= share
            if draw < 0:
                self.refused[name] += 1
                return reply.after(self.latency_s)
        return agent(call)


async def run(parts: Bench) -> Made:
    """All trials of the suite, in one shard."""
    steps = parts.steps()
    started = time.monotonic()
    plan = await steps.plan_run(REQUEST)
    try:
        trials = await steps.run_shard("run-1", plan.trials)
    finally:
        await steps.workshop.close("run-1", is_committed=False)
    return Made(list(trials), time.monotonic() - started)


async def test_refusals_lose_no_trial_and_fail_none(tmp_path: Path) -> None:
    """One request in seven is refused, and every trial ends as it would have without.

    A refused request is no round, and no trial is charged for the time that it waited.
    """
    with anthropic_server(agent) as server:
        plain = await run(project(tmp_path / "plain", server.url))
    assert len(plain.trials) == TRIALS
    refusing = Refusing(seed=4)
    with anthropic_server(refusing) as server:
        refused = await run(project(tmp_path / "refused", server.url))
        asked = len(server.message_calls)
        paid = sum(server.paid().values())
    counting = refused.counting
    assert len(counting) == TRIALS
    assert {(one.status, one.stop_reason) for one in counting} == {("completed", "answered")}
    assert {len(one.trajectory.rounds) for one in counting} == {ROUNDS}
    assert all(count > 10 for count in refusing.refused.values()), refusing.refused
    assert asked == paid + sum(refusing.refused.values())
    assert paid == sum(len(one.trajectory.rounds) for one in refused.trials)
    lost = [one for one in refused.trials if one.status == "harness_error"]
    assert sum(one.retry_count + (one in lost) for one in refused.trials) == asked - paid
    for one in counting:
        assert one.latency_ms is not None
        assert one.waited_ms <= one.latency_ms
        assert one.waited_ms >= 250 * one.retry_count
        took = [each.latency_ms or 0 for each in one.trajectory.rounds]
        assert all(2_000 > each >= LATENCY_S * 1000 for each in took)
    assert refused.seconds < 3 * plain.seconds + 5


async def test_a_wait_that_no_trial_has_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    """The provider asks for an hour: nobody waits for it, nobody is graded for it."""
    with anthropic_server(then=api.rate_limited(3600)) as server:
        made = await run(project(tmp_path, server.url))
        asked = len(server.message_calls)
    counted = Counter((one.status, one.error_kind) for one in made.trials)
    assert sum(counted.values()) == TRIALS
    assert set(counted) == {("harness_error", "rate_limited"), ("skipped", "rate_limited")}
    assert asked <= 2 * CONCURRENCY
    assert made.seconds < 10


def verdict(folder: Path, server: AnthropicServer) -> Verdict:
    """A whole evaluation, as the command line makes it."""
    steps = project(folder, server.url).steps()
    return asyncio.run(evaluate_and_compare(REQUEST, steps))


def test_a_provider_that_goes_down_is_a_broken_evaluation(tmp_path: Path) -> None:
    """It ends early and says why; nobody is told that the agent got worse."""

    def script(call: Call) -> Reply:
        return agent(call) if call.number < 100 else api.dropped()

    with anthropic_server(script) as server:
        concluded = verdict(tmp_path, server)
        asked = len(server.message_calls)
    assert concluded.exit_code == 3
    assert concluded.broken is not None
    assert concluded.broken.startswith("the run was stopped because the provider was down: only ")
    assert " provider_down" in concluded.broken
    assert concluded.counts.failed == 0
    assert concluded.counts.skipped > TRIALS / 2
    assert concluded.counts.harness_error < 2 * CONCURRENCY
    assert asked < 100 + 4 * 2 * CONCURRENCY


def test_a_spent_quota_ends_the_run_at_once(tmp_path: Path) -> None:
    """It is told from a passing limit: what was in flight is all that is asked."""
    quota = api.failed(429, "rate_limit_error", "You exceeded your daily quota.")
    with anthropic_server(then=quota) as server:
        concluded = verdict(tmp_path, server)
        asked = len(server.message_calls)
    assert asked <= CONCURRENCY
    assert concluded.exit_code == 3
    assert concluded.broken is not None
    assert "because the account's quota or credit is spent" in concluded.broken


async def test_an_outage_that_passes_costs_only_time(tmp_path: Path) -> None:
    """Ten minutes without an answer in the middle of a night: the run waits, and is whole."""
    clock = SimulatedClock(FIRST_SLOT)

    def script(call: Call) -> Reply:
        if call.number > 100 and clock.monotonic() < 600:
            return api.overloaded()
        return agent(call)

    with anthropic_server(script) as server:
        parts = project(tmp_path, server.url, limits={"provider_wait_minutes": 60}, clock=clock)
        made = await run(parts)
    assert {(one.status, one.stop_reason) for one in made.counting} == {("completed", "answered")}
    assert len(made.counting) == TRIALS
    assert any("answers again" in line for line in parts.told)
