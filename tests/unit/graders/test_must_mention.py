"""must_mention: the answer contains a text, compared as stated."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.grade import Grade, GradingContext
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.graders import build_graders

E_COMPOSED, E_DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(
    ("value", "answer", "outcome"),
    [
        ("onStartupFinished", "It declares onStartupFinished only.", "passed"),
        ("onStartupFinished", "It declares onstartupfinished only.", "failed"),
        ("onStartupFinished", "It declares nothing.", "failed"),
        ({"text": "onStartupFinished", "case": "ignore"}, "ONSTARTUPFINISHED", "passed"),
        ({"text": "STRASSE", "case": "ignore"}, "in der Straße", "passed"),
        (E_COMPOSED, f"un {E_DECOMPOSED} cortado", "passed"),
        (E_DECOMPOSED, f"un {E_COMPOSED} cortado", "passed"),
        ("cafe", f"un {E_DECOMPOSED} cortado", "failed"),
        ({"text": E_COMPOSED, "normalise": "none"}, E_DECOMPOSED, "failed"),
        ("two words", "two  words", "failed"),
        ({"text": "two words", "normalise": "whitespace"}, "two \n\u00a0words", "passed"),
        ({"text": "1 500", "normalise": "whitespace"}, "1\u202f500 pesos", "passed"),
        ("10", "the answer is 100", "passed"),  # a text, not a word and not a number
    ],
)
def test_the_text_is_looked_for_as_stated(
    grade: Callable[..., Grade], value: object, answer: str, outcome: str
) -> None:
    """Exact case after NFC is the default; everything looser is asked for by name."""
    assert grade("must_mention", value, answer=answer).outcome == outcome


def test_each_text_of_a_list_is_an_assertion_of_its_own() -> None:
    """A list of two texts gives two grades, so that the reader sees which is missing."""
    built = build_graders("must_mention", ["one", {"text": "two", "severity": "critical"}])
    assert [(one.assertion, one.severity) for one in built] == [
        ("must_mention 'one'", "normal"),
        ("must_mention 'two'", "critical"),
    ]


def test_the_same_text_compared_in_two_ways_is_two_assertions() -> None:
    """The comparison is part of the name where it is not the default."""
    value = ["a", {"text": "a", "case": "ignore"}, {"text": "a", "normalise": "whitespace"}]
    assert [one.assertion for one in build_graders("must_mention", value)] == [
        "must_mention 'a'",
        "must_mention 'a' ignoring case",
        "must_mention 'a' (normalise whitespace)",
    ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("It is onStartupFinished.", "the answer mentions 'onStartupFinished'"),
        (
            "Nothing.",
            "the answer does not mention 'onStartupFinished'; it begins 'Nothing.'",
        ),
        (
            "onstartupfinished",
            "the answer does not mention 'onStartupFinished'; it begins 'onstartupfinished'; "
            "it does in another case or with other white space",
        ),
        ("", "the answer is empty, expected 'onStartupFinished' in it"),
    ],
)
def test_the_reason_says_what_was_found(
    grade: Callable[..., Grade], answer: str, reason: str
) -> None:
    """A near miss is said, because it is the usual cause of a brittle assertion."""
    found = grade("must_mention", "onStartupFinished", answer=answer, calls=["read_file"])
    assert found.reason == reason


def test_long_texts_that_differ_at_the_end_are_different_assertions() -> None:
    """A cut assertion carries a hash, so that it stays unique within the case."""
    built = build_graders("must_mention", ["x" * 500 + "a", "x" * 500 + "b"])
    assert len({one.assertion for one in built}) == 2
    assert all(len(one.assertion) < 200 for one in built)


def test_a_flood_of_combining_marks_is_searched_in_linear_time(
    grade: Callable[..., Grade],
) -> None:
    """Plain NFC would sort these marks for minutes: an answer must not stall the grading."""
    answer = "a" + "\u0301" * 150_000 + "\u0316" * 150_000 + " done"
    started = time.process_time()
    assert grade("must_mention", "done", answer=answer).outcome == "passed"
    assert time.process_time() - started < 10


@given(
    before=st.text(st.characters()),
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    after=st.text(st.characters()),
    how=st.sampled_from(["none", "nfc", "whitespace"]),
    case=st.sampled_from(["exact", "ignore"]),
)
def test_a_separate_text_is_found_wherever_it_stands(
    before: str, text: str, after: str, how: str, case: str
) -> None:
    """Whatever stands round it, and must_not_mention always says the opposite."""
    value = {"text": f"<{text}>", "normalise": how, "case": case}
    answer = f"{before}<{text}>{after}"
    outcomes = []
    for kind in ("must_mention", "must_not_mention"):
        (grader,) = build_graders(kind, value)
        outcomes.append(
            grader.grade(GradingContext(("t",), Trajectory(answer=answer), "answered")).outcome
        )
    if how == "none" or not (after and _joins(after[0])):
        assert outcomes == ["passed", "failed"]
    else:
        assert sorted(outcomes) == ["failed", "passed"]


def _joins(character: str) -> bool:
    """Whether NFC may join the character to a '>' before it."""
    return ord(character) >= 0x300
