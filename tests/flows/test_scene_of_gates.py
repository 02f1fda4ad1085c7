"""Gates per category, end to end: 93 % overall and blocked all the same, and what is no verdict."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.nights import (
    DOWN,
    NO,
    YES,
    cases_of,
    evaluated,
    gates,
    meant,
    night,
    slot,
    verdict_of,
)
from tests.projects import (
    Bench,
    bench,
    case,
    script,
    scripted_endpoint,
    suite,
    write_project,
)
from watchkeeper.domain.run import RunRequest
from watchkeeper.notifiers.report import verdict_text
from watchkeeper.pipeline.nightly import evaluate_and_compare, nightly_requests


def scene(folder: Path, *wrong: str) -> Path:
    """72 cases in three categories, of which the agent gets 0, 2 and 3 wrong by default."""
    named = wrong or ("tone-0[01]", "amount-0[012]")
    return write_project(
        folder,
        suites={
            "basic": suite(
                cases_of({"refusal": 12, "tone": 40, "amount": 20}),
                trials=1,
                categories=gates(refusal=1.00, tone=0.85, amount=1.00),
            )
        },
        scripts={"agent": script(meant(NO, *named), YES)},
    )


def watchkeeper(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "watchkeeper", "--project", str(folder), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class TestScene:
    """12/12, 38/40 and 17/20 under gates of 1.00, 0.85 and 1.00."""

    def test_one_category_blocks(self, tmp_path: Path) -> None:
        """Exactly one of three gates acts, 67 of 72 pass overall, and the run ends with 1."""
        verdict = evaluated(bench(scene(tmp_path)), "ci")
        assert [(one.category, one.state, one.acts) for one in verdict.gates] == [
            ("refusal", "passed_not_proven", False),
            ("tone", "passed_not_proven", False),
            ("amount", "failed", True),
        ]
        assert [(one.counts.passed, one.counts.graded) for one in verdict.gates] == [
            (12, 12),
            (38, 40),
            (17, 20),
        ]
        assert (verdict.counts.passed, verdict.counts.graded) == (67, 72)
        assert verdict.gates[2].failing_cases == ("amount-00", "amount-01", "amount-02")
        assert verdict.fresh_runs == ()
        assert verdict.exit_code == 1

    def test_the_printed_lines(self, tmp_path: Path) -> None:
        """Each gate is a line of its own, the overall rate gates nothing, the last is exit 1."""
        lines = verdict_text(evaluated(bench(scene(tmp_path)), "ci")).splitlines()
        start = lines.index("gates")
        assert lines[start + 1 : start + 6] == [
            "  ok   refusal 12/12 = 100 % (gate 100 %)  76–100, not proven",
            "  ok   tone    38/40 = 95 % (gate 85 %)    83–99, not proven",
            "  GATE amount  17/20 = 85 % (gate 100 %)   64–95",
            "       action block, owner team; failing: amount-00, amount-01, amount-02",
            "       overall 67/72 = 93 %                shown, not gating",
        ]
        assert lines[0].startswith("GATE FAILED: gate amount 17/20 = 85 %, needs 100 %")
        assert lines[-1] == "exit 1: failed gate: amount"

    def test_the_command_line(self, tmp_path: Path) -> None:
        """``run --purpose ci --json`` prints one object on standard output and exits 1."""
        done = watchkeeper(
            scene(tmp_path), "run", "basic", "-e", "agent", "--purpose", "ci", "--json"
        )
        assert done.returncode == 1, done.stderr
        shown = json.loads(done.stdout)
        assert shown["exit_code"] == 1
        assert shown["status"] == "GATE FAILED"
        assert shown["counts"]["pass_rate"] == pytest.approx(67 / 72)
        assert [one["category"] for one in shown["gates"] if one["acts"]] == ["amount"]

    def test_without_the_three_wrong_amounts(self, tmp_path: Path) -> None:
        """The same suite with every amount right exits 0: two wrong tones are within the gate."""
        fixed = evaluated(bench(scene(tmp_path, "tone-0[01]")), "ci")
        assert (fixed.counts.passed, fixed.counts.graded) == (70, 72)
        assert fixed.exit_code == 0

    def test_a_night_examines_the_failure_first(self, tmp_path: Path) -> None:
        """At night the three cases are tried five times more; failing again, they are paged."""
        made = bench(scene(tmp_path))
        verdict = verdict_of(night(made))
        gate = verdict.gates[2]
        assert (gate.state, gate.acts, gate.fresh_graded, gate.fresh_passed) == (
            "failed",
            True,
            15,
            0,
        )
        assert verdict.exit_code == 1
        assert made.sent.getvalue().count("is below a gate of basic") == 1


PATIENT = {"limits": {"confirm_delay_minutes": 0, "breaker_trials": 100}}
"""A run that takes nothing for an outage."""


class TestDenominators:
    """A trial is counted when it is planned, never after it went well."""

    def test_every_call_fails(self, tmp_path: Path) -> None:
        """An endpoint that never answers shows all its planned trials, and no rate."""
        folder = write_project(tmp_path, watchkeeper=PATIENT, scripts={"agent": script(DOWN)})
        verdict = evaluated(bench(folder))
        assert verdict.counts.planned == 12
        assert verdict.counts.harness_error == 12
        assert verdict.counts.pass_rate is None
        assert verdict.exit_code == 3
        assert "12 planned, 0 graded (0 %), 12 missing: 12 harness errors" in verdict_text(verdict)

    def test_the_plan_is_written_before_the_first_call(self, tmp_path: Path) -> None:
        """A run that is killed at its first call has its promised trials in the store already."""
        made = bench(write_project(tmp_path))

        async def killed() -> None:
            steps = made.steps()
            request = RunRequest("run-1", "agent", "basic", "on_demand", "test", 1)
            plan = await steps.plan_run(request)
            assert plan.manifest.planned_count == len(plan.trials) == 12
            await steps.workshop.close("run-1", is_committed=False)

        asyncio.run(killed())
        stored = made.services.records.staged_plan("run-1")
        assert stored is not None
        assert len(stored["trials"]) == 12

    def test_a_crash_of_the_agent_is_its_failure(self, tmp_path: Path) -> None:
        """An agent that raises has failed the case; it stays in the denominator."""
        crash = meant({"faults": [{"kind": "crash"}]}, "case-1")
        verdict = evaluated(bench(write_project(tmp_path, scripts={"agent": script(crash, YES)})))
        assert (verdict.counts.passed, verdict.counts.failed) == (9, 3)
        assert verdict.counts.harness_error == 0

    def test_an_agent_that_says_nothing_has_failed(self, tmp_path: Path) -> None:
        """Silence passes no assertion, a negative one no more than any other."""
        mute = {"endings": [{"text": ""}]}
        asked = [case("mute", expect={"must_not_mention": "no"})]
        folder = write_project(
            tmp_path, suites={"basic": suite(asked)}, scripts={"agent": script(mute)}
        )
        assert evaluated(bench(folder)).counts.failed == 3

    def test_a_declared_category_without_a_graded_trial(self, tmp_path: Path) -> None:
        """Nineteen of twenty cases graded is a verdict; the category of the lost one has none."""
        folder = write_project(
            tmp_path,
            suites={
                "basic": suite(
                    cases_of({"facts": 19, "safety": 1}), categories=gates(facts=0.5, safety=0.5)
                )
            },
            scripts={"agent": script(meant(DOWN, "safety-*"), YES)},
        )
        made = bench(folder)
        verdict = verdict_of(night(made))
        assert verdict.broken is None
        assert [one.state for one in verdict.gates] == ["passed", "no_verdict"]
        assert verdict.exit_code == 3
        lines = verdict_text(verdict).splitlines()
        assert any(
            line.split()[:4] == ["????", "safety", "0/0", "="] and "no verdict" in line
            for line in lines
        )
        assert lines[-1].startswith("exit 3:")
        assert "gate safety: 0 of 3 trials graded" in made.sent.getvalue()

    def test_no_case_is_selected(self, tmp_path: Path) -> None:
        """A pattern that no case matches proves nothing: exit 3, and the message says why."""
        folder = write_project(tmp_path)
        done = watchkeeper(folder, "run", "basic", "-e", "agent", "--case", "zzz*")
        assert done.returncode == 3
        assert "no case of 'basic' was selected by zzz*" in done.stderr
        assert done.stdout == ""
        assert not list((folder / "store").rglob("*.parquet"))

    def test_coverage_below_ninety_per_cent(self, tmp_path: Path) -> None:
        """Three of twenty cases lost: no verdict, the platform's owner is told, nobody else."""
        folder = write_project(
            tmp_path,
            suites={
                "basic": suite(cases_of({"facts": 20}), categories=gates("page", facts=1.0)),
            },
            scripts={"agent": script(meant(DOWN, "facts-0[012]"), NO)},
        )
        made = bench(folder)
        verdict = verdict_of(night(made))
        assert verdict.broken is not None
        assert "51 of 60 planned" in verdict.broken
        assert "9 authentication" in verdict.broken
        assert verdict.state == "inconclusive"
        assert verdict.exit_code == 3
        sent = made.sent.getvalue()
        assert "Evaluation broken" in sent
        assert "this is not a regression" in sent
        assert "platform" in sent
        (root,) = [one["root"] for one in made.services.records.events() if one["root"]]
        assert (root["kind"], root["owner"], root["severity"]) == ("harness", "platform", "broken")

    def test_a_critical_failure_in_a_broken_night(self, tmp_path: Path) -> None:
        """What was seen was seen: a critical failure pages also where coverage is lost."""
        critical = {"avoids": [{"tool": "delete_all", "severity": "critical"}]}
        asked = [case(f"case-{number}", expect=critical) for number in range(10)]
        deletes = {
            "rounds": [{"calls": [{"tool": "delete_all", "result": "done"}]}],
            "endings": [{"text": "yes"}],
        }
        folder = write_project(
            tmp_path,
            suites={"basic": suite(asked)},
            scripts={"agent": script(meant(DOWN, "case-[0-4]"), meant(deletes, "case-9"), YES)},
        )
        verdict = verdict_of(night(bench(folder)))
        assert verdict.broken is not None
        assert len(verdict.critical) == 3
        assert verdict.exit_code == 1


