"""What differs from the baselines, and the tools and cases that show a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.stats.facts import failing, manifest, stamps, trials
from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.facts import FactTable, outcome_counts
from watchkeeper.domain.run import Manifest
from watchkeeper.domain.verdict import Change
from watchkeeper.stats import evidence
from watchkeeper.stats.changes import (
    served_models,
    unpriced_trials,
    unverified_identities,
    what_changed,
    what_stayed,
)

CASES = stamps({"facts": 4})
BEFORE = [manifest(number, CASES) for number in (1, 2)]
PAST = [fact for one in BEFORE for fact in trials(one)]


def identity(served: str, requested: str = "alias") -> ServedIdentity:
    """A model that the provider names, under the harness of all other nights."""
    return ServedIdentity(requested, served, harness_revision="abc")


SERVED_V2: Mapping[str, Any] = {"served_model": "model-v2"}


def changed(of: Manifest, served: Mapping[str, Any] | None = None) -> tuple[Change, ...]:
    """What differs between two nights and a third."""
    return what_changed(BEFORE, PAST, of, trials(of, lambda case, index: served or {}))


class TestWhatChanged:
    """Everything that may be the cause."""

    def test_nothing(self) -> None:
        """The same again differs in nothing, and what was compared is named."""
        of = manifest(3, CASES)
        assert changed(of) == ()
        assert what_stayed(BEFORE, PAST, of, trials(of)) == (
            "served model",
            "harness (abc)",
            "endpoint settings",
            "suite",
            "graders",
            "prices",
        )

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (
                {"identity": ServedIdentity("alias", "model-v1", harness_revision="def+dirty")},
                Change("harness revision", "abc", "def+dirty"),
            ),
            ({"endpoint_config_hash": "other"}, Change("endpoint settings", "settings", "other")),
            ({"suite_hash": "other"}, Change("suite", "suite", "other")),
            (
                {"graders": {"must_mention": 2}},
                Change("graders", "must_mention 1", "must_mention 2"),
            ),
            ({"price_table_version": "dearer"}, Change("price table", "prices", "dearer")),
            ({"engine_version": "0.2.0"}, Change("watchkeeper", "0.1.0", "0.2.0")),
            (
                {"identity": ServedIdentity("alias", "model-v1")},
                Change("harness revision", "abc", "unknown"),
            ),
        ],
    )
    def test_each_part(self, given: dict[str, Any], expected: Change) -> None:
        """Each recorded part is told alone, with what it was and what it is."""
        assert changed(manifest(3, CASES, **given)) == (expected,)

    def test_the_served_model_is_what_answered(self) -> None:
        """The trials say which model answered, even where the provider's list says otherwise."""
        of = manifest(3, CASES)
        assert changed(of, SERVED_V2) == (Change("served model", "model-v1", "model-v2"),)

    @pytest.mark.parametrize("resolved", ["model-v1", "model-v3"])
    def test_where_nothing_answered_nothing_is_known(self, resolved: str) -> None:
        """What would have answered neither changed nor stayed, whatever the provider lists."""
        of = manifest(3, CASES, identity=identity(resolved))
        silent: Mapping[str, Any] = {"served_model": None}
        assert changed(of, silent) == ()
        facts = trials(of, lambda case, index: silent)
        assert "served model" not in what_stayed(BEFORE, PAST, of, facts)

    def test_before_any_answer_it_is_what_was_resolved(self) -> None:
        """Where the baseline's trials do not say it, the identity resolved before it stands in."""
        of = manifest(3, CASES)
        past = [replace(fact, served_model=None) for fact in PAST]
        assert what_changed(BEFORE, past, of, trials(of, lambda case, index: SERVED_V2)) == (
            Change("served model", "model-v1", "model-v2"),
        )

    def test_another_request_is_one_change(self) -> None:
        """Asking for another model is not told twice, as request and as what was served."""
        of = manifest(3, CASES, identity=identity("model-v2", "other"))
        assert changed(of, SERVED_V2) == (Change("requested model", "alias", "other"),)

    def test_the_newest_baseline_counts(self) -> None:
        """A change that a baseline night has seen already is none of tonight's."""
        seen = [BEFORE[0], replace(BEFORE[1], suite_hash="newer")]
        of = manifest(3, CASES, suite_hash="newer")
        assert what_changed(seen, PAST, of, trials(of)) == ()

    def test_unknown_is_not_the_same(self) -> None:
        """What is unknown on both sides is neither changed nor called unchanged."""
        nobody = ServedIdentity("alias", None)
        before = [replace(one, identity=nobody) for one in BEFORE]
        of = manifest(3, CASES, identity=nobody)
        silent = trials(of, lambda case, index: {"served_model": None})
        past = [replace(fact, served_model=None) for fact in PAST]
        assert what_changed(before, past, of, silent) == ()
        stayed = what_stayed(before, past, of, silent)
        assert "served model" not in stayed
        assert not [one for one in stayed if one.startswith("harness")]


