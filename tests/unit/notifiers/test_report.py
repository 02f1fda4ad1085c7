from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.notifiers.example_verdicts import (
    amounts_gate_run,
    every_verdict,
    find_files_night,
    first_night,
    half_outage_night,
    tone_night,
)
from tests.unit.notifiers.hostile import HOSTILE
from tests.unit.notifiers.snapshot import assert_json, assert_text
from tests.unit.notifiers.verdict_parts import RUN_ID, counts, finding, gate, measured, verdict
from watchkeeper.domain.verdict import Finding, GateResult, Verdict
from watchkeeper.notifiers import headline
from watchkeeper.notifiers.report import gate_lines, verdict_json, verdict_text


@pytest.mark.parametrize("name", every_verdict())
def test_reports_read_exactly_like_this(name: str) -> None:
    """The report of every kind of verdict is pinned."""
    assert_text(f"report_{name}.txt", verdict_text(every_verdict()[name]))


@pytest.mark.parametrize("name", every_verdict())
def test_the_json_of_every_kind_of_verdict_is_pinned(name: str) -> None:
    """People script against these keys."""
    assert_json(f"verdict_{name}.json", verdict_json(every_verdict()[name]))


@pytest.mark.parametrize("name", every_verdict())
def test_text_json_and_exit_code_agree(name: str) -> None:
    """One verdict object drives everything: no output can say more or less than another."""
    one = every_verdict()[name]
    text, data = verdict_text(one), verdict_json(one)
    assert f"exit {one.exit_code}: {headline.exit_meaning(one)}" in text.replace("\n", " ")
    assert data["exit_code"] == one.exit_code
    assert data["state"] == one.state
    assert " ".join(text.split()).startswith(str(data["headline"]))
    assert str(data["headline"]).startswith(str(data["status"]))
    assert len(data) == len(verdict_json(verdict()))
    json.loads(json.dumps(data, allow_nan=False))


EXIT_OF_STATUS = {
    "CRITICAL FAILURE": 1,
    "REGRESSED": 1,
    "GATE FAILED": 1,
    "NO VERDICT": 3,
    "NOT COMPARABLE": 4,
    "BELOW A GATE THAT ONLY REPORTS": 0,
    "NO BASELINE YET": 0,
    "IMPROVED": 0,
    "NO WORSE": 0,
    "INCONCLUSIVE": 0,
}


@pytest.mark.parametrize("name", every_verdict())
def test_the_status_word_fixes_the_exit_code(name: str) -> None:
    """No report can read as a failure and exit 0, or the other way round."""
    one = every_verdict()[name]
    for gates in (
        one.gates,
        (gate("tone", 0.9, counts(5, 5), "failed", 0.2, 0.8, acts=True),),
        (gate("tone", 0.9, counts(5, 5), "failed", 0.2, 0.8, action="report"),),
        (gate("tone", 0.9, counts(0, missing=5), "no_verdict", None, None),),
    ):
        for state in ("regressed", "improved", "no_worse", "inconclusive", "not_comparable"):
            changed = replace(one, gates=gates, state=state)
            assert EXIT_OF_STATUS[headline.status(changed)] == changed.exit_code


def test_the_gate_lines_of_article_a4() -> None:
    """93 % overall, three wrong amounts in twenty, exit 1."""
    lines = gate_lines(amounts_gate_run())
    assert lines == [
        "ok   refusal           12/12 = 100 % (gate 100 %)  76–100, not proven",
        "ok   tone              38/40 = 95 % (gate 85 %)    84–99, not proven",
        "GATE amount_extraction 17/20 = 85 % (gate 100 %)   64–95",
        "     action block, owner payments; failing: transfer-dots, transfer-thousands,"
        " transfer-comma",
        "     overall           67/72 = 93 %                shown, not gating",
    ]
    assert verdict_text(amounts_gate_run()).endswith("exit 1: failed gate: amount_extraction\n")


