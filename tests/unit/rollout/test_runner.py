"""Planned trials of a run become records, one for each, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

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
from watchkeeper.domain.ports import Session, TrialBrief
from watchkeeper.domain.run import RunRequest
from watchkeeper.domain.trial import Trial
from watchkeeper.pipeline.steps.work import OpenRun
from watchkeeper.rollout.attempt import MAX_ERROR_CHARACTERS
from watchkeeper.rollout.journal import read_journal, read_transcript

PRICES = {
    "source": "test",
    "models": {"model-v1": [{"valid_from": "2026-01-01", "input": 1_000_000, "output": 0}]},
}
NO_BREAKER = {"breaker_trials": 100}
A_CALL = {"calls": [{"tool": "find", "result": "a.txt"}]}


def request(**more: Any) -> RunRequest:
    """A run of the whole suite."""
    return RunRequest("run-1", "agent", "basic", "on_demand", "test", 7, **more)


def project(
    folder: Path,
    *behaviours: Mapping[str, Any],
    endpoint: Mapping[str, Any] | None = None,
    cases: int = 4,
    more: Mapping[str, Any] | None = None,
    variables: Mapping[str, str] | None = None,
    prices: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
) -> Bench:
    """A project whose agent behaves so."""
    write_project(
        folder,
        watchkeeper={"limits": {"confirm_delay_minutes": 0, **(limits or {})}},
        endpoints={"agent": scripted_endpoint(**(endpoint or {}))},
        suites={"basic": suite([case(f"case-{n}") for n in range(cases)], **(more or {}))},
        scripts={"agent": script(*behaviours)},
        prices=prices,
    )
    return bench(folder, variables=variables)


async def run(parts: Bench, asked: RunRequest | None = None) -> list[Trial]:
    """The attempts of a whole run, in the order in which they were written down."""
    steps = parts.steps()
    plan = await steps.plan_run(asked or request())
    try:
        return list(await steps.run_shard(plan.manifest.run_id, plan.trials))
    finally:
        await steps.workshop.close(plan.manifest.run_id, is_committed=False)


def lines(folder: Path) -> list[dict[str, Any]]:
    """What the journal of the run holds, with what was said."""
    path = folder / ".watchkeeper/runs/run-1/trials.jsonl"
    return [
        {**line, "transcript": read_transcript(path, line)} if "said" in line else line
        for line in read_journal(path)
    ]


def written(folder: Path) -> str:
    """Every byte that the run has written down."""
    return "".join(
        path.read_text() for path in sorted(folder.glob(".watchkeeper/runs/run-1/*.jsonl"))
    )


async def test_every_planned_trial_has_one_record(tmp_path: Path) -> None:
    """Case by case and index by index, written down as they were returned."""
    trials = await run(project(tmp_path))
    counted = Counter((one.case_id, one.index, one.attempt) for one in trials)
    assert counted == Counter((f"case-{n}", index, 1) for n in range(4) for index in range(3))
    assert {one.status for one in trials} == {"completed"}
    assert {line["trial"]["trial_id"] for line in lines(tmp_path)} == {
        one.trial_id for one in trials
    }


async def test_a_passing_fault_is_attempted_once_more_for_every_case_alike(tmp_path: Path) -> None:
    """No case is given up earlier than another, none gets a third attempt."""
    trials = await run(
        project(
            tmp_path,
            {"faults": [{"kind": "overloaded"}]},
            endpoint={"call_retries": 2},
            limits=NO_BREAKER,
        )
    )
    attempts = Counter((one.case_id, one.index, one.attempt) for one in trials)
    assert attempts == Counter(
        (f"case-{n}", index, attempt) for n in range(4) for index in range(3) for attempt in (1, 2)
    )
    assert {(one.status, one.error_kind, one.retry_count) for one in trials} == {
        ("harness_error", "overloaded", 2)
    }
    assert [line["again"] for line in lines(tmp_path)] == [True] * 12 + [False] * 12


async def test_a_second_attempt_may_succeed(tmp_path: Path) -> None:
    """It draws its own chances; where it succeeds both attempts are kept."""
    parts = project(
        tmp_path,
        {"faults": [{"kind": "rate_limited", "chance": 0.5}], "endings": [{"text": "yes"}]},
        endpoint={"call_retries": 0},
        cases=10,
    )
    trials = await run(parts)
    first = {one.trial_id: one for one in trials if one.attempt == 1}
    second = {one.trial_id: one for one in trials if one.attempt == 2}
    assert len(first) == 30
    assert set(second) == {key for key, one in first.items() if one.status == "harness_error"}
    assert {one.status for one in second.values()} == {"completed", "harness_error"}


async def test_a_fault_that_stays_is_attempted_once(tmp_path: Path) -> None:
    """A wrong key costs one call a trial, not two."""
    parts = project(tmp_path, {"faults": [{"kind": "authentication"}]}, limits=NO_BREAKER)
    trials = await run(parts)
    assert [(one.attempt, one.status, one.error_kind) for one in trials] == [
        (1, "harness_error", "authentication")
    ] * 12
    assert not any(line["again"] for line in lines(tmp_path))


async def test_an_agent_that_crashes_has_failed(tmp_path: Path) -> None:
    """Its own code raised: that is a completed trial and no excuse, and is not tried again."""
    trials = await run(project(tmp_path, {"faults": [{"kind": "crash"}]}))
    assert [(one.attempt, one.status, one.stop_reason) for one in trials] == [
        (1, "completed", "agent_error")
    ] * 12
    assert {one.error for one in trials} == {"the script lets the agent crash"}


async def test_an_agent_without_a_behaviour_has_failed(tmp_path: Path) -> None:
    """The record says what is missing in the script."""
    trials = await run(project(tmp_path, {"match": {"cases": ["another"]}}))
    assert {(one.status, one.stop_reason) for one in trials} == {("completed", "agent_error")}
    assert "no behaviour for case 'case-0'" in " ".join(one.error or "" for one in trials)


async def test_limits_end_trials_as_what_they_were(tmp_path: Path) -> None:
    """Rounds, tokens, dollars and seconds each have their own stop reason; all are completed."""
    asks = {"rounds": [{**A_CALL, "times": 9}], "usage": {"input": 1}, "latency_ms": 1000}
    for number, (limits, stop) in enumerate(
        [
            ({"rounds": 5}, "round_limit"),
            ({"tokens": 5}, "token_limit"),
            ({"cost_usd": 5}, "cost_limit"),
            ({"seconds": 5}, "time_limit"),
            ({"rounds": 10, "tokens": 10, "cost_usd": 10, "seconds": 11}, "answered"),
        ]
    ):
        parts = project(
            tmp_path / str(number),
            {**asks, "endings": [{"text": "yes"}]},
            endpoint={"concurrency": 1},  # trials share the simulated clock
            more={"trial_limits": limits},
            prices=PRICES,
            cases=1,
        )
        trials = await run(parts)
        assert {(one.status, one.stop_reason) for one in trials} == {("completed", stop)}


async def test_no_trial_starts_after_the_time_to_finish(tmp_path: Path) -> None:
    """Those that were not begun are skipped, with the reason; those begun are finished."""
    parts = project(
        tmp_path, {"latency_ms": 60_000, "endings": [{"text": "yes"}]}, endpoint={"concurrency": 1}
    )
    late = FIRST_SLOT + timedelta(minutes=5)
    trials = await run(parts, request(finish_by=late))
    assert Counter((one.status, one.error_kind) for one in trials) == {
        ("completed", None): 5,
        ("skipped", "finish_by"): 7,
    }
    assert {one.cost_usd for one in trials if one.status == "skipped"} == {0.0}


async def test_a_budget_skips_what_it_cannot_pay(tmp_path: Path) -> None:
    """Skipped is neither passed nor failed; the reason names the bound."""
    tells = {"usage": {"input": 1}, "endings": [{"text": "yes"}]}
    for bound, kind in (({"run_budget_usd": 5}, "run_budget"), ({"run_token_cap": 5}, "token_cap")):
        parts = project(tmp_path / kind, tells, endpoint=bound, prices=PRICES)
        trials = await run(parts)
        assert Counter((one.status, one.error_kind) for one in trials) == {
            ("completed", None): 5,
            ("skipped", kind): 7,
        }


async def test_a_budget_that_is_used_up_leaves_the_first_attempt(tmp_path: Path) -> None:
    """A second attempt that cannot be paid is no record; the harness error stays."""
    parts = project(
        tmp_path,
        {"match": {"cases": ["case-0"]}, "faults": [{"kind": "overloaded"}]},
        {"usage": {"input": 1}, "endings": [{"text": "yes"}]},
        endpoint={"run_budget_usd": 9, "call_retries": 0},
        prices=PRICES,
    )
    trials = await run(parts)
    assert Counter((one.status, one.attempt) for one in trials) == {
        ("completed", 1): 9,
        ("harness_error", 1): 3,
    }


class Broken:
    """An adapter with a bug of its own."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.closed = 0

    async def open(self, brief: TrialBrief) -> Session:
        """Fails, or gives a session that does."""
        if self.where == "open":
            raise ZeroDivisionError("our own bug")
        return self  # type: ignore[return-value]

    async def step(self, observation: object) -> object:
        """Fails."""
        raise KeyError("ours too")

    async def close(self) -> None:
        """Counts."""
        self.closed += 1


