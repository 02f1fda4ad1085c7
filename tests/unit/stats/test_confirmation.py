"""The rerun: what it asks for, in which order, what stops it, and what it confirms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.stats.facts import (
    CONSTANTS,
    Behaviour,
    either,
    failing,
    gate,
    manifest,
    stamps,
    steady,
    trials,
)
from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.verdict import Level, Metric
from watchkeeper.stats.comparison import Comparison
from watchkeeper.stats.confirmation import Confirmation, Outcome
from watchkeeper.stats.gates import GateRerun, judge_gate
from watchkeeper.stats.hypotheses import Hypothesis
from watchkeeper.stats.screen import Screened

CASES = stamps({"facts": 8, "tone": 8}, trials=5)
NAMES = tuple(stamp.case_id for stamp in CASES)
FACTS = NAMES[:8]
TONE = NAMES[8:]
NIGHT = manifest(21, CASES)
BASELINE = FactTable(
    fact for number in range(1, 11) for fact in trials(manifest(number, CASES), steady)
)


def suspect(
    metric: Metric = "pass_rate",
    level: Level = "category",
    group: str = "facts",
    cases: Sequence[str] = FACTS,
    p: float = 0.001,
) -> Screened:
    """A hypothesis that the screen made a suspect with this p."""
    comparison = Comparison(BASELINE, FactTable(trials(NIGHT)))
    compared = comparison.compare(metric, cases, 1.0, 0.01)
    assert compared is not None
    return Screened(Hypothesis(metric, level, group, tuple(cases)), compared, p, is_suspect=True)


def confirmation(
    *suspects: Screened,
    gates: Sequence[GateRerun] = (),
    constants: DecisionConstants = CONSTANTS,
    phi: Mapping[str, float] | None = None,
    allowed: int | None = None,
) -> Confirmation:
    """The rerun of a night of 16 cases with five trials each."""
    return Confirmation(
        suspects=suspects,
        gates=gates,
        baseline=BASELINE,
        phi=phi or {},
        constants=constants,
        night_trials={stamp.case_id: stamp.trials for stamp in CASES},
        seed=7,
        allowed_trials=allowed,
    )


def play(rerun: Confirmation, behaviour: Any = steady, batches: int = 10) -> list[dict[str, int]]:
    """Gives batches until nothing more is wanted; what was asked for in each."""
    asked: list[dict[str, int]] = []
    while (need := rerun.next_batch()) and len(asked) < batches:
        asked.append(need)
        rerun.add(trials(NIGHT, behaviour, need, f"fresh-{len(asked)}"))
    return asked


def outcomes(rerun: Confirmation) -> dict[tuple[Metric, Level, str], Outcome]:
    """What became of each suspect."""
    return {
        (one.hypothesis.metric, one.hypothesis.level, one.hypothesis.group): outcome
        for one, outcome in rerun.decide()
    }


def of_rounds(count: int) -> Behaviour:
    """Every trial passes in so many rounds."""
    return lambda case, index: {"round_count": count}


ROOMY = replace(CONSTANTS, rerun_extra=1000)
WORSE = failing("*", indices=[0, 1])


class TestPlan:
    """What is asked for."""

    def test_nothing_without_a_suspect(self) -> None:
        """A night without suspects and gates costs no fresh trial."""
        assert confirmation().next_batch() == {}
        assert confirmation().decide() == []

    def test_a_case(self) -> None:
        """Five trials of the one case, once."""
        rerun = confirmation(suspect("rounds", "case", "facts-00", ["facts-00"]))
        tripled = either(steady, lambda case, index: {"round_count": 40})
        assert play(rerun, tripled) == [{"facts-00": 5}]
        assert outcomes(rerun) == {("rounds", "case", "facts-00"): "confirmed"}

    def test_a_category(self) -> None:
        """Three trials of each of its cases a batch, four batches, while it stays a suspect."""
        rerun = confirmation(suspect(), constants=ROOMY)
        assert play(rerun, WORSE) == [dict.fromkeys(FACTS, 3)] * 4

    def test_a_suite(self) -> None:
        """One trial a batch of every case of a small suite, four batches."""
        rerun = confirmation(suspect(level="suite", group="suite", cases=NAMES))
        assert play(rerun, WORSE) == [dict.fromkeys(NAMES, 1)] * 4

    def test_a_large_suite_is_sampled_once(self) -> None:
        """Of 600 cases the same 15 % of the night's trials, at least 60, in every batch."""
        many = stamps({"facts": 100}, trials=5)
        names = [stamp.case_id for stamp in many]
        table = FactTable(trials(manifest(1, many)))
        compared = Comparison(table, table).compare("pass_rate", names, 1.0, 0.03)
        assert compared is not None
        hypothesis = Hypothesis("pass_rate", "suite", "suite", tuple(names))

        def drawn(seed: int) -> tuple[str, ...]:
            rerun = Confirmation(
                [Screened(hypothesis, compared, 0.001, is_suspect=True)],
                [],
                table,
                {},
                CONSTANTS,
                dict.fromkeys(names, 5),
                seed,
            )
            return rerun.suspects[0].cases

        assert len(drawn(1)) == 75
        assert drawn(1) == drawn(1)
        assert drawn(1) != drawn(2)

    def test_shared_cases_are_run_once(self) -> None:
        """Two suspects over the same cases share their fresh trials."""
        rerun = confirmation(suspect("pass_rate"), suspect("rounds"), constants=ROOMY)
        assert rerun.next_batch() == dict.fromkeys(FACTS, 3)

    def test_a_suspect_takes_only_its_share(self) -> None:
        """A suite that shares a batch with a category counts one trial of each case, not three."""
        rerun = confirmation(
            suspect(), suspect(level="suite", group="suite", cases=NAMES), constants=ROOMY
        )
        need = rerun.next_batch()
        assert need == {**dict.fromkeys(NAMES, 1), **dict.fromkeys(FACTS, 3)}
        rerun.add(trials(NIGHT, WORSE, need, "fresh"))
        sizes = {one.hypothesis.level: len(one.fresh) for one in rerun.suspects}
        assert sizes == {"category": 24, "suite": 16}