class TestUnverified:
    """What could not be verified is said."""

    def test_all_is_known(self) -> None:
        """A resolved model and a known revision need no note."""
        of = manifest(3, CASES)
        assert unverified_identities(of, trials(of)) == ()

    def test_the_provider_does_not_say(self) -> None:
        """A model that only the answers name is a weaker identity, with the reason."""
        of = manifest(
            3, CASES, identity=ServedIdentity("alias", None, harness_revision="abc", note="no list")
        )
        (note,) = unverified_identities(of, trials(of))
        assert note == "served model seen only in responses (model-v1): no list"

    def test_nobody_says(self) -> None:
        """Where no trial names a model that is the note."""
        of = manifest(3, CASES)
        silent = trials(of, lambda case, index: {"served_model": None})
        assert unverified_identities(of, silent) == ("no trial said which model answered",)

    def test_several_models_within_a_run(self) -> None:
        """A roll-over in the middle of a night is told with both names."""
        of = manifest(3, CASES)
        mixed = trials(of, lambda case, index: SERVED_V2 if index else {})
        assert served_models(mixed) == ("model-v1", "model-v2")
        assert unverified_identities(of, mixed) == (
            "several models answered within the run: model-v1, model-v2",
        )

    def test_no_revision(self) -> None:
        """A harness whose revision is not recorded is said to be so, with what to set."""
        of = manifest(3, CASES, identity=ServedIdentity("alias", "model-v1"))
        (note,) = unverified_identities(of, trials(of))
        assert "harness.revision.git" in note


OLD = FactTable(trials(manifest(1, CASES), lambda case, index: {"tool_calls": {"find": 2}}))
NAMES = OLD.case_ids


def table(**fields: Any) -> FactTable:
    """A night whose trials all have these fields."""
    return FactTable(trials(manifest(2, CASES), lambda case, index: fields))


class TestTools:
    """How the use of tools moved."""

    def test_calls_and_fruitless_calls(self) -> None:
        """Calls per trial before and after, over the cases that use the tool."""
        after = table(tool_calls={"find": 8}, fruitless_calls={"find": 6})
        (shift,) = evidence.tool_shifts(OLD, after, NAMES)
        assert (shift.tool, shift.case_count) == ("find", 4)
        assert (shift.calls_before, shift.calls_after) == (2.0, 8.0)
        assert (shift.fruitless_before, shift.fruitless_after) == (0.0, 6.0)

    def test_a_tool_that_came_and_one_that_went(self) -> None:
        """Both are shifts, the larger first; those under half a call are not worth a line."""
        after = table(tool_calls={"list": 5, "find": 2, "read": 0})
        shifts = evidence.tool_shifts(OLD, after, NAMES)
        assert [one.tool for one in shifts if one.case_count] == ["list", "find"]
        assert [one.tool for one in evidence.moved(shifts)] == ["list"]

    def test_unresolved_trials_do_not_count(self) -> None:
        """A trial that the infrastructure cut off says nothing about how a tool is used."""
        after = FactTable(
            trials(
                manifest(2, CASES),
                lambda case, index: (
                    {"outcome": "harness_error", "tool_calls": {"find": 100}}
                    if index
                    else {"tool_calls": {"find": 2}}
                ),
            )
        )
        assert evidence.moved(evidence.tool_shifts(OLD, after, NAMES)) == ()

    def test_every_case_weighs_the_same(self) -> None:
        """A case with many trials does not speak for the others."""
        many = trials(
            manifest(2, CASES),
            lambda case, index: {"tool_calls": {"find": 10 if case == "facts-00" else 2}},
            {"facts-00": 30, "facts-01": 1, "facts-02": 1, "facts-03": 1},
        )
        (shift,) = evidence.tool_shifts(OLD, FactTable(many), NAMES)
        assert shift.calls_after == 4.0

    def test_which_cases_use_a_tool(self) -> None:
        """A tool's cases are those in which any trial called it."""
        facts = trials(
            manifest(2, CASES),
            lambda case, index: {"tool_calls": {"find": int(case == "facts-02" and index == 1)}},
        )
        assert evidence.tools_of(FactTable(facts)) == {"find": ("facts-02",)}