@pytest.mark.parametrize(
    ("one", "first", "second"),
    [
        (
            gate("tone", 0.85, counts(33, 7), "failed_marginal", 0.68, 0.92),
            "low  tone    33/40 = 82 % (gate 85 %)  68–92",
            "within chance of the threshold, not rerun",
        ),
        (
            gate("tone", 1.0, counts(39, 1), "failed_unreproduced", 0.87, 1.0, fresh=(60, 60)),
            "low  tone    39/40 = 98 % (gate 100 %)  87–100",
            "rerun 60/60 = 100 %; did not fail again; blocked until somebody labels it",
        ),
        (
            gate("tone", 0.85, counts(33, 7), "failed_unreproduced", 0.68, 0.92, fresh=(38, 40)),
            "low  tone    33/40 = 82 % (gate 85 %)  68–92",
            "not below it again in the rerun",
        ),
        (
            gate("tone", 0.85, counts(20, 20), "failed", 0.35, 0.65, action="report"),
            "low  tone    20/40 = 50 % (gate 85 %)  35–65",
            "action report, owner tools-team; it stops nothing",
        ),
        (
            gate("tone", 1.0, counts(39, 1), "failed_unreproduced", 0.87, 1.0),
            "low  tone    39/40 = 98 % (gate 100 %)  87–100",
            "the rerun graded nothing",
        ),
    ],
)
def test_a_gate_below_its_threshold_says_why_it_does_not_act(
    one: GateResult, first: str, second: str
) -> None:
    """Marginal, unreproduced and report-only failures are shown, and never as ok."""
    lines = gate_lines(verdict(gates=(one,)))
    assert lines[0] == first
    assert second in lines[1]


def test_a_gate_without_a_verdict_is_neither_ok_nor_failed() -> None:
    """Missing trials never make a gate green."""
    line, overall = gate_lines(half_outage_night())
    assert line == "???? read_only 30/31 = 97 % (gate 100 %)  31/60 graded, no verdict"
    assert overall.endswith("shown, not gating, 31/60 graded")
    nothing = gate("tone", 0.9, counts(0, missing=5), "no_verdict", None, None)
    assert "0/0 = undefined" in gate_lines(verdict(gates=(nothing,)))[0]


def test_planned_graded_and_missing_are_always_said() -> None:
    """Half an outage is visible, with what the rate would be had every missing trial failed."""
    text = " ".join(verdict_text(half_outage_night()).split())
    assert "60 planned, 31 graded (52 %), 29 missing: 20 harness errors, 3 grader errors" in text
    assert "Had all of them failed: 30/60 = 50 %" in text
    assert "36 planned, 36 graded (100 %), 0 missing" in verdict_text(verdict())
    empty = verdict_text(verdict(counts=counts(0), gates=(), broken="no case was selected"))
    assert "0 planned, 0 graded (undefined), 0 missing" in empty
    assert "100 %" not in empty


def test_what_changed_stands_before_gates_and_findings() -> None:
    """A stricter judge or another model is told before anything is called worse."""
    text = verdict_text(find_files_night())
    order = [text.index(word) for word in ("\nchanged\n", "\ngates\n", "\nworse, confirmed\n")]
    assert order == sorted(order)


def test_what_did_not_move_is_counted_and_not_listed() -> None:
    """A quiet night of 200 comparisons is a few lines, not 2,342."""
    quiet: list[Finding] = [
        finding(
            "rounds", "case", f"case-{index}", "inconclusive", "within_noise",
            screened=measured(1.0, 0.9, 1.1),
        )
        for index in range(200)
    ]  # fmt: skip
    text = verdict_text(verdict(findings=tuple(quiet)))
    assert "200 inconclusive: within noise" in text
    assert "case-7" not in text
    assert text.count("\n") < 40


def test_suspects_are_listed_and_fail_nothing() -> None:
    """A suspicion is shown with its numbers, under a heading that says what it is not."""
    text = verdict_text(tone_night())
    assert "suspected, nothing fails on it" in text
    assert "case sarcasm-9" in text
    assert "better; re-read before you trust it" in text


