"""From facts to a verdict: what is compared, what fresh trials confirm, and what it comes to."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stats.facts import (
    CONSTANTS,
    FIRST_NIGHT,
    Behaviour,
    History,
    Rerun,
    conclude_with,
    concluded,
    either,
    failing,
    found,
    gate,
    manifest,
    stamps,
    steady,
    trials,
)
from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.run import Manifest, OutcomeCounts
from watchkeeper.domain.verdict import (
    CriticalFailure,
    Finding,
    GateResult,
    GateState,
    Level,
    Metric,
    Verdict,
    VerdictState,
)
from watchkeeper.notifiers.report import verdict_json, verdict_text
from watchkeeper.stats.comparison import METRICS, Comparison
from watchkeeper.stats.decide import Baseline, Decision, Night
from watchkeeper.stats.hypotheses import Hypothesis, build_hypotheses

seeded = settings(deadline=None, derandomize=True)

TWO = stamps({"facts": 8, "tone": 8})
NO_BASELINE = Baseline((), FactTable(()))


def by_chance(pass_chance: float, *case_prefixes: str) -> Behaviour:
    """Trials of these cases pass by chance, seeded by case and index; all others pass."""

    def behave(case_id: str, index: int) -> Mapping[str, Any]:
        if not case_id.startswith(case_prefixes):
            return {}
        is_passed = random.Random(f"{case_id}/{index}").random() < pass_chance
        return {"outcome": "passed" if is_passed else "failed"}

    return either(steady, behave)


def with_rounds(factor: float, *case_prefixes: str) -> Behaviour:
    """These cases take so many times their rounds; the cost stays what it was."""

    def behave(case_id: str, index: int) -> Mapping[str, Any]:
        rounds = steady(case_id, index)["round_count"]
        is_meant = case_id.startswith(case_prefixes)
        return {"round_count": round(rounds * factor)} if is_meant else {}

    return either(steady, behave)


def with_cost(factor: float) -> Behaviour:
    """Every trial costs so many times as much in as many rounds."""
    return either(steady, lambda case, index: {"cost_usd": 0.01 * factor * (3 + (index + 1) % 3)})


def using(tool: str, calls: int, *case_prefixes: str) -> Behaviour:
    """These cases call a tool so often in every trial."""
    return lambda case_id, index: (
        {"tool_calls": {tool: calls}} if case_id.startswith(case_prefixes) else {}
    )


def states(verdict: Verdict) -> dict[tuple[Metric, Level, str], VerdictState]:
    """The state of every finding."""
    return {(one.metric, one.level, one.group): one.state for one in verdict.findings}


def critical_failure(case_id: str = "facts-00", category: str = "facts") -> CriticalFailure:
    """A critical assertion that failed."""
    return CriticalFailure(case_id, "trial", category, "avoids delete_all", "it was called")


class TestWithoutHistory:
    """The first nights."""

    def test_nothing_is_compared(self) -> None:
        """Without baselines there is no finding, no rerun, and exit 0: a record is no failure."""
        night = manifest(1, TWO)
        decision = Decision(
            Night(night, tuple(trials(night)), NO_BASELINE, NO_BASELINE, (), {}, CONSTANTS)
        )
        assert decision.confirmation.next_batch() == {}
        verdict = concluded(decision)
        assert (verdict.state, verdict.reason) == ("inconclusive", "no_history")
        assert verdict.findings == ()
        assert verdict.compared_case_count == 0
        assert verdict.exit_code == 0

    def test_a_critical_failure_needs_no_history(self) -> None:
        """On the very first night a critical failure is a regression, without a rerun."""
        night = manifest(1, TWO, [gate("facts", 0.5, owner="payments")])
        decision = Decision(
            Night(
                night,
                tuple(trials(night)),
                NO_BASELINE,
                NO_BASELINE,
                (critical_failure(),),
                {},
                CONSTANTS,
            )
        )
        assert decision.confirmation.next_batch() == {}
        verdict = concluded(decision)
        assert (verdict.state, verdict.reason) == ("regressed", "critical")
        assert verdict.exit_code == 1
        (root,) = verdict.roots
        assert (root.kind, root.name, root.owner, root.severity) == (
            "gate",
            "facts",
            "payments",
            "critical",
        )


class TestUnchanged:
    """A night like all others."""

    def test_it_is_quiet(self) -> None:
        """The same behaviour again asks for no fresh trial and pages nobody."""
        decision = History(TWO).decision()
        assert decision.confirmation.next_batch() == {}
        verdict = concluded(decision)
        assert verdict.exit_code == 0
        assert verdict.roots == ()
        assert not verdict.regressions
        assert {one.state for one in verdict.findings} <= {"no_worse", "inconclusive"}

    def test_every_group_is_asked_about_once(self) -> None:
        """Suite and both categories for each metric; identical sets of cases are one hypothesis."""
        behaviour = either(steady, using("search", 2, "facts"), using("read", 2, "tone"))
        verdict = concluded(History(TWO, behaviour=behaviour).decision(behaviour))
        assert set(states(verdict)) == {
            ("pass_rate", "suite", "suite"),
            ("pass_rate", "category", "facts"),
            ("pass_rate", "category", "tone"),
            ("rounds", "suite", "suite"),
            ("rounds", "tool", "search"),
            ("rounds", "tool", "read"),
            ("cost_usd", "suite", "suite"),
            ("cost_usd", "tool", "search"),
            ("cost_usd", "tool", "read"),
        }

    def test_a_large_suite_is_no_worse(self) -> None:
        """With enough steady trials the declared losses are excluded, and the verdict says so."""
        cases = stamps({"facts": 40, "tone": 40}, trials=5)
        verdict = concluded(History(cases, nights=10).decision())
        assert (verdict.state, verdict.reason) == ("no_worse", "within_margin")
        assert verdict.exit_code == 0


class TestPassRate:
    """Answers that are wrong."""

    def test_forty_points_less_in_a_category(self) -> None:
        """A fall of forty points is confirmed by fresh trials alone and has one root."""
        worse = by_chance(0.6, "facts")
        roomy = replace(CONSTANTS, rerun_extra=200)
        verdict = concluded(History(TWO, constants=roomy).decision(worse), worse)
        assert (verdict.state, verdict.reason) == ("regressed", "confirmed")
        assert verdict.exit_code == 1
        finding = found(verdict, "pass_rate", "category", "facts")
        assert finding.state == "regressed"
        assert finding.confirmed is not None
        assert finding.confirmed.estimate < -0.15
        assert finding.confirmed.high < 0
        assert finding.confirmed.candidate_trial_count == 8 * 3 * 4
        assert finding.confirmed.baseline_trial_count == 10 * 8 * 3
        assert found(verdict, "pass_rate", "category", "tone").state != "regressed"
        (root,) = verdict.roots
        assert (root.kind, root.name, root.severity) == ("category", "facts", "page")
        assert root.members[0] == "pass_rate/category/facts"
        assert [one.case_id[:5] for one in verdict.exemplars] == ["facts"] * 3

    def test_a_bad_night_that_does_not_repeat(self) -> None:
        """Where the fresh trials pass, the suspect is dropped after one batch; nobody is paged."""
        verdict = concluded(History(TWO).decision(by_chance(0.6, "facts")), steady)
        assert len(verdict.fresh_runs) == 1
        finding = found(verdict, "pass_rate", "category", "facts")
        assert (finding.state, finding.reason) == ("inconclusive", "not_confirmed")
        assert verdict.roots == ()
        assert verdict.exit_code == 0

    def test_one_case_alone(self) -> None:
        """One case of many that fails every time is confirmed with five fresh trials of its own."""
        cases = stamps({"facts": 60})
        worse = failing("facts-07")
        verdict = concluded(History(cases).decision(worse), worse)
        finding = found(verdict, "pass_rate", "case", "facts-07")
        assert finding.state == "regressed"
        assert finding.confirmed is not None
        assert finding.confirmed.candidate_trial_count == 5
        assert finding.confirmed.estimate == -1.0
        (root,) = verdict.roots
        assert (root.kind, root.name) == ("case", "facts-07")

    def test_below_a_hard_gate_it_is_the_gates_business(self) -> None:
        """The pass rate of a hard-gated category is no hypothesis, nor that of its cases."""
        history = History(TWO, (gate("facts", 1.0),))
        verdict = concluded(history.decision(failing("facts-*")), failing("facts-*"))
        asked = set(states(verdict))
        assert ("pass_rate", "category", "tone") in asked
        assert ("pass_rate", "category", "facts") not in asked
        assert not [one for one in asked if one[0] == "pass_rate" and one[1] == "case"]
        assert [(one.kind, one.name) for one in verdict.roots] == [("gate", "facts")]


class TestRounds:
    """The way to the answer."""

    def test_a_tool_that_is_called_in_vain(self) -> None:
        """Three times the rounds is a regression though every answer passes; the tool is named."""
        before = either(steady, using("find_files", 2, "facts"), using("read", 2, "tone"))
        after = either(
            with_rounds(3, "facts"), using("find_files", 8, "facts"), using("read", 2, "tone")
        )
        verdict = concluded(History(TWO, behaviour=before).decision(after), after)
        assert verdict.state == "regressed"
        assert verdict.counts.failed == 0
        assert found(verdict, "pass_rate", "suite").state != "regressed"
        finding = found(verdict, "rounds", "tool", "find_files")
        assert finding.state == "regressed"
        assert finding.confirmed is not None
        assert finding.confirmed.estimate == pytest.approx(3.0)
        (root,) = verdict.roots
        assert (root.kind, root.name) == ("tool", "find_files")
        assert "rounds/suite/suite" in root.members
        (shift,) = verdict.tool_shifts
        assert (shift.tool, shift.calls_before, shift.calls_after) == ("find_files", 2.0, 8.0)
        assert "find_files 2.0 → 8.0" in verdict.exemplars[0].note

    def test_one_case_alone(self) -> None:
        """One case that takes three times its rounds is found among sixty, and only it."""
        cases = stamps({"facts": 60})
        worse = with_rounds(3, "facts-07")
        verdict = concluded(History(cases).decision(worse), worse)
        assert [(one.kind, one.name) for one in verdict.roots] == [("case", "facts-07")]
        finding = found(verdict, "rounds", "case", "facts-07")
        assert finding.confirmed is not None
        assert finding.confirmed.candidate_trial_count == 5

    def test_a_small_rise_is_below_the_floor(self) -> None:
        """Three per cent more rounds may be certain and are still not worth a page."""
        many = stamps({"facts": 30}, trials=10)

        def long(case_id: str, index: int) -> Mapping[str, Any]:
            return {"round_count": 100 + index}

        def longer(case_id: str, index: int) -> Mapping[str, Any]:
            return {"round_count": 103 + index}

        verdict = concluded(History(many, behaviour=long).decision(longer), longer)
        assert found(verdict, "rounds", "suite").state == "no_worse"
        assert verdict.roots == ()

    def test_one_runaway_does_not_speak_for_the_suite(self) -> None:
        """Where the typical case rises and the totals fall, neither is confirmed."""
        cases = stamps({"facts": 40})

        def before(case_id: str, index: int) -> Mapping[str, Any]:
            return {"round_count": 1000 if case_id == "facts-00" else 4 + index}

        def after(case_id: str, index: int) -> Mapping[str, Any]:
            return {"round_count": 10 if case_id == "facts-00" else 7 + index}

        verdict = concluded(History(cases, behaviour=before).decision(after), after)
        finding = found(verdict, "rounds", "suite")
        assert finding.confirmed is not None
        assert finding.confirmed.estimate > 1
        assert finding.confirmed.total_ratio is not None
        assert finding.confirmed.total_ratio < 1
        assert (finding.state, finding.reason) == ("inconclusive", "totals_disagree")


class TestCost:
    """What it costs."""

    def test_a_dearer_model(self) -> None:
        """Half as much again in as many rounds is a regression in cost alone."""
        verdict = concluded(
            History(TWO, behaviour=with_cost(1.0)).decision(with_cost(1.5)), with_cost(1.5)
        )
        assert {one.metric for one in verdict.regressions} == {"cost_usd"}
        finding = found(verdict, "cost_usd", "suite")
        assert finding.confirmed is not None
        assert finding.confirmed.estimate == pytest.approx(1.5, rel=0.05)

    def test_an_unpriced_run_has_no_cost(self) -> None:
        """Without a price there is no cost hypothesis, rather than a cost of nothing."""
        unpriced = either(steady, lambda case, index: {"cost_usd": None})
        verdict = concluded(History(TWO).decision(unpriced))
        assert {one.metric for one in verdict.findings} == {"pass_rate", "rounds"}


class TestImproved:
    """The mirror image."""

    @pytest.mark.parametrize(
        ("before", "after", "metric"),
        [
            (by_chance(0.5, "facts", "tone"), steady, "pass_rate"),
            (with_rounds(2, ""), steady, "rounds"),
            (with_cost(2), with_cost(1), "cost_usd"),
        ],
    )
    def test_it_is_said_and_never_paged(
        self, before: Behaviour, after: Behaviour, metric: Metric
    ) -> None:
        """What is better than both baselines is improved, without a rerun, a root or exit 1."""
        decision = History(TWO, behaviour=before).decision(after)
        assert decision.confirmation.next_batch() == {}
        verdict = concluded(decision)
        assert (verdict.state, verdict.reason) == ("improved", "both_baselines")
        assert found(verdict, metric, "suite").state == "improved"
        assert verdict.roots == ()
        assert verdict.exit_code == 0

    def test_better_than_one_baseline_only(self) -> None:
        """A night that beats only the screening nights is not improved."""
        history = History(TWO)
        slow = [manifest(number, TWO) for number in range(2, 21, 2)]
        night = history.manifest()
        decision = Decision(
            Night(
                night,
                tuple(trials(night)),
                Baseline(
                    tuple(slow),
                    FactTable(f for one in slow for f in trials(one, with_rounds(2, ""))),
                ),
                history.decision().night.confirming,
                (),
                {},
                CONSTANTS,
            )
        )
        assert found(concluded(decision), "rounds", "suite").state != "improved"


class TestBudget:
    """Suspects that money leaves no room for."""

    def test_no_money_for_any(self) -> None:
        """Suspects that cannot be rerun are inconclusive (budget); nothing is asked or paged."""
        decision = History(TWO).decision(by_chance(0.5, "facts"), allowed_fresh=0)
        assert decision.confirmation.next_batch() == {}
        verdict = concluded(decision)
        finding = found(verdict, "pass_rate", "category", "facts")
        assert (finding.state, finding.reason) == ("inconclusive", "budget")
        assert (verdict.state, verdict.reason) == ("inconclusive", "suspect")
        assert verdict.roots == ()
        assert verdict.exit_code == 0

    def test_money_ran_out_during_the_rerun(self) -> None:
        """A rerun that was cut short confirms nothing and denies nothing."""
        worse = by_chance(0.5, "facts")
        decision = History(TWO).decision(worse)
        cut = either(worse, lambda case, index: {"outcome": "skipped"} if index == 0 else {})
        verdict = concluded(decision, cut)
        assert found(verdict, "pass_rate", "category", "facts").reason == "budget"
        assert verdict.roots == ()


class TestServedChange:
    """Another model answers the rerun."""

    def test_nothing_is_confirmed(self) -> None:
        """Fresh trials of another model are set aside: no regression, and the verdict says why."""
        worse = by_chance(0.3, "facts")
        decision = History(TWO).decision(worse)
        assert decision.confirmation.next_batch()
        decision.confirmation.abandon()
        assert decision.confirmation.next_batch() == {}
        verdict = decision.verdict(FIRST_NIGHT)
        finding = found(verdict, "pass_rate", "category", "facts")
        assert (finding.state, finding.reason) == ("inconclusive", "served_changed")
        assert (verdict.state, verdict.reason) == ("inconclusive", "served_changed")
        assert verdict.roots == ()
        assert verdict.exit_code == 0


class TestChangedCases:
    """The suite is not what it was."""

    def test_added_removed_and_changed_are_listed(self) -> None:
        """All three are named, and the cases that stayed are compared as ever."""
        history = History(stamps({"facts": 10}))
        after = (
            *stamps({"facts": 9}, execution_hash={"facts-03": "asks more"}),
            replace(history.cases[0], case_id="facts-new", cluster_id="facts-new"),
        )
        night = manifest(history.next_night, after)
        verdict = concluded(history.decision(of=night))
        assert verdict.added_cases == ("facts-new",)
        assert verdict.removed_cases == ("facts-09",)
        assert verdict.changed_cases == ("facts-03",)
        assert verdict.compared_case_count == 8
        suite = found(verdict, "rounds", "suite")
        assert suite.screened is not None
        assert suite.screened.case_count == 8

    def test_a_changed_case_cannot_regress(self) -> None:
        """What a changed case does is held against nothing, however much worse it looks."""
        history = History(TWO)
        after = stamps({"facts": 8, "tone": 8}, execution_hash={"facts-03": "asks more"})
        night = manifest(history.next_night, after)
        worse = either(with_rounds(20, "facts-03"), failing("facts-03"))
        decision = history.decision(worse, of=night)
        assert decision.confirmation.next_batch() == {}
        assert concluded(decision).exit_code == 0

    def test_another_grading_leaves_the_rounds(self) -> None:
        """A case with another assertion pairs its rounds and cost, and not its pass rate."""
        history = History(TWO)
        after = stamps({"facts": 8, "tone": 8}, grading_hash={"facts-03": "demands more"})
        night = manifest(history.next_night, after)
        decision = history.decision(failing("facts-03"), of=night)
        assert decision.confirmation.next_batch() == {}
        verdict = concluded(decision)
        counts = {
            metric: found(verdict, metric, "suite").screened.case_count  # type: ignore[union-attr]
            for metric in METRICS
        }
        assert counts == {"pass_rate": 15, "rounds": 16, "cost_usd": 16}
        assert verdict.changed_cases == ("facts-03",)

    def test_nothing_is_left(self) -> None:
        """Where no case is as before there is nothing comparable: exit 4."""
        history = History(TWO)
        night = manifest(history.next_night, [replace(one, execution_hash="new") for one in TWO])
        verdict = concluded(history.decision(of=night))
        assert (verdict.state, verdict.reason) == ("not_comparable", "no_matched_case")
        assert verdict.exit_code == 4

    def test_too_few_are_left(self) -> None:
        """A category of which a third is gone is not comparable, and the others still are."""
        history = History(stamps({"facts": 9, "tone": 30}))
        night = manifest(history.next_night, stamps({"facts": 6, "tone": 30}))
        worse = by_chance(0.2, "facts")
        verdict = concluded(history.decision(worse, of=night), worse)
        finding = found(verdict, "pass_rate", "category", "facts")
        assert (finding.state, finding.reason) == ("not_comparable", "unmatched")
        assert found(verdict, "pass_rate", "category", "tone").state != "not_comparable"

    def test_chosen_cases_are_not_removed_ones(self) -> None:
        """A run of some cases only compares them, and calls none of the others removed."""
        history = History(TWO)
        night = manifest(history.next_night, TWO[:3], purpose="on_demand", is_partial=True)
        verdict = concluded(history.decision(of=night))
        assert verdict.removed_cases == ()
        assert verdict.compared_case_count == 3
        assert verdict.exit_code == 0


class TestUnresolved:
    """Trials without a score."""

    def test_a_confirmation_that_hangs_on_them(self) -> None:
        """A loss that would vanish had the lost fresh trials passed is inconclusive."""
        flaky = by_chance(0.8, "facts")
        history = History(stamps({"facts": 30}, trials=5), behaviour=flaky)
        decision = history.decision(by_chance(0.3, "facts"))

        def rerun(batch: int, need: Mapping[str, int]) -> Sequence[TrialFact]:
            def behave(case_id: str, index: int) -> Mapping[str, Any]:
                drawn = random.Random(f"{batch}/{case_id}/{index}").random()
                lost = "harness_error" if drawn < 0.5 else "failed"
                return {"outcome": "passed" if drawn > 0.75 else lost}

            return trials(decision.night.manifest, either(steady, behave), need, f"fresh-{batch}")

        verdict = conclude_with(decision, rerun)
        finding = found(verdict, "pass_rate", "suite")
        assert finding.confirmed is not None
        assert finding.confirmed.p_worse < CONSTANTS.night_alpha
        assert finding.confirmed.estimate < -CONSTANTS.suite_pass_floor
        assert (finding.state, finding.reason) == ("inconclusive", "unresolved")
        assert not [one for one in verdict.regressions if one.level == "suite"]

    def test_a_rerun_without_a_score_denies_nothing(self) -> None:
        """A suspect whose rerun failed for the infrastructure is not called unconfirmed."""
        worse = by_chance(0.4, "facts")
        down = either(steady, lambda case, index: {"outcome": "harness_error"})
        verdict = concluded(History(TWO).decision(worse), down)
        finding = found(verdict, "pass_rate", "category", "facts")
        assert (finding.state, finding.reason) == ("inconclusive", "unresolved")
        assert (verdict.state, verdict.reason) == ("inconclusive", "unresolved")

    def test_no_worse_holds_only_if_they_might_have_failed(self) -> None:
        """What would not be excluded had the lost trials failed is not called no worse."""
        cases = stamps({"facts": 40, "tone": 40}, trials=5)
        history = History(cases, nights=10)
        assert found(concluded(history.decision()), "pass_rate", "suite").state == "no_worse"
        lost = either(
            steady,
            lambda case, index: {"outcome": "harness_error"} if index == 0 and case < "g" else {},
        )
        some = either(
            steady,
            lambda case, index: (
                {"outcome": "harness_error"} if index == 0 and case[-1] in "05" else {}
            ),
        )
        assert concluded(history.decision(lost)).counts.coverage == 0.9
        for behaviour in (lost, some):
            finding = found(concluded(history.decision(behaviour)), "pass_rate", "suite")
            assert finding.state == "inconclusive"

    def test_a_category_without_enough_scores(self) -> None:
        """A category under 90 % coverage is not comparable while the suite still is."""
        cases = stamps({"facts": 4, "tone": 40})
        few = either(
            steady,
            lambda case, index: {"outcome": "grader_error"} if case == "facts-00" else {},
        )
        finding = found(concluded(History(cases).decision(few)), "pass_rate", "category", "facts")
        assert (finding.state, finding.reason) == ("not_comparable", "coverage")


class TestBroken:
    """An evaluation that says nothing about the agent."""

    def lost(self, count: int) -> Behaviour:
        """The first so many cases fail for the infrastructure, all others fail the task."""
        return lambda case, index: (
            {"outcome": "harness_error", "error_kind": "overloaded"}
            if int(case[-2:]) < count
            else {"outcome": "failed"}
        )

    def test_coverage_below_ninety_per_cent(self) -> None:
        """Two of twenty cases lost is a verdict, three are none; the kinds of loss are counted."""
        history = History(stamps({"facts": 20}))
        enough = history.decision(self.lost(2))
        assert enough.broken is None
        broken = history.decision(self.lost(3))
        assert broken.broken is not None
        assert "51 of 60 planned" in broken.broken
        assert "9 overloaded" in broken.broken

    def test_it_is_never_a_regression(self) -> None:
        """However wrong the graded answers are, nothing is rerun, no gate acts, exit 3."""
        history = History(stamps({"facts": 20}), (gate("facts", 1.0), gate("tone", 0.5)))
        for purpose in ("nightly", "ci"):
            night = history.manifest(purpose=purpose)
            decision = history.decision(self.lost(3), of=night)
            assert decision.confirmation.next_batch() == {}
            verdict = concluded(decision)
            assert verdict.exit_code == 3
            assert (verdict.state, verdict.reason) == ("inconclusive", "no_verdict")
            assert {one.state for one in verdict.gates} == {"no_verdict"}
            assert verdict.roots == ()
            assert verdict.findings == ()

    def test_missing_records_are_lost_trials(self) -> None:
        """A planned trial without a record stays in the denominator."""
        history = History(stamps({"facts": 20}))
        night = history.manifest()
        decision = history.decision(of=night, facts=trials(night)[:50])
        assert decision.counts.planned == 60
        assert decision.broken is not None
        assert "10 no record" in decision.broken

    def test_nothing_was_planned(self) -> None:
        """A run of no trial has no rate and no verdict."""
        history = History(TWO)
        verdict = concluded(history.decision(of=manifest(21, ())))
        assert verdict.broken is not None
        assert verdict.counts.coverage is None
        assert verdict.exit_code == 3

    def test_unsound_records(self) -> None:
        """Records that a check found faulty are no evidence of anything."""
        night = replace(History(TWO).decision().night, unsound={"attempt_doubled": 2})
        verdict = concluded(Decision(night))
        assert verdict.broken == (
            "the records of the run are not sound, rows by check: attempt_doubled 2"
        )
        assert verdict.exit_code == 3


class TestOverdispersion:
    """Nights that vary more than their trials explain."""

    def test_it_takes_more_to_be_a_suspect(self) -> None:
        """With loud nights behind it a loss that would be a suspect is none, and a note says so."""
        worse = with_rounds(1.2, "facts")
        history = History(TWO)
        level = "rounds/category"
        assert "category" in {
            one.hypothesis.level for one in history.decision(worse).confirmation.suspects
        }
        loud = {f"rounds/{level}": [[3.0, -3.0]] * 14 for level in ("suite", "category", "tool")}
        decision = history.decision(worse, past_z=loud)
        suspects = {one.hypothesis.level for one in decision.confirmation.suspects}
        assert "category" not in suspects
        verdict = concluded(decision)
        assert verdict.overdispersion is not None
        assert verdict.overdispersion[level] == pytest.approx(6.0)
        assert any(f"night effects in {level}" in note for note in verdict.notes)

    def test_too_few_nights_know_nothing(self) -> None:
        """Below fourteen values nothing is scaled."""
        decision = History(TWO).decision(past_z={"rounds/suite": [[3.0]] * 13})
        assert concluded(decision).overdispersion == {"rounds/suite": 1.0}


class TestDirection:
    """More rounds and dollars are worse, more passes are better; sides can be swapped."""

    CASES = stamps({"facts": 6, "tone": 6}, trials=10)

    def decided(self, before: Behaviour, after: Behaviour) -> tuple[set[Any], set[Any]]:
        """Hypotheses over groups that are suspects, and those that are improved."""
        decision = History(self.CASES, nights=2, behaviour=before).decision(after)
        suspects = {
            (one.hypothesis.metric, one.hypothesis.level, one.hypothesis.group)
            for one in decision.confirmation.suspects
            if one.hypothesis.level != "case"
        }
        decision.confirmation.abandon()
        verdict = decision.verdict(FIRST_NIGHT)
        better = {
            (one.metric, one.level, one.group)
            for one in verdict.findings
            if one.state == "improved"
        }
        return suspects, better

    @pytest.mark.parametrize(
        ("good", "bad", "metric"),
        [
            (steady, by_chance(0.2, "facts"), "pass_rate"),
            (steady, with_rounds(3, "facts"), "rounds"),
            (with_cost(1), with_cost(3), "cost_usd"),
        ],
    )
    def test_swapping_the_sides_swaps_worse_and_better(
        self, good: Behaviour, bad: Behaviour, metric: Metric
    ) -> None:
        """What is a suspect one way is improved the other way, in this metric and no other."""
        worse, none_better = self.decided(good, bad)
        none_worse, better = self.decided(bad, good)
        assert worse
        assert worse == better
        assert {one[0] for one in worse} == {metric}
        assert none_better == none_worse == set()

    @seeded
    @given(
        st.sampled_from(METRICS),
        st.lists(
            st.tuples(
                st.lists(st.integers(0, 4), min_size=1, max_size=4),
                st.lists(st.integers(0, 4), min_size=1, max_size=4),
            ),
            min_size=1,
            max_size=5,
        ),
        st.sampled_from([1.0, 2.5]),
    )
    def test_any_comparison_mirrors(
        self, metric: Metric, rows: list[tuple[list[int], list[int]]], phi: float
    ) -> None:
        """Swapped sides give the mirrored estimate, and p for worse is p for better."""
        one_side = _table(rows, 0)
        other = _table(rows, 1)
        cases = one_side.case_ids
        forth = Comparison(one_side, other).compare(metric, cases, phi, 0.05)
        back = Comparison(other, one_side).compare(metric, cases, phi, 0.05)
        assert forth is not None
        assert back is not None
        assert forth.measured.p_worse == pytest.approx(back.measured.p_better)
        assert forth.measured.z == pytest.approx(-back.measured.z, abs=1e-9)
        if metric == "pass_rate":
            assert forth.measured.estimate == pytest.approx(-back.measured.estimate)
        elif metric == "rounds":
            assert forth.measured.estimate == pytest.approx(1 / back.measured.estimate)

    @seeded
    @given(st.sampled_from(METRICS), st.integers(2, 6), st.integers(2, 6))
    def test_worse_is_where_it_should_be(self, metric: Metric, cases: int, count: int) -> None:
        """Fewer passes, more rounds and more dollars give z > 0 and p for worse below one half."""
        good = _side(cases, count, {"outcome": "passed", "round_count": 3, "cost_usd": 0.03})
        bad = _side(cases, count, {"outcome": "failed", "round_count": 4, "cost_usd": 0.04})
        compared = Comparison(good, bad).compare(metric, good.case_ids, 1.0, 0.05)
        assert compared is not None
        assert compared.measured.z > 0
        assert compared.measured.p_worse < 0.5 < compared.measured.p_better


def _table(rows: Sequence[tuple[list[int], list[int]]], side: int) -> FactTable:
    """Facts whose outcome, rounds and dollars all come from one number a trial."""
    of = manifest(1, stamps({"facts": len(rows)}))
    facts: list[TrialFact] = []
    for stamp, row in zip(of.cases, rows, strict=True):
        for index, value in enumerate(row[side]):
            (one,) = trials(
                replace(of, cases=(stamp,)),
                lambda case, at, value=value: {  # type: ignore[misc]
                    "outcome": "passed" if value % 2 else "failed",
                    "round_count": value + 1,
                    "cost_usd": 0.01 * (value + 1),
                },
                {stamp.case_id: 1},
            )
            facts.append(replace(one, trial_index=index))
    return FactTable(facts)


def _side(cases: int, count: int, fields: Mapping[str, Any]) -> FactTable:
    of = manifest(1, stamps({"facts": cases}, trials=count))
    return FactTable(trials(of, lambda case, index: fields))


class TestHypotheses:
    """Which groups are asked about."""

    def test_of_two_tools_with_the_same_cases_the_one_that_moved_most_is_named(self) -> None:
        """Identical groups are one hypothesis, named after the larger shift."""
        of = manifest(1, stamps({"facts": 4, "tone": 4}))
        table = FactTable(trials(of))
        comparison = Comparison(table, table)
        names = ("facts-00", "facts-01", "facts-02")
        tools = {"aardvark": names, "find_files": names, "single": ("facts-00",)}
        hypotheses = build_hypotheses(
            comparison, {}, frozenset(), {"aardvark": 0.1, "find_files": 6.0}, tools
        )
        groups = {one.group for one in hypotheses if one.level == "tool"}
        assert groups == {"find_files"}

    def test_screen_level_of_passes_is_shared(self) -> None:
        """With h pass hypotheses of groups each has 1/h, at most 0.10; the suite keeps its own."""
        group = Hypothesis("pass_rate", "category", "facts", ("a", "b"))
        assert group.screen_level(CONSTANTS, 4) == 0.10
        assert group.screen_level(CONSTANTS, 40) == pytest.approx(1 / 40)
        assert replace(group, level="suite").screen_level(CONSTANTS, 40) == 0.03
        assert replace(group, level="case").screen_level(CONSTANTS, 40) == 0.003
        assert replace(group, metric="rounds").screen_level(CONSTANTS, 40) == 0.01

    def test_floors(self) -> None:
        """The smallest paged change by metric and level, as documented."""
        table = {
            (metric, level): Hypothesis(metric, level, "g", ("a",)).floor(CONSTANTS)
            for metric in METRICS
            for level in ("suite", "category", "tool", "case")
        }
        assert table == {
            ("pass_rate", "suite"): 0.02,
            ("pass_rate", "category"): 0.03,
            ("pass_rate", "tool"): 0.03,
            ("pass_rate", "case"): 0.30,
            ("rounds", "suite"): 0.05,
            ("rounds", "category"): 0.10,
            ("rounds", "tool"): 0.10,
            ("rounds", "case"): 0.30,
            ("cost_usd", "suite"): 0.05,
            ("cost_usd", "category"): 0.05,
            ("cost_usd", "tool"): 0.05,
            ("cost_usd", "case"): 0.05,
        }


GATE_STATES: tuple[GateState, ...] = (
    "passed",
    "passed_not_proven",
    "failed",
    "failed_marginal",
    "failed_unreproduced",
    "no_verdict",
)
FINDING_STATES: tuple[VerdictState, ...] = (
    "regressed",
    "improved",
    "no_worse",
    "inconclusive",
    "not_comparable",
)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    """Any verdict whose parts could stand beside each other."""
    counts = OutcomeCounts(
        planned=draw(st.integers(6, 9)),
        passed=draw(st.integers(0, 3)),
        failed=draw(st.integers(0, 3)),
    )
    gates = []
    for number, state in enumerate(draw(st.lists(st.sampled_from(GATE_STATES), max_size=3))):
        acts = state == "failed" and draw(st.booleans())
        gates.append(
            GateResult(
                f"category-{number}", 0.9, "page", "owner", state, acts, counts, 0.1, 0.9, ("c",)
            )
        )
    findings = tuple(
        Finding("rounds", "category", f"group-{number}", state, "within_noise", 0.1)
        for number, state in enumerate(draw(st.lists(st.sampled_from(FINDING_STATES), max_size=3)))
    )
    critical = (critical_failure(),) if draw(st.booleans()) else ()
    broken = draw(st.sampled_from([None, "only 3 of 9 planned trials were graded"]))
    is_worse = critical or any(one.state == "regressed" for one in findings)
    is_worse = is_worse or any(one.acts for one in gates)
    concluded_as: VerdictState = "regressed"
    if not is_worse:
        concluded_as = draw(st.sampled_from(FINDING_STATES[1:]))
    night = History(TWO).manifest()
    return Verdict(
        run_id=night.run_id,
        endpoint=night.endpoint,
        suite=night.suite,
        purpose="nightly",
        slot_at=night.slot_at,
        decided_at=night.planned_at,
        state=concluded_as,
        reason="",
        broken=broken,
        counts=counts,
        gates=tuple(gates),
        findings=findings,
        critical=critical,
        screen_runs=("night-002",) if draw(st.booleans()) else (),
    )


class TestExitCode:
    """Text, JSON and exit code come from one object."""

    @seeded
    @given(verdicts())
    def test_precedence(self, verdict: Verdict) -> None:
        """1 before 3 before 4 before 0, whatever else stands in the verdict."""
        is_worse = bool(verdict.critical) or "regressed" in {one.state for one in verdict.findings}
        is_worse = is_worse or any(one.acts for one in verdict.gates)
        is_silent = verdict.broken is not None or any(
            one.state == "no_verdict" for one in verdict.gates
        )
        if is_worse:
            expected = 1
        elif is_silent:
            expected = 3
        else:
            expected = 4 if verdict.state == "not_comparable" else 0
        assert verdict.exit_code == expected

    @seeded
    @given(verdicts())
    def test_all_three_agree(self, verdict: Verdict) -> None:
        """The last line of the text, the JSON and the property are one code with one meaning."""
        last = verdict_text(verdict, width=10_000).splitlines()[-1]
        shown = verdict_json(verdict)
        assert last == f"exit {verdict.exit_code}: {shown['exit_meaning']}"
        assert shown["exit_code"] == verdict.exit_code
        status = str(shown["status"])
        assert (
            status in {"CRITICAL FAILURE", "REGRESSED", "GATE FAILED"},
            status == "NO VERDICT",
            status == "NOT COMPARABLE",
        ) == (verdict.exit_code == 1, verdict.exit_code == 3, verdict.exit_code == 4)


def test_the_same_night_is_decided_the_same() -> None:
    """The order in which trials come in decides nothing."""
    worse = by_chance(0.6, "facts")
    history = History(TWO)
    night = history.manifest()
    facts = trials(night, worse)
    shuffled = random.Random(5).sample(facts, len(facts))

    def decided(given_facts: Sequence[TrialFact], of: Manifest = night) -> Verdict:
        decision = history.decision(of=of, facts=given_facts)
        rerun: Rerun = lambda batch, need: trials(of, worse, need, f"fresh-{batch}")  # noqa: E731
        return conclude_with(decision, rerun)

    one, other = decided(facts), decided(shuffled)
    assert states(one) == states(other)
    assert one.roots == other.roots
    assert one.counts == other.counts