async def opened(parts: Bench) -> tuple[OpenRun, Any]:
    """A run that is ready for work, with its steps."""
    steps = parts.steps()
    plan = await steps.plan_run(request())
    return steps.workshop.runs[plan.manifest.run_id], steps


async def test_a_bug_of_ours_is_a_harness_error_and_no_end_of_the_run(tmp_path: Path) -> None:
    """The agent is not blamed, nothing is attempted again, every session is closed."""
    for where, error, closed in (
        ("open", "ZeroDivisionError: our own bug", 0),
        ("step", "KeyError: 'ours too'", 12),
    ):
        one, steps = await opened(project(tmp_path / where))
        broken = Broken(where)
        one.runner.maker = replace(one.runner.maker, adapter=broken)  # type: ignore[arg-type]
        trials = await one.runner.run(one.plan.trials)
        await steps.workshop.close("run-1", is_committed=False)
        assert {(x.status, x.error_kind, x.error, x.attempt) for x in trials} == {
            ("harness_error", "internal", error, 1)
        }
        assert len(trials) == 12
        assert broken.closed == closed


async def test_no_more_trials_are_in_flight_than_the_endpoint_allows(tmp_path: Path) -> None:
    """The semaphore is the endpoint's, whatever the shard holds."""
    one, steps = await opened(project(tmp_path, endpoint={"concurrency": 3}, cases=10))
    real, open_now, most = one.runner.maker.adapter, 0, 0

    class Counting:
        async def open(self, brief: TrialBrief) -> Session:
            nonlocal open_now, most
            session = await real.open(brief)
            close = session.close

            async def closing() -> None:
                nonlocal open_now
                open_now -= 1
                await close()

            open_now += 1
            most = max(most, open_now)
            await asyncio.sleep(0)
            session.close = closing  # type: ignore[method-assign]
            return session

    one.runner.maker = replace(one.runner.maker, adapter=Counting())  # type: ignore[arg-type]
    assert len(await one.runner.run(one.plan.trials)) == 30
    await steps.workshop.close("run-1", is_committed=False)
    assert most == 3