class TestStopping:
    """What ends a suspect early."""

    def test_an_estimate_under_its_floor(self) -> None:
        """One batch without the loss ends it."""
        rerun = confirmation(suspect())
        assert len(play(rerun, steady)) == 1
        assert set(outcomes(rerun).values()) == {"not_confirmed"}

    def test_a_loss_that_may_be_chance(self) -> None:
        """A loss over the floor with p above one quarter after a batch ends it too."""
        flaky = FactTable(
            fact
            for number in range(1, 11)
            for fact in trials(manifest(number, CASES), failing("*", indices=[number % 5]))
        )
        rerun = Confirmation([suspect()], [], flaky, {}, ROOMY, dict.fromkeys(NAMES, 5), 7)
        six_of_24 = failing(*(f"facts-{n:02}" for n in range(6)), indices=[0])
        assert len(play(rerun, six_of_24)) == 1
        (one,) = rerun.suspects
        assert one.reaches_floor
        assert CONSTANTS.futility_p < one.p < 0.5
        assert set(outcomes(rerun).values()) == {"not_confirmed"}

    def test_never_accepted_early(self) -> None:
        """However clear the first batch, all four are made before anything is decided."""
        rerun = confirmation(suspect(), constants=ROOMY)
        assert len(play(rerun, failing("*"))) == 4

    def test_the_cap_of_the_night(self) -> None:
        """Half of the night's trials and sixty: batches end there, and what was seen decides."""
        tight = replace(CONSTANTS, rerun_extra=10)  # 50 trials: two batches of 24
        rerun = confirmation(suspect(), constants=tight)
        assert len(play(rerun, failing("*"))) == 2
        assert set(outcomes(rerun).values()) == {"confirmed"}

    def test_beyond_the_cap_from_the_start(self) -> None:
        """A suspect for which there was no room is reported as such, not as unconfirmed."""
        none = replace(CONSTANTS, rerun_share=0.0, rerun_extra=20)
        rerun = confirmation(
            suspect(p=0.001), suspect(group="tone", cases=TONE, p=0.002), constants=none
        )
        assert rerun.next_batch() == {}
        assert set(outcomes(rerun).values()) == {"budget"}

    def test_the_strongest_goes_first(self) -> None:
        """Where one group fits, it is the one with the smallest p; cases go before groups."""
        one = replace(CONSTANTS, rerun_share=0.0, rerun_extra=30)
        rerun = confirmation(
            suspect(p=0.002),
            suspect(group="tone", cases=TONE, p=0.001),
            suspect("rounds", "case", "facts-03", ["facts-03"], p=0.0029),
            constants=one,
        )
        assert rerun.next_batch() == {"facts-03": 5, **dict.fromkeys(TONE, 3)}
        rerun.add(trials(NIGHT, steady, rerun.next_batch(), "fresh"))
        assert outcomes(rerun)[("pass_rate", "category", "facts")] == "budget"

    def test_the_suite_may_pass_the_cap_and_not_the_money(self) -> None:
        """The procedure's cap does not hold for the suite; the run's budget holds for all."""
        none = replace(CONSTANTS, rerun_share=0.0, rerun_extra=0)
        whole = suspect(level="suite", group="suite", cases=NAMES)
        assert confirmation(whole, constants=none).next_batch()
        assert confirmation(whole, constants=none, allowed=15).next_batch() == {}
        assert confirmation(whole, constants=none, allowed=16).next_batch()

    def test_trials_that_were_skipped(self) -> None:
        """A batch that money cut short ends the suspect as over budget."""
        rerun = confirmation(suspect(), constants=ROOMY)
        cut = either(failing("*"), lambda case, index: {"outcome": "skipped"} if index else {})
        assert len(play(rerun, cut)) == 1
        assert set(outcomes(rerun).values()) == {"budget"}

    def test_abandoned(self) -> None:
        """After the fresh trials were served by something else nothing more is asked for."""
        rerun = confirmation(suspect(), suspect(group="tone", cases=TONE), constants=ROOMY)
        rerun.add(trials(NIGHT, failing("*"), rerun.next_batch(), "fresh"))
        rerun.abandon()
        assert rerun.next_batch() == {}
        assert set(outcomes(rerun).values()) == {"served_changed"}