class TestBarren:
    """Rounds that brought nothing."""

    def test_share_of_all_rounds(self) -> None:
        """Barren over rounds, summed over trials, resolved ones only."""
        facts = trials(
            manifest(2, CASES),
            lambda case, index: {"round_count": 4 + index, "barren_round_count": index},
        )
        lost = [replace(facts[0], outcome="harness_error", round_count=99, barren_round_count=99)]
        assert evidence.barren_rate(FactTable([*facts, *lost]), NAMES) == pytest.approx(3 / 15)

    def test_undefined_without_a_round(self) -> None:
        """No round is no share, rather than none barren."""
        assert evidence.barren_rate(FactTable(()), NAMES) is None
        assert evidence.barren_rate(table(round_count=0), NAMES) is None


class TestExemplars:
    """Cases that show it."""

    def test_those_that_moved_most(self) -> None:
        """The worst first, at most as many as asked for, with what they did before and after."""
        after = FactTable(
            trials(
                manifest(2, CASES),
                lambda case, index: {
                    "round_count": 4 + 3 * int(case[-1]),
                    "tool_calls": {"find": 2},
                },
            )
        )
        shown = evidence.exemplars("rounds", OLD, after, NAMES, 2)
        assert [one.case_id for one in shown] == ["facts-03", "facts-02"]
        assert (shown[0].rounds_before, shown[0].rounds_after) == (4.0, 13.0)
        assert shown[0].note == ""

    def test_what_did_not_get_worse_is_none(self) -> None:
        """Cases that stayed or got better are not shown as exemplars."""
        assert evidence.exemplars("rounds", OLD, table(round_count=2), NAMES, 3) == []
        assert evidence.exemplars("cost_usd", OLD, table(cost_usd=None), NAMES, 3) == []

    def test_wrong_answers(self) -> None:
        """For answers the trial that is shown is one that failed."""
        after = FactTable(trials(manifest(2, CASES), failing("facts-02", indices=[1])))
        (shown,) = evidence.exemplars("pass_rate", OLD, after, NAMES, 3)
        assert (shown.passed_before, shown.passed_after, shown.graded_after) == (3, 2, 3)
        assert shown.trial_id == "night-002/facts-02/1"

    def test_failing_cases_without_a_past(self) -> None:
        """On a first night the failing cases are shown although there is nothing before."""
        after = FactTable(trials(manifest(2, CASES), failing("facts-02", "facts-01")))
        shown = evidence.failing_exemplars(FactTable(()), after, NAMES, 3)
        assert [one.case_id for one in shown] == ["facts-01", "facts-02"]
        assert (shown[0].graded_before, shown[0].rounds_before) == (0, None)


def test_outcomes_add_up() -> None:
    """Every planned trial has one outcome or is missing; coverage counts the scored ones."""
    outcomes = ("passed", "failed", "harness_error", "grader_error", "skipped", "passed")
    facts = [
        replace(fact, outcome=outcome)  # type: ignore[arg-type]
        for fact, outcome in zip(trials(manifest(1, CASES)), outcomes, strict=False)
    ]
    counts = outcome_counts(facts, 12)
    assert (counts.passed, counts.failed, counts.graded, counts.missing) == (2, 1, 3, 6)
    assert counts.coverage == 0.25
    assert counts.worst_pass_rate == pytest.approx(2 / 12)


class TestUnpriced:
    """A cost that nobody knows is told, never taken for 0."""

    def test_is_said_once_for_the_whole_run(self) -> None:
        """How many trials, of which models, and what to do."""
        of = manifest(3, CASES)
        facts = trials(of, lambda case, index: {"cost_usd": None if index else 0.04})
        (note,) = unpriced_trials(facts)
        assert note.startswith("cost unknown in 8 of 12 trials (model-v1): no price in config/")

    def test_what_is_known_is_not_told(self) -> None:
        """Neither a priced trial, nor one that never ran."""
        of = manifest(3, CASES)
        assert unpriced_trials(trials(of)) == ()
        nothing = {"cost_usd": None, "round_count": 0, "outcome": "skipped"}
        assert unpriced_trials(trials(of, lambda case, index: nothing)) == ()
