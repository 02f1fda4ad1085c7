"""Trials that another model answered: told first, counted apart, never compared as one agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.unit.stats.facts import (
    CONSTANTS,
    Behaviour,
    History,
    concluded,
    either,
    failing,
    manifest,
    stamps,
    steady,
    trials,
)
from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.verdict import ServedShare
from watchkeeper.notifiers.headline import headline
from watchkeeper.notifiers.report import verdict_json, verdict_text
from watchkeeper.stats.decide import Baseline, Decision, Night
from watchkeeper.stats.served import alike_served, split_by_served, usual_models, without_strays

CASES = stamps({"facts": 20})
NOTHING = Baseline((), FactTable(()))


def answered_by(model: str | None, *, every: int = 1, category: str = "facts") -> Behaviour:
    """The first trial of every so-many-th case is answered by another model."""

    def behave(case_id: str, index: int) -> Mapping[str, Any]:
        is_meant = int(case_id.rpartition("-")[2]) % every == 0 and (index == 0 or every == 1)
        return {"served_model": model} if is_meant else {}

    return behave


def first(count: int, model: str) -> Behaviour:
    """The trials of the first so many cases are answered by another model."""
    return lambda case_id, index: (
        {"served_model": model} if int(case_id.rpartition("-")[2]) < count else {}
    )


def worse(model: str) -> Behaviour:
    """Everything that the first half's model answers takes five times the rounds and fails."""

    def behave(case_id: str, index: int) -> Mapping[str, Any]:
        if int(case_id.rpartition("-")[2]) >= 10:
            return {}
        return {"served_model": model, "round_count": 20, "outcome": "failed"}

    return either(steady, behave)


class TestWithHistory:
    """The baselines say what is usual."""

    def test_expected_model_needs_no_word(self) -> None:
        """Nothing is told and nothing is split where all is as ever."""
        verdict = concluded(History(CASES).decision())
        assert verdict.served == ()
        assert "answered by" not in verdict_text(verdict)

    def test_change_of_every_trial_is_a_change_and_no_split(self) -> None:
        """A model that moved before the run is compared as what changed."""
        decision = History(CASES).decision(either(steady, answered_by("model-v2")))
        verdict = concluded(decision)
        assert verdict.served == ()
        assert [one.what for one in verdict.changes] == ["served model"]
        assert verdict.compared_case_count == 20

    def test_few_strays_are_told_first_and_not_compared(self) -> None:
        """A fallback model's failures cannot make the expected model a suspect."""
        verdict = concluded(
            History(CASES).decision(
                either(failing("facts-00", "facts-10", indices=[0]), answered_by("other", every=10))
            )
        )
        assert verdict.served == (
            ServedShare("model-v1", 58, 58, 58, is_expected=True),
            ServedShare("other", 2, 2, 0, is_expected=False),
        )
        said = "2 of 60 trials were answered by other instead of model-v1"
        assert said in headline(verdict)
        lines = verdict_text(verdict).splitlines()
        assert lines[0].split(": ", 1)[1].startswith(said)
        assert any("model-v1 58/58 = 100 %, other 0/2 = 0 %" in line for line in lines)
        measured = [one.screened for one in verdict.findings if one.metric == "pass_rate"]
        assert [one.candidate_mean for one in measured if one is not None] == [1.0] * len(measured)
        assert verdict.counts.passed == 58

    def test_change_in_mid_run_is_not_pooled_into_a_verdict(self) -> None:
        """Half a run of a worse model is neither a regression of the other nor nothing."""
        verdict = concluded(History(CASES).decision(worse("model-v2")))
        assert (verdict.state, verdict.reason, verdict.exit_code) == (
            "not_comparable",
            "served_split",
            4,
        )
        assert headline(verdict).startswith(
            "NOT COMPARABLE: 30 of 60 trials were answered by model-v2 instead of model-v1"
        )
        assert verdict_json(verdict)["served"] == [
            {
                "model": "model-v1",
                "trial_count": 30,
                "graded": 30,
                "passed": 30,
                "is_expected": True,
            },
            {
                "model": "model-v2",
                "trial_count": 30,
                "graded": 30,
                "passed": 0,
                "is_expected": False,
            },
        ]

    def test_most_trials_say_what_the_endpoint_is_now(self) -> None:
        """After a change early in the run its first trials are the strays."""
        behaviour = either(steady, answered_by("model-v2"), first(1, "model-v1"))
        split = History(CASES).decision(behaviour).served
        assert split.expected == {"model-v2"}

    def test_usual_mix_is_no_split(self) -> None:
        """An agent with a helper model in some trials is the same agent every night."""
        mixed = either(steady, answered_by("model-v1+small", every=2))
        verdict = concluded(History(CASES, behaviour=mixed).decision(mixed))
        assert verdict.served == ()
        assert verdict.compared_case_count == 20

    def test_trial_without_an_answer_stays_where_it_is(self) -> None:
        """Nobody answered it, so nobody else did."""
        behaviour = either(steady, answered_by("other", every=10), _lost)
        decision = History(CASES).decision(behaviour)
        compared = decision.served.compared(decision.night.facts)
        assert len(compared) == 58
        assert [fact.case_id for fact in compared if fact.served_model is None] == ["facts-05"]