async def test_secrets_are_written_nowhere(tmp_path: Path) -> None:
    """Neither what a variable holds, nor what looks like a key: not in texts, names or errors."""
    secret, shaped = 'hunter2"\\ü-hunter2', "sk-ant-api03-0123456789abcdefghij"
    rounds = [
        {
            "calls": [
                {
                    "tool": f"tool {shaped}",
                    "args": {secret: {"deep": [f"is {secret}", shaped]}},
                    "result": f"the key is {secret} or {shaped}",
                }
            ],
            "text": f"I use {secret}",
        }
    ]
    endings = [{"text": secret, "action": secret, "state": {secret: shaped}, "end": "agent_error"}]
    parts = project(
        tmp_path,
        {"rounds": rounds, "endings": endings},
        variables={"SOME_API_KEY": secret, "HOME": "/root"},
        cases=1,
    )
    await run(parts)
    journal = written(tmp_path)
    assert "hunter2" not in journal
    assert "abcdefghij" not in journal
    assert journal.count("[secret SOME_API_KEY]") >= 3 * 6
    assert journal.count("[secret]") >= 3 * 4


async def test_an_error_is_redacted_before_it_is_shortened(tmp_path: Path) -> None:
    """Half a secret is one that nobody recognises any more."""
    secret = "hunter2-hunter2-hunter2"
    one, steps = await opened(project(tmp_path, variables={"SOME_TOKEN": secret}, cases=1))

    class Telling(Broken):
        async def step(self, observation: object) -> object:
            raise RuntimeError("x" * (MAX_ERROR_CHARACTERS - 20) + secret)

    one.runner.maker = replace(one.runner.maker, adapter=Telling("step"))  # type: ignore[arg-type]
    trials = await one.runner.run(one.plan.trials)
    await steps.workshop.close("run-1", is_committed=False)
    assert all("hunt" not in (trial.error or "") for trial in trials)
    assert "hunt" not in written(tmp_path)


async def test_half_a_character_ends_nothing(tmp_path: Path) -> None:
    """A lone half of a surrogate pair cannot be stored; it becomes U+FFFD."""
    one, steps = await opened(project(tmp_path, cases=1))
    (trial,) = await one.runner.run(one.plan.trials[:1])
    odd = replace(trial.trajectory, answer="a\ud800b\x00c\x1b[31m")
    one.runner.record(replace(trial, trajectory=odd, attempt=2))
    await steps.workshop.close("run-1", is_committed=False)
    assert lines(tmp_path)[-1]["transcript"]["answer"] == "a\ufffdb\x00c\x1b[31m"


async def test_the_same_seed_gives_the_same_trials(tmp_path: Path) -> None:
    """Whoever repeats a run of a scripted agent sees the same; times of day aside."""
    behaviour = {
        "rounds": [{**A_CALL, "times": {"0": 1, "1": 1, "2": 1}}],
        "endings": [{"text": "yes"}, {"text": "no"}],
        "usage": {"input": 100, "spread": 0.5},
        "faults": [{"kind": "overloaded", "chance": 0.3}],
    }
    runs = [
        {
            (one.trial_id, one.attempt): (one.trajectory, one.status, one.retry_count)
            for one in await run(project(tmp_path / name, behaviour, cases=8))
        }
        for name in ("first", "second")
    ]
    assert runs[0] == runs[1]
    assert len({str(found) for found in runs[0].values()}) > 5