def priced(folder: Path, **given: Any) -> Path:
    """A project in which a response costs one dollar and a thousand tokens."""
    behaviour = {**YES, "usage": {"input": 1000}, **given.pop("behaviour", {})}
    prices = {
        "source": "made up",
        "models": {"model-v1": [{"valid_from": "2026-01-01", "input": 1000.0, "output": 0.0}]},
    }
    endpoint = scripted_endpoint(**given.pop("endpoint", {}))
    return write_project(
        folder,
        prices=prices,
        endpoints={"agent": endpoint, **given.pop("others", {})},
        scripts={"agent": script(behaviour)},
        **given,
    )


def paid(made: Bench) -> float:
    """Dollars of every attempt in the store."""
    connection = made.services.history().connect()
    (total,) = connection.execute("select coalesce(sum(cost_usd), 0) from costs").fetchall()[0]
    connection.close()
    return float(total)


def skipped_for(made: Bench) -> dict[str, int]:
    """How many trials were not made, by reason."""
    connection = made.services.history().connect()
    rows = connection.execute(
        "select error_kind, count(*) from trials where outcome = 'skipped' group by all"
    ).fetchall()
    connection.close()
    return dict(rows)


class TestBudgets:
    """Every bound in dollars, tokens and time, on the way and not afterwards."""

    def test_without_a_bound(self, tmp_path: Path) -> None:
        """Twelve trials of a dollar cost twelve dollars where nothing bounds them."""
        made = bench(priced(tmp_path))
        assert evaluated(made).counts.graded == 12
        assert paid(made) == pytest.approx(12)

    def test_the_runs_budget(self, tmp_path: Path) -> None:
        """No trial starts that might pass the budget; those left out are skipped, and shown so."""
        made = bench(priced(tmp_path, endpoint={"run_budget_usd": 4.5}))
        verdict = evaluated(made)
        assert (verdict.counts.passed, verdict.counts.skipped) == (4, 8)
        assert paid(made) == pytest.approx(4)
        assert skipped_for(made) == {"run_budget": 8}
        assert verdict.broken is not None
        assert "8 run_budget" in verdict.broken
        assert "12 planned, 4 graded (33 %), 8 missing: 8 skipped" in verdict_text(verdict)
        assert verdict.exit_code == 3

    def test_one_trial_left_out_is_still_a_verdict(self, tmp_path: Path) -> None:
        """Above 90 % coverage a skipped trial is counted, shown, and no reason for exit 3."""
        made = bench(priced(tmp_path, endpoint={"run_budget_usd": 11.0}))
        verdict = evaluated(made)
        assert (verdict.counts.passed, verdict.counts.skipped) == (11, 1)
        assert verdict.broken is None
        assert "11/12 graded" in verdict_text(verdict)
        assert verdict.exit_code == 0

    def test_the_runs_tokens(self, tmp_path: Path) -> None:
        """A cap in tokens holds for models without a price too."""
        made = bench(priced(tmp_path, endpoint={"run_token_cap": 5_500}))
        assert evaluated(made).counts.passed == 5
        assert skipped_for(made) == {"token_cap": 7}

    def test_a_trials_dollars(self, tmp_path: Path) -> None:
        """A trial ends after the response that passes its bound, and has failed."""
        rounds = [{"calls": [{"tool": "look", "result": "nothing"}], "times": 1}] * 10
        live = [{**rounds[0], "calls": [{"tool": "look"}]}] * 10
        tools = {"look": {"returns": "something"}}
        folder = priced(
            tmp_path,
            behaviour={"rounds": live},
            suites={
                "basic": suite([case("long", tools=tools)], trial_limits={"cost_usd": 2.5}),
            },
        )
        made = bench(folder)
        verdict = evaluated(made)
        assert verdict.counts.failed == 3
        connection = made.services.history().connect()
        rows = connection.execute(
            "select stop_reason, cost_usd, round_count from trials"
        ).fetchall()
        connection.close()
        assert rows == [("cost_limit", 3.0, 3)] * 3

    def test_a_known_bound_of_a_trial_reserves_its_worst(self, tmp_path: Path) -> None:
        """Where a trial may cost two dollars, three of one are started within six at a time."""
        folder = priced(
            tmp_path,
            endpoint={"run_budget_usd": 6.0, "concurrency": 12},
            suites={
                "basic": suite(
                    [case(f"case-{number}") for number in range(4)], trial_limits={"cost_usd": 2}
                )
            },
        )
        made = bench(folder)
        evaluated(made)
        assert paid(made) <= 6
        assert skipped_for(made).keys() == {"run_budget"}

    def test_the_nights_budget(self, tmp_path: Path) -> None:
        """All runs of a night share one budget, in whatever order their trials come."""
        made = bench(
            priced(
                tmp_path,
                others={"second": scripted_endpoint()},
                watchkeeper={"budget_usd": {"night": 7.0}},
            )
        )
        result = night(made)
        assert paid(made) == pytest.approx(7)
        assert skipped_for(made) == {"night_budget": 17}
        counts = [pair.verdict.counts for pair in result.pairs if pair.verdict is not None]
        assert sum(one.planned for one in counts) == 24
        assert result.exit_code == 3

    def test_a_night_that_goes_on_does_not_spend_twice(self, tmp_path: Path) -> None:
        """What the same slot paid before it was started again counts against its budget."""
        made = bench(priced(tmp_path, watchkeeper={"budget_usd": {"night": 7.0}}))
        night(made)
        night(made)
        assert paid(made) == pytest.approx(7)

    def test_the_months_budget(self, tmp_path: Path) -> None:
        """What earlier nights of the month paid is gone; on the first of the next it is back."""
        made = bench(priced(tmp_path, watchkeeper={"budget_usd": {"month": 20.0}}))
        assert verdict_of(night(made, 1)).counts.passed == 12
        assert verdict_of(night(made, 2)).counts.passed == 8
        assert verdict_of(night(made, 3)).counts.passed == 0
        assert paid(made) == pytest.approx(20)
        assert verdict_of(night(made, 31)).counts.passed == 12  # 1 April

    def test_a_night_that_goes_on_within_its_month(self, tmp_path: Path) -> None:
        """What the night's first half paid is counted once against the month, not twice."""
        made = bench(
            priced(
                tmp_path,
                others={"second": scripted_endpoint()},
                watchkeeper={"budget_usd": {"month": 24.0}},
            )
        )
        first, _ = nightly_requests(made.services.project, slot(1), "test")
        asyncio.run(evaluate_and_compare(first, made.steps()))
        assert paid(made) == pytest.approx(12)
        result = night(made)
        assert [pair.verdict.counts.passed for pair in result.pairs if pair.verdict] == [12, 12]

    def test_the_months_budget_holds_for_every_run(self, tmp_path: Path) -> None:
        """A run that somebody asks for draws on the same month."""
        made = bench(priced(tmp_path, watchkeeper={"budget_usd": {"month": 20.0}}))
        night(made)
        assert evaluated(made).counts.passed == 8
        assert paid(made) == pytest.approx(20)

    def test_a_rerun_stays_within_the_runs_budget(self, tmp_path: Path) -> None:
        """A run and the fresh trials that examine it together keep to the run's budget."""
        folder = priced(
            tmp_path,
            behaviour={"endings": [{"text": "no"}]},
            endpoint={"run_budget_usd": 15.0},
            suites={
                "basic": suite(
                    [case(f"case-{number}") for number in range(4)],
                    categories=gates("page", facts=1.0),
                )
            },
        )
        made = bench(folder)
        verdict = evaluated(made)
        assert verdict.fresh_runs
        assert paid(made) <= 15

    def test_finish_by(self, tmp_path: Path) -> None:
        """After the local time that was set no further trial of the night starts."""
        folder = priced(
            tmp_path,
            behaviour={"latency_ms": 600_000},
            endpoint={"concurrency": 1},
            watchkeeper={"timezone": "Europe/Berlin", "schedule": {"finish_by": "04:00"}},
            suites={
                "basic": suite(
                    [case(f"case-{number}") for number in range(4)],
                    trial_limits={"seconds": 3600},
                )
            },
        )
        made = bench(folder)  # the slot is 03:30 in Berlin
        verdict = verdict_of(night(made))
        assert verdict.counts.passed == 3
        assert skipped_for(made) == {"finish_by": 9}
        assert verdict.exit_code == 3

    def test_fresh_trials_keep_to_finish_by(self, tmp_path: Path) -> None:
        """A rerun that would begin too late is not made, and its suspects are not denied."""
        late = {"schedule": {"finish_by": "03:00"}, "limits": {"confirm_delay_minutes": 45}}
        suites = {"basic": suite(cases_of({"facts": 12}), categories=gates("report", facts=0.1))}
        folder = write_project(tmp_path, watchkeeper=late, suites=suites)
        for number in (1, 2, 3, 4):
            assert verdict_of(night(bench(folder), number)).counts.passed == 36
        wrong = script(meant(NO, "facts-0[0-5]"), YES)
        write_project(folder, watchkeeper=late, suites=suites, scripts={"agent": wrong})
        made = bench(folder)
        verdict = verdict_of(night(made, 5))
        assert len(verdict.fresh_runs) == 1
        assert skipped_for(made).keys() == {"finish_by"}
        assert {one.reason for one in verdict.findings if one.metric == "pass_rate"} >= {"budget"}
        assert not verdict.regressions
        assert made.sent.getvalue() == ""