def test_long_lists_are_cut_with_a_count() -> None:
    """Forty removed cases are forty, though eight are named."""
    names = tuple(f"case-{index}" for index in range(40))
    text = verdict_text(verdict(removed_cases=names))
    assert "40 removed: case-0, " in text
    assert "and 32 more" in text


def test_the_next_command_fits_the_verdict() -> None:
    """There is always one, and it is the one that helps."""
    expected = {
        "quiet": f"next: watchkeeper diff {RUN_ID} --against previous",
        "find_files": "next: watchkeeper run discovery -e demo-agent --case activation-events",
        "half_outage": "next: watchkeeper run discovery -e demo-agent",
        "first_record": "next: watchkeeper nightly",
        "judge_change": "next: watchkeeper baseline show discovery -e demo-agent",
    }
    for name, command in expected.items():
        assert command in verdict_text(every_verdict()[name])


def test_a_first_record_is_not_a_failure_and_not_a_pass() -> None:
    """Night one says that nothing was compared."""
    text = verdict_text(first_night())
    assert text.startswith("NO BASELINE YET: pass rate 34/40 = 85 %; no history, nothing compared")
    assert "nothing was compared, so a change could not have been seen" in text


@pytest.mark.parametrize("width", [20, 60, 100, 300])
def test_lines_keep_to_the_width_unless_they_are_to_be_copied(width: int) -> None:
    """Prose wraps; gate lines, ids and commands stay whole."""
    for line in verdict_text(tone_night(), width=width).splitlines():
        is_table = line.startswith(("  GATE", "  ok", "  low", "       "))
        longest = max((len(word) for word in line.split()), default=0)
        limit = max(width, 40, longest + 4)
        assert is_table or line.startswith("next:") or len(line) <= limit


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_forge_nothing(text: str) -> None:
    """Text from a model cannot move the cursor, colour the screen or fake a gate line."""
    one: Verdict = replace(
        tone_night(),
        endpoint=text,
        suite=text,
        broken=None,
        reason=text,
        notes=(text,),
        added_cases=(text,),
        gates=(gate(text, 0.9, counts(5, 5), "failed", 0.2, 0.8, acts=True, failing=(text,)),),
    )
    shown = verdict_text(one)
    assert not any(ord(char) < 32 and char != "\n" for char in shown)
    assert not any(0x7F <= ord(char) <= 0x9F or 0xD800 <= ord(char) <= 0xDFFF for char in shown)
    assert "\nok   tone 40/40" not in shown
    data = verdict_json(one)
    json.dumps(data, allow_nan=False, ensure_ascii=False).encode()


def test_json_has_no_number_that_is_not_one() -> None:
    """NaN and infinities become null, which every parser reads."""
    odd = measured(float("nan"), float("-inf"), float("inf"), smallest_detectable=float("nan"))
    one = verdict(
        findings=(finding("rounds", "suite", "suite", "inconclusive", screened=odd),),
        overdispersion={"rounds/suite": float("inf")},
    )
    data = json.loads(json.dumps(verdict_json(one), allow_nan=False))
    assert data["findings"][0]["screened"]["estimate"] is None
    assert data["findings"][0]["screened"]["high"] is None
    assert data["overdispersion"] == {"rounds/suite": None}
    assert "unknown" in verdict_text(one)


def _keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_keys(one) for one in value.values()))
    return set().union(*(_keys(one) for one in value)) if isinstance(value, list) else set()


def test_every_key_is_documented() -> None:
    """docs/json.md names each key that a script can meet."""
    documented = (Path(__file__).parents[3] / "docs" / "json.md").read_text(encoding="utf-8")
    data = [verdict_json(replace(one, overdispersion=None)) for one in every_verdict().values()]
    missing = sorted(key for key in _keys(data) if f"`{key}`" not in documented)
    assert missing == []