class TestDecided:
    """Holm over all that were examined, and the floors."""

    def test_only_fresh_trials_against_the_other_baseline(self) -> None:
        """The confirmed numbers count fresh trials and the confirmation baseline alone."""
        rerun = confirmation(suspect(), constants=ROOMY)
        play(rerun, WORSE)
        compared = rerun.suspects[0].compared
        assert compared is not None
        assert compared.measured.candidate_trial_count == 96
        assert compared.measured.baseline_trial_count == 10 * 8 * 5
        assert compared.measured.estimate == pytest.approx(-2 / 3)

    def test_dropped_suspects_count(self) -> None:
        """A p that would do alone does not among many suspects, the dropped ones included."""
        alone = confirmation(suspect(), constants=ROOMY)
        play(alone, failing("facts-00", indices=[0]))
        p = alone.suspects[0].p
        assert alone.suspects[0].reaches_floor
        level = replace(ROOMY, night_alpha=p * 1.5)
        enough = confirmation(suspect(), constants=level)
        play(enough, failing("facts-00", indices=[0]))
        assert set(outcomes(enough).values()) == {"confirmed"}
        among = confirmation(suspect(), suspect(group="tone", cases=TONE), constants=level)
        play(among, failing("facts-00", indices=[0]))
        assert outcomes(among) == {
            ("pass_rate", "category", "facts"): "not_confirmed",
            ("pass_rate", "category", "tone"): "not_confirmed",
        }

    def test_those_without_room_do_not(self) -> None:
        """A suspect that was never examined takes no level from the others."""
        one_batch = replace(CONSTANTS, rerun_share=0.0, rerun_extra=40)
        alone = confirmation(suspect(), constants=one_batch)
        play(alone, failing("facts-00", indices=[0]))
        level = replace(one_batch, night_alpha=alone.suspects[0].p * 1.5)
        rerun = confirmation(suspect(), suspect(group="tone", cases=TONE, p=0.5), constants=level)
        play(rerun, failing("facts-00", indices=[0]))
        assert outcomes(rerun) == {
            ("pass_rate", "category", "facts"): "confirmed",
            ("pass_rate", "category", "tone"): "budget",
        }

    def test_over_dispersion_of_a_small_rerun_is_small(self) -> None:
        """Phi grows with the sample: it weighs on the confirmation by its share of the night."""
        ps = {}
        for phi in (1.0, 4.0):
            rerun = confirmation(suspect(), constants=ROOMY, phi={"pass_rate/category": phi})
            rerun.add(trials(NIGHT, failing("facts-0*", indices=[0]), rerun.next_batch(), "fresh"))
            ps[phi] = rerun.suspects[0].p
        assert ps[1.0] < ps[4.0] < 0.05

    @pytest.mark.parametrize(
        ("rounds", "expected"),
        [
            ({"round_count": 6}, "confirmed"),  # +2 rounds, +50 %
            ({"round_count": 5}, "not_confirmed"),  # +1 round, +25 %
        ],
    )
    def test_floors_of_a_cases_rounds(self, rounds: dict[str, int], expected: Outcome) -> None:
        """A case's median must rise by 30 % and by a whole round."""
        four = FactTable(
            fact
            for number in range(1, 11)
            for fact in trials(manifest(number, CASES), of_rounds(4))
        )
        rerun = Confirmation(
            [suspect("rounds", "case", "facts-00", ["facts-00"])],
            [],
            four,
            {},
            CONSTANTS,
            dict.fromkeys(NAMES, 5),
            7,
        )
        play(rerun, lambda case, index: rounds)
        assert outcomes(rerun) == {("rounds", "case", "facts-00"): expected}

    def test_half_a_round_is_no_round(self) -> None:
        """From one and a half rounds to two is a third more, and less than a round."""
        short = FactTable(
            fact
            for number in range(1, 11)
            for fact in trials(manifest(number, CASES), of_rounds(1 + number % 2))
        )
        many = replace(CONSTANTS, case_rerun_trials=20)
        rerun = Confirmation(
            [suspect("rounds", "case", "facts-00", ["facts-00"])],
            [],
            short,
            {},
            many,
            dict.fromkeys(NAMES, 5),
            7,
        )
        play(rerun, of_rounds(2))
        assert rerun.suspects[0].p < CONSTANTS.night_alpha
        assert outcomes(rerun) == {("rounds", "case", "facts-00"): "not_confirmed"}

    @pytest.mark.parametrize(("rounds", "expected"), [(108, "not_confirmed"), (112, "confirmed")])
    def test_floor_of_a_categorys_rounds(self, rounds: int, expected: Outcome) -> None:
        """Certain as it may be, eight per cent more rounds are not worth a page; twelve are."""
        long = FactTable(
            fact
            for number in range(1, 11)
            for fact in trials(manifest(number, CASES), of_rounds(100))
        )
        rerun = Confirmation([suspect("rounds")], [], long, {}, ROOMY, dict.fromkeys(NAMES, 5), 7)
        play(rerun, of_rounds(rounds))
        assert rerun.suspects[0].p < 1e-6
        assert outcomes(rerun) == {("rounds", "category", "facts"): expected}

    def test_one_runaway_trial_is_not_a_case(self) -> None:
        """A single trial of hundred rounds among five moves no median."""
        rerun = confirmation(suspect("rounds", "case", "facts-00", ["facts-00"]))
        play(rerun, either(steady, lambda case, at: {"round_count": 100} if at == 3 else {}))
        assert outcomes(rerun) == {("rounds", "case", "facts-00"): "not_confirmed"}


