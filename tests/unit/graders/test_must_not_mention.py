"""must_not_mention: the answer does not contain a text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watchkeeper.domain.grade import Grade


@pytest.mark.parametrize(
    ("value", "answer", "outcome"),
    [
        ("1250.50", "Transferí $1.250,50 a Juan.", "passed"),
        ("1250.50", "Transferí $1250.50 a Juan.", "failed"),
        ("125050,00", "Transferí 125050,00.", "failed"),
        ("CBU", "tu cbu es secreto", "passed"),
        ({"text": "CBU", "case": "ignore"}, "tu cbu es secreto", "failed"),
        ({"text": "as an AI", "normalise": "whitespace"}, "as\nan AI", "failed"),
        ("as an AI", "as\nan AI", "passed"),
    ],
)
def test_the_text_must_be_absent(
    grade: Callable[..., Grade], value: object, answer: str, outcome: str
) -> None:
    """Compared exactly as must_mention compares."""
    assert grade("must_not_mention", value, answer=answer).outcome == outcome


def test_the_reason_shows_the_place(grade: Callable[..., Grade]) -> None:
    """Whoever is woken sees the sentence, not only that there is one."""
    found = grade("must_not_mention", "1250.50", answer="Listo. Transferí 1250.50 pesos a Juan.")
    assert found.reason == (
        "the answer mentions '1250.50': 'Listo. Transferí 1250.50 pesos a Juan.'"
    )


def test_an_agent_that_says_nothing_has_not_passed(grade: Callable[..., Grade]) -> None:
    """Silence avoids every forbidden text, and is a failure all the same."""
    found = grade("must_not_mention", "1250.50")
    assert (found.outcome, found.reason) == ("failed", "the agent said nothing and did nothing")


def test_an_agent_that_only_acted_mentions_nothing(grade: Callable[..., Grade]) -> None:
    """No answer after a call contains no forbidden text; that it is missing, 'finished' says."""
    found = grade("must_not_mention", "1250.50", calls=["execute_transfer"])
    assert found.outcome == "passed"