def _lost(case_id: str, index: int) -> Mapping[str, Any]:
    is_lost = (case_id, index) == ("facts-05", 1)
    return {"served_model": None, "outcome": "harness_error"} if is_lost else {}


class TestWithoutHistory:
    """What the provider said before the run is the measure."""

    def _night(self, behaviour: Behaviour, resolved: str | None = "model-v1") -> Night:
        of = manifest(1, CASES, identity=ServedIdentity("alias", resolved, harness_revision="a"))
        return Night(of, tuple(trials(of, behaviour)), NOTHING, NOTHING, (), {}, CONSTANTS)

    def test_every_trial_by_another_model(self) -> None:
        """A fallback from the first trial on is told, with what was resolved."""
        verdict = concluded(Decision(self._night(either(steady, answered_by("fallback")))))
        assert headline(verdict).startswith(
            "NO BASELINE YET: 60 of 60 trials were answered by fallback instead of model-v1"
        )

    def test_dated_version_of_the_resolved_model_is_it(self) -> None:
        """A list that names an alias, and answers that name its version, do not disagree."""
        dated = either(steady, answered_by("model-v1-20260501"))
        assert split_by_served(self._night(dated)).shares == ()

    def test_unverifiable_identity_contradicts_nothing(self) -> None:
        """Who was told nothing expects nothing; a mix is told all the same."""
        assert split_by_served(self._night(steady, None)).shares == ()
        mixed = either(steady, answered_by("other", every=10))
        shares = split_by_served(self._night(mixed, None)).shares
        assert [(one.model, one.is_expected) for one in shares] == [
            ("model-v1", True),
            ("other", False),
        ]


def test_one_mixed_night_makes_no_mix_usual() -> None:
    """A label counts as usual where half of the runs saw it."""
    mixed = either(steady, answered_by("other", every=10))
    facts = [
        fact
        for number in range(1, 5)
        for fact in trials(manifest(number, CASES), mixed if number == 1 else steady)
    ]
    assert usual_models(facts) == {"model-v1"}


def test_strays_of_a_baseline_night_are_left_out() -> None:
    """What another model answered then is no measure for the expected one now."""
    mixed = trials(manifest(1, CASES), either(steady, answered_by("other", every=10)))
    moved = trials(manifest(2, CASES), either(steady, answered_by("model-v2")))
    baseline = Baseline((), FactTable([*mixed, *moved]))
    kept = without_strays(baseline, frozenset({"model-v1"}))
    assert {fact.served_model for fact in kept.facts} == {"model-v1", "model-v2"}
    steady_nights = Baseline((), FactTable(trials(manifest(1, CASES))))
    assert without_strays(steady_nights, frozenset()) is steady_nights


def test_note_of_a_known_model_is_said_too() -> None:
    """A registry's copy, or a revision that could not be told, reaches the verdict."""
    history = History(CASES)
    identity = replace(history.manifest().identity, note="git says: no such commit")
    verdict = concluded(history.decision(of=history.manifest(identity=identity)))
    assert "git says: no such commit" in verdict.notes
    assert "git says: no such commit" in verdict_text(verdict)


def _answers(behaviour: Behaviour) -> list[TrialFact]:
    return trials(manifest(1, CASES), behaviour)


class TestFreshTrials:
    """What may confirm a night."""

    def test_stable_mix_loses_the_strays_only(self) -> None:
        """A fallback that answers a few fresh trials hides nothing of what the others show."""
        night = _answers(steady)
        fresh = _answers(first(4, "fallback"))
        kept, note = alike_served(fresh, night)
        assert kept == [fact for fact in fresh if fact.served_model != "fallback"]
        assert 0 < len(kept) < len(fresh)
        assert note is not None
        assert f"{len(fresh) - len(kept)} of {len(fresh)} fresh trials" in note
        assert "answered by fallback, not by" in note

    def test_most_by_another_leave_none(self) -> None:
        """The endpoint has moved on since the night."""
        fresh = _answers(first(11, "newest"))
        kept, note = alike_served(fresh, _answers(steady))
        assert kept == []
        assert note is not None
        assert "confirm nothing" in note

    def test_mix_of_the_night_confirms_the_mix(self) -> None:
        """Both models of a usual mix are the night's."""
        night = _answers(first(10, "other"))
        fresh = _answers(first(15, "other"))
        assert alike_served(fresh, night) == (list(fresh), None)

    def test_unanswered_fresh_trials_stay(self) -> None:
        """A trial without an answer is unresolved, not another model's."""
        fresh = _answers(answered_by(None))
        assert alike_served(fresh, _answers(steady)) == (list(fresh), None)