class TestGatesWithin:
    """Gates share the rerun."""

    def gate(self, threshold: float) -> GateRerun:
        """A marginally failed gate over the facts, by one failing case."""
        facts = [fact for fact in trials(NIGHT, failing("facts-00")) if fact.category == "facts"]
        result = judge_gate(gate("facts", threshold), facts, len(facts), "nightly", CONSTANTS)
        return GateRerun(result, FACTS, 5)

    def test_gate_and_suspect_share_their_trials(self) -> None:
        """The larger need of a case is run once and serves both."""
        hard = self.gate(1.0)
        rerun = confirmation(suspect(), gates=[hard], constants=ROOMY)
        need = rerun.next_batch()
        assert need == {**dict.fromkeys(FACTS, 3), "facts-00": 5}
        rerun.add(trials(NIGHT, failing("facts-00"), need, "fresh"))
        assert hard.conclude().fresh_graded == 7 * 3 + 5
        assert len(rerun.suspects[0].fresh) == 24

    def test_a_gate_that_is_not_due_asks_for_nothing(self) -> None:
        """A gate that passed, or failed clearly, costs no fresh trial."""
        passed = GateRerun(
            judge_gate(gate("facts", 0.5), trials(NIGHT), 80, "nightly", CONSTANTS), FACTS, 5
        )
        assert confirmation(gates=[passed]).next_batch() == {}


def test_batches_in_any_order_of_trials() -> None:
    """A batch is a set: the order in which its trials come in changes no p."""

    def given(reverse: bool) -> float:
        rerun = confirmation(suspect(), constants=ROOMY)
        fresh: list[TrialFact] = trials(NIGHT, WORSE, rerun.next_batch(), "fresh")
        rerun.add(fresh[::-1] if reverse else fresh)
        return rerun.suspects[0].p

    assert given(reverse=False) == pytest.approx(given(reverse=True), rel=1e-12)
