"""An outage ends a run early, and one trial finds out when it is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.projects import Bench, bench, case, script, scripted_endpoint, suite, write_project
from tests.unit.rollout.stage import START, busy, refused
from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.ports import Session, TrialBrief
from watchkeeper.domain.run import RunRequest
from watchkeeper.domain.trial import Trial
from watchkeeper.errors import EndpointFault, EndpointOverloaded, EndpointUnreachable
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.rollout.breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, Breaker, Outage

PATIENCE = timedelta(minutes=10)


def down() -> EndpointFault:
    """No answer."""
    return EndpointUnreachable("nobody is there", kind="connection", is_transient=True)


def spent() -> EndpointFault:
    """Nothing more today."""
    return EndpointOverloaded("daily quota", kind="quota_exhausted", is_transient=False)


@dataclass
class Watch:
    """A breaker that opens after three trials, and what it told."""

    clock: SimulatedClock = field(default_factory=lambda: SimulatedClock(START))
    told: list[str] = field(default_factory=list)
    breaker: Breaker = field(init=False)

    def __post_init__(self) -> None:
        self.breaker = Breaker("an account", 3, self.clock, self.told.append)

    def fails(self, *trials: str, fault: EndpointFault | None = None) -> None:
        """These trials are ended by a fault."""
        for trial in trials:
            self.breaker.failed(trial, fault or down())

    def answers(self) -> None:
        """A request is answered that was sent just now."""
        with self.breaker.request():
            pass

    async def admits(self, trial: str, patience: timedelta = PATIENCE) -> Outage | None:
        """Whether a trial may begin."""
        return await self.breaker.admit(trial, patience, None)


async def test_different_trials_in_a_row_open_it() -> None:
    """The same trial again is no news, and an answer between them is the opposite of an outage."""
    watch = Watch()
    watch.fails("a", "b", "b", "a")
    assert not watch.breaker.is_open
    watch.answers()
    watch.fails("c", "d")
    assert await watch.admits("x") is None
    watch.fails("e")
    assert watch.breaker.outage is not None
    assert watch.breaker.outage.kind == "provider_down"
    assert "3 trials in a row" in watch.breaker.outage.text
    assert "nobody is there" in watch.breaker.outage.text
    (told,) = watch.told
    assert told.startswith("an account: no further trials begin")


async def test_half_of_the_latest_twenty_requests_open_it() -> None:
    """Where answers come in between, but every other request fails for good."""
    watch = Watch()
    for number in range(9):
        watch.fails(f"t{number}")
        watch.answers()
    watch.answers()
    assert not watch.breaker.is_open
    watch.fails("t9")
    assert watch.breaker.outage is not None
    assert "10 of the latest 20" in watch.breaker.outage.text


async def test_faults_of_single_requests_do_not_open_it() -> None:
    """A request that the provider refuses to read says that it is there."""
    watch = Watch()
    for number in range(40):
        fault = EndpointFault("400", kind="invalid_request", is_transient=False)
        watch.fails(f"t{number}", fault=fault)
    assert not watch.breaker.is_open


@pytest.mark.parametrize(
    ("fault", "trials", "kind"),
    [
        (spent(), 1, "quota_exhausted"),
        (refused(), 3, "authentication"),
    ],
)
async def test_what_does_not_pass_is_not_waited_for(
    fault: EndpointFault, trials: int, kind: str
) -> None:
    """A spent quota at the first word of it; nobody waits for a key that is wrong."""
    watch = Watch()
    for number in range(trials):
        assert not watch.breaker.is_open
        watch.fails(f"t{number}", fault=fault)
    outage = await watch.admits("x")
    assert outage is not None
    assert outage.kind == kind
    assert watch.clock.monotonic() == 0


async def test_a_row_of_faults_that_stay_waits_for_what_was_asked_before() -> None:
    """A refusal is fast and an answer slow; a run that is stopped for good is stopped for sure."""
    for is_answered in (True, False):
        watch = Watch()
        with contextlib.suppress(EndpointFault), watch.breaker.request():
            watch.fails("a", "b", "c", "d", fault=refused())
            assert not watch.breaker.is_open
            if not is_answered:
                raise refused()
        assert watch.breaker.is_open != is_answered


async def test_after_a_pause_one_trial_tries_and_all_go_on() -> None:
    """The others wait for what becomes of it."""
    watch = Watch()
    watch.fails("a", "b", "c")
    admitted: list[str] = []

    async def trial(name: str) -> None:
        with watch.breaker.watching(name):
            assert await watch.admits(name) is None
            admitted.append(name)
            await asyncio.sleep(0)
            if len(admitted) == 1:
                for _ in range(20):
                    await asyncio.sleep(0)
                assert admitted == [name]
                watch.answers()

    await asyncio.gather(*(trial(name) for name in "xyz"))
    assert sorted(admitted) == ["x", "y", "z"]
    assert watch.clock.monotonic() == FIRST_PAUSE_S
    assert not watch.breaker.is_open
    assert watch.told[-1] == "an account: answers again, trials go on"


async def test_pauses_grow_to_a_bound_until_patience_ends() -> None:
    """Each trial that tries in vain doubles the pause; in the end the rest is given up."""
    watch = Watch()
    watch.fails("a", "b", "c")
    tries: list[float] = []
    for number in range(100):
        name = f"t{number}"
        with watch.breaker.watching(name):
            if await watch.admits(name, timedelta(hours=2)) is not None:
                break
            tries.append(watch.clock.monotonic())
            watch.fails(name)
    assert tries == [30, 90, 210, 450, 930, *range(1530, 7200, int(LONGEST_PAUSE_S))]
    assert watch.clock.monotonic() == tries[-1]


async def test_without_patience_nobody_waits() -> None:
    """Zero minutes: the rest of the run is given up at once."""
    watch = Watch()
    watch.fails("a", "b", "c")
    assert await watch.admits("x", timedelta()) is not None
    assert watch.clock.monotonic() == 0


async def test_the_time_to_finish_goes_before_patience() -> None:
    """A night waits as long as it may, and no longer."""
    for minutes, is_admitted in ((40, True), (0.4, False)):
        watch = Watch()
        watch.fails("a", "b", "c")
        finish_by = START + timedelta(minutes=minutes)
        outage = await watch.breaker.admit("x", timedelta(), finish_by)
        assert (outage is None) == is_admitted


async def test_a_wait_that_the_provider_asked_for_is_waited() -> None:
    """Trying earlier would be refused for certain."""
    watch = Watch()
    watch.fails("a", "b", "c", fault=busy(400.0))
    assert await watch.admits("x") is None
    assert watch.clock.monotonic() == 400


async def test_one_that_tried_without_an_outcome_lets_another_try() -> None:
    """It was skipped for another reason, or ended by a bug of ours."""
    watch = Watch()
    watch.fails("a", "b", "c")
    with watch.breaker.watching("x"):
        assert await watch.admits("x") is None
        other = asyncio.create_task(watch.admits("y"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not other.done()
    assert await other is None


async def test_only_an_answer_to_a_later_request_closes_it() -> None:
    """One that was sent before tells of before."""
    watch = Watch()
    with watch.breaker.request():
        watch.fails("a", "b", "c")
    assert watch.breaker.outage is not None
    watch.answers()
    assert not watch.breaker.is_open


class Provider:
    """A scripted agent behind a provider that is down from one trial on, for some time."""

    def __init__(self, real: Any, clock: SimulatedClock, after: int, for_s: float) -> None:
        self._real = real
        self._clock = clock
        self._after = after
        self._for_s = for_s
        self.opened = 0
        self.since: float | None = None

    async def open(self, brief: TrialBrief) -> Session:
        """Opens a trial, or fails."""
        self.opened += 1
        now = self._clock.monotonic()
        if self.since is None and self.opened > self._after:
            self.since = now
        if self.since is not None and now < self.since + self._for_s:
            raise down()
        return await self._real.open(brief)  # type: ignore[no-any-return]


def project(folder: Path, **limits: Any) -> Bench:
    """Forty trials of an agent that answers yes."""
    write_project(
        folder,
        watchkeeper={"limits": {"confirm_delay_minutes": 0, **limits}},
        endpoints={"agent": scripted_endpoint(concurrency=4)},
        suites={"basic": suite([case(f"case-{n}") for n in range(40)], trials=1)},
        scripts={"agent": script()},
    )
    return bench(folder)


async def run(parts: Bench, after: int, for_s: float) -> tuple[list[Trial], Provider, Steps]:
    """The run with the outage."""
    steps = parts.steps()
    asked = RunRequest("run-1", "agent", "basic", "on_demand", "test", 7)
    plan = await steps.plan_run(asked)
    one = steps.workshop.runs["run-1"]
    provider = Provider(one.runner.maker.adapter, parts.clock, after, for_s)
    one.runner.maker = replace(one.runner.maker, adapter=provider)  # type: ignore[arg-type]
    trials = await steps.run_shard("run-1", plan.trials)
    await steps.workshop.close("run-1", is_committed=False)
    return list(trials), provider, steps


async def test_an_outage_that_stays_stops_the_run(tmp_path: Path) -> None:
    """What was not begun is skipped, with the reason, and costs no call."""
    trials, provider, _ = await run(project(tmp_path, provider_wait_minutes=0), 10, 1e9)
    counted = Counter((one.attempt, one.status, one.error_kind) for one in trials)
    failed = counted.pop((1, "harness_error", "connection"))
    assert 8 <= failed <= 8 + 3
    assert counted == {
        (1, "completed", None): 10,
        (1, "skipped", "provider_down"): 30 - failed,
    }
    assert provider.opened == 10 + failed
    errors = {one.error for one in trials if one.status == "skipped"}
    assert errors == {"8 trials in a row failed without an answer; the last: nobody is there"}


async def test_an_outage_that_passes_is_waited_for(tmp_path: Path) -> None:
    """The run goes on by itself, and those that failed first have their second attempt."""
    parts = project(tmp_path)
    trials, _, _ = await run(parts, 10, 200.0)
    last = {one.trial_id: one for one in trials}
    assert len(last) == 40
    assert {one.status for one in last.values()} == {"completed"}
    assert 8 <= sum(one.status == "harness_error" for one in trials) <= 8 + 3 + 3
    assert 200 < parts.clock.monotonic() < 600
    assert sum("answers again" in line for line in parts.told) == 1


async def test_a_run_started_again_makes_what_an_outage_skipped(tmp_path: Path) -> None:
    """Until it is committed: what was finished is not made again, every trial ends as one."""
    await run(project(tmp_path, provider_wait_minutes=0), 10, 1e9)
    trials, provider, _ = await run(bench(tmp_path), 1000, 0.0)
    assert provider.opened == 30
    made = [one for one in trials if one.status == "completed" and one.attempt == 2]
    assert len(made) == 30
