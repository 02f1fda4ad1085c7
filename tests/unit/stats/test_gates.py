"""Absolute gates: clear and marginal failures, hard gates, and when a failure acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.stats.facts import (
    CONSTANTS,
    History,
    concluded,
    either,
    failing,
    gate,
    manifest,
    stamps,
    steady,
    trials,
)
from watchkeeper.domain.run import GateStamp, Purpose
from watchkeeper.domain.suite import GateAction
from watchkeeper.domain.verdict import GateResult
from watchkeeper.stats.gates import (
    HARD_GATE_CASE_TRIALS,
    HARD_GATE_FRESH_TRIALS,
    GateRerun,
    judge_gate,
)


def judged(
    threshold: float,
    passed: int,
    failed: int,
    *,
    lost: int = 0,
    purpose: Purpose = "nightly",
    action: GateAction = "page",
    phi: float = 1.0,
) -> GateResult:
    """A gate over trials of as many cases, one trial each."""
    count = passed + failed + lost
    of = manifest(1, stamps({"facts": count}, trials=1))
    outcomes = ["passed"] * passed + ["failed"] * failed + ["harness_error"] * lost
    facts = trials(of, lambda case, index: {"outcome": outcomes[int(case[-2:])]})
    return judge_gate(gate("facts", threshold, action), facts, count, purpose, CONSTANTS, phi)


class TestJudged:
    """A gate before any rerun."""

    def test_far_above(self) -> None:
        """With the whole interval above the threshold the gate is passed."""
        result = judged(0.5, 38, 2)
        assert (result.state, result.acts) == ("passed", False)
        assert result.low is not None
        assert result.low > 0.5

    def test_above_but_not_proven(self) -> None:
        """12 of 12 under a hard gate is green, and the interval says what it does not prove."""
        result = judged(1.0, 12, 0)
        assert (result.state, result.acts) == ("passed_not_proven", False)
        assert result.low == pytest.approx(0.757, abs=0.001)

    def test_clearly_below(self) -> None:
        """With the whole interval below the threshold a failure acts without a rerun."""
        result = judged(0.85, 20, 20)
        assert (result.state, result.acts) == ("failed", True)
        assert result.high is not None
        assert result.high < 0.85

    def test_marginally_below(self) -> None:
        """Below within chance does not act yet."""
        result = judged(0.85, 33, 7)
        assert (result.state, result.acts) == ("failed_marginal", False)

    def test_a_hard_gate_is_never_clear(self) -> None:
        """Below 100 % even forty of forty failures are examined before anybody is woken."""
        result = judged(1.0, 0, 40)
        assert (result.state, result.acts) == ("failed_marginal", False)

    @pytest.mark.parametrize(("threshold", "passed", "failed"), [(0.85, 33, 7), (1.0, 19, 1)])
    def test_ci_acts_on_any_rate_below(self, threshold: float, passed: int, failed: int) -> None:
        """A run in CI has no later: whatever is below its gate fails it."""
        result = judged(threshold, passed, failed, purpose="ci")
        assert (result.state, result.acts) == ("failed", True)

    def test_exactly_at_the_gate(self) -> None:
        """17 of 20 is 85 %: not below a gate of 85 %, whatever floats make of it."""
        assert judged(0.85, 17, 3, purpose="ci").state == "passed_not_proven"

    @pytest.mark.parametrize("purpose", ["nightly", "ci"])
    def test_report_never_acts(self, purpose: Purpose) -> None:
        """A gate that only reports is shown as failed and stops nothing."""
        result = judged(0.85, 2, 38, purpose=purpose, action="report")
        assert (result.state, result.acts) == ("failed", False)

    def test_no_graded_trial(self) -> None:
        """A declared category without any score has no rate and no verdict; it is not green."""
        result = judged(0.5, 0, 0, lost=6)
        assert (result.state, result.acts) == ("no_verdict", False)
        assert result.counts.pass_rate is None
        assert (result.low, result.high) == (None, None)

    def test_no_case_at_all(self) -> None:
        """A gate that nothing was planned for has no verdict either."""
        assert judged(0.5, 0, 0).state == "no_verdict"

    def test_too_many_without_a_score(self) -> None:
        """Passing on 89 of 100 planned trials is no verdict, on 90 it is one."""
        assert judged(0.5, 89, 0, lost=11).state == "no_verdict"
        assert judged(0.5, 90, 0, lost=10).state == "passed"

    def test_a_failure_that_the_lost_trials_could_undo(self) -> None:
        """One failure of one graded trial, nineteen lost: no verdict, no page for the agent."""
        assert judged(0.85, 0, 1, lost=19).state == "no_verdict"
        assert judged(0.85, 0, 1, lost=19, purpose="ci").acts is False

    def test_a_failure_that_nothing_could_undo(self) -> None:
        """Below the gate even if all lost trials had passed, the gate has failed."""
        assert judged(0.85, 0, 10, lost=10).state == "failed"
        assert judged(1.0, 10, 1, lost=9).state == "failed_marginal"

    def test_overdispersion_widens_the_interval(self) -> None:
        """Where nights vary more than chance the same rate is less certainly below."""
        assert judged(0.85, 26, 14).state == "failed"
        assert judged(0.85, 26, 14, phi=4.0).state == "failed_marginal"

    def test_failing_cases_are_named(self) -> None:
        """Each failing case once, in a fixed order."""
        assert judged(0.85, 1, 2).failing_cases == ("facts-01", "facts-02")


def rerun_of(threshold: float, passed: int, failed: int, action: GateAction = "page") -> GateRerun:
    """The rerun of a failed gate over cases of one trial each."""
    result = judged(threshold, passed, failed, action=action)
    names = tuple(f"facts-{number:02}" for number in range(passed + failed))
    return GateRerun(result, names, 1)


def give(rerun: GateRerun, need: Mapping[str, int], failing_cases: Sequence[str] = ()) -> None:
    """The wanted fresh trials, in which some cases fail."""
    of = manifest(1, stamps({"facts": len(rerun.cases)}, trials=1))
    rerun.add(trials(of, failing(*failing_cases), need))


class TestSoftRerun:
    """A gate below 100 %, marginally failed."""

    def test_the_category_runs_once_more(self) -> None:
        """Every case as often as in the night, once; still below, it acts."""
        rerun = rerun_of(0.85, 33, 7)
        need = rerun.next_need()
        assert need == dict.fromkeys(rerun.cases, 1)
        give(rerun, need, ["facts-0*"])
        assert rerun.next_need() == {}
        result = rerun.conclude()
        assert (result.state, result.acts) == ("failed", True)
        assert (result.fresh_graded, result.fresh_passed) == (40, 30)

    def test_not_below_again(self) -> None:
        """At or above the gate in the rerun nobody is paged."""
        rerun = rerun_of(0.85, 33, 7)
        give(rerun, rerun.next_need(), ["facts-00"])
        result = rerun.conclude()
        assert (result.state, result.acts) == ("failed_unreproduced", False)
        assert (result.fresh_graded, result.fresh_passed) == (40, 39)

    def test_only_fresh_trials_decide(self) -> None:
        """The night's own failures are not counted again with the rerun's."""
        rerun = rerun_of(0.85, 33, 7)
        give(rerun, rerun.next_need(), [f"facts-{number:02}" for number in range(6)])
        assert rerun.conclude().state == "failed_unreproduced"  # 34 of 40 fresh trials pass

    @pytest.mark.parametrize(
        ("threshold", "passed", "failed"), [(0.85, 20, 20), (0.85, 38, 2), (0.85, 0, 0)]
    )
    def test_no_rerun_for_what_is_clear(self, threshold: float, passed: int, failed: int) -> None:
        """Neither a clear failure nor a pass nor a category without a verdict is rerun."""
        rerun = rerun_of(threshold, passed, failed)
        assert rerun.next_need() == {}
        assert rerun.conclude() == rerun.result

    def test_no_rerun_for_a_report(self) -> None:
        """Fresh trials cost money; a gate that only reports is not worth them."""
        rerun = rerun_of(0.85, 33, 7, action="report")
        assert rerun.next_need() == {}
        assert rerun.conclude().acts is False


class TestHardRerun:
    """A gate of 100 %."""

    def test_failing_cases_first(self) -> None:
        """Only the failing cases, five fresh trials each; one more failure reproduces it."""
        rerun = rerun_of(1.0, 10, 2)
        need = rerun.next_need()
        assert need == {"facts-10": HARD_GATE_CASE_TRIALS, "facts-11": HARD_GATE_CASE_TRIALS}
        give(rerun, need, ["facts-11"])
        assert rerun.next_need() == {}
        result = rerun.conclude()
        assert (result.state, result.acts) == ("failed", True)
        assert (result.fresh_graded, result.fresh_passed) == (10, 5)

    def test_then_the_category_up_to_sixty(self) -> None:
        """Where none fails again the category runs up to sixty; all passing, it is a ticket."""
        rerun = rerun_of(1.0, 10, 2)
        give(rerun, rerun.next_need())
        need = rerun.next_need()
        assert set(need) == set(rerun.cases)
        assert sum(need.values()) >= HARD_GATE_FRESH_TRIALS - 10
        give(rerun, need)
        assert rerun.next_need() == {}
        result = rerun.conclude()
        assert (result.state, result.acts) == ("failed_unreproduced", False)
        assert result.fresh_graded == result.fresh_passed >= HARD_GATE_FRESH_TRIALS

    def test_what_was_tried_counts_towards_sixty(self) -> None:
        """Four failing cases took twenty fresh trials; the twelve of the category take forty."""
        rerun = rerun_of(1.0, 8, 4)
        give(rerun, rerun.next_need())
        assert rerun.next_need() == dict.fromkeys(rerun.cases, 4)

    def test_another_case_fails_then(self) -> None:
        """A failure anywhere in the category is one further failure, and pages."""
        rerun = rerun_of(1.0, 10, 2)
        give(rerun, rerun.next_need())
        give(rerun, rerun.next_need(), ["facts-03"])
        assert rerun.conclude().acts

    def test_a_rerun_that_graded_nothing(self) -> None:
        """Without a fresh score the failure is neither reproduced nor said to be unreproduced."""
        rerun = rerun_of(1.0, 10, 2)
        of = manifest(1, stamps({"facts": 12}, trials=1))
        lost: Any = {"outcome": "harness_error"}
        rerun.add(trials(of, lambda case, index: lost, rerun.next_need()))
        rerun.add(trials(of, lambda case, index: lost, rerun.next_need()))
        result = rerun.conclude()
        assert (result.state, result.acts, result.fresh_graded) == ("failed_marginal", False, 0)


class TestInTheNight:
    """Gates as the decision runs them."""

    CASES = stamps({"facts": 8, "tone": 8})

    def history(self, *gates: GateStamp) -> History:
        """A history under these gates."""
        return History(self.CASES, gates)

    def test_one_gate_does_not_speak_for_another(self) -> None:
        """Each category is held against its own threshold and told to its own owner."""
        history = self.history(gate("facts", 0.9, owner="payments"), gate("tone", 0.9, "report"))
        worse = failing("facts-*", indices=[0, 1])
        verdict = concluded(history.decision(worse), worse)
        assert [(one.category, one.acts) for one in verdict.gates] == [
            ("facts", True),
            ("tone", False),
        ]
        assert [(one.kind, one.name, one.owner) for one in verdict.roots] == [
            ("gate", "facts", "payments")
        ]
        assert verdict.exit_code == 1

    def test_a_marginal_gate_is_rerun_before_it_acts(self) -> None:
        """Fresh trials that pass take the page away; the same failures again bring it."""
        history = self.history(gate("facts", 0.9))
        marginal = failing("facts-00")
        passing = history.decision(marginal)
        assert set(passing.confirmation.next_batch()) >= {f"facts-{n:02}" for n in range(8)}
        assert not concluded(passing, steady).acting_gates
        assert concluded(history.decision(marginal), marginal).acting_gates

    def test_ci_reruns_no_gate(self) -> None:
        """In CI a hard gate fails at once, without a fresh trial of its cases."""
        history = self.history(gate("facts", 1.0))
        night = history.manifest(purpose="ci")
        decision = history.decision(failing("facts-00", indices=[0]), of=night)
        assert decision.confirmation.next_batch() == {}
        verdict = concluded(decision)
        assert [one.category for one in verdict.acting_gates] == ["facts"]
        assert verdict.exit_code == 1

    def test_a_report_gate_leaves_exit_0(self) -> None:
        """Below a gate that only reports the run exits 0 and nobody is paged by the gate."""
        history = self.history(gate("facts", 0.99, "report"))
        night = history.manifest(purpose="ci")
        verdict = concluded(history.decision(failing("facts-00", indices=[0]), of=night))
        assert verdict.gates[0].state == "failed"
        assert verdict.exit_code == 0
        assert verdict.roots == ()

    def test_a_gate_outside_the_cap(self) -> None:
        """Gates are rerun even where no suspect could be, and the suspects give way."""
        history = self.history(gate("facts", 1.0))
        decision = history.decision(failing("facts-*"), allowed_fresh=0)
        assert decision.confirmation.next_batch() == dict.fromkeys(
            [f"facts-{number:02}" for number in range(8)], 5
        )

    def test_a_category_without_a_score_is_no_verdict(self) -> None:
        """All trials of one small category lost: the run exits 3 though the rest is graded."""
        history = History(stamps({"facts": 1, "tone": 19}), (gate("facts", 0.5), gate("tone", 0.5)))
        lost = either(
            steady,
            lambda case, index: {"outcome": "harness_error"} if case == "facts-00" else {},
        )
        verdict = concluded(history.decision(lost))
        assert verdict.broken is None
        assert [one.state for one in verdict.gates] == ["no_verdict", "passed"]
        assert verdict.exit_code == 3

    def test_one_page_for_one_cause(self) -> None:
        """What a failed gate explains is paged once: neither category nor suite come on top."""
        for threshold in (0.9, 1.0):
            history = self.history(gate("facts", threshold))
            worse = failing("facts-*", indices=[0, 1])
            verdict = concluded(history.decision(worse), worse)
            assert [(one.kind, one.name) for one in verdict.roots] == [("gate", "facts")]

    def test_another_loss_beside_a_failed_gate(self) -> None:
        """A second category that fell is paged too, with its own root."""
        history = self.history(gate("facts", 1.0), gate("tone", 0.01, "report", "writers"))
        worse = failing("facts-*", "tone-*", indices=[0, 1])
        verdict = concluded(history.decision(worse), worse)
        kinds = {(one.kind, one.name): one.owner for one in verdict.roots}
        assert kinds[("category", "tone")] == "writers"
        assert ("gate", "facts") in kinds
