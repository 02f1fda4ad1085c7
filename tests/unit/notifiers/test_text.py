from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.notifiers.hostile import HOSTILE, any_text
from watchkeeper.notifiers.text import (
    Measure,
    for_encoding,
    harmless,
    one_line,
    shorten,
    utf16_length,
)


@given(any_text)
def test_harmless_text_holds_nothing_that_acts(text: str) -> None:
    """Whatever came, no control, direction, invisible or surrogate character is left."""
    for char in harmless(text):
        is_joiner = char in "\u200c\u200d"
        bad = unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert char == "\n" or is_joiner or not bad
    harmless(text).encode()
    assert "\n" not in one_line(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b", "a\\x00b"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202etxt", "\\u202etxt"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("a\r\nb\rc", "a\nb\\x0dc"),
        ("a\tb", "a    b"),
        ("naïve → 3.9× 👨‍👩‍👧", "naïve → 3.9× 👨‍👩‍👧"),
    ],
)
def test_what_is_unsafe_is_shown_escaped_and_the_rest_is_left_alone(text: str, shown: str) -> None:
    """Nothing is dropped without a trace, and ordinary text in any language is unchanged."""
    assert harmless(text) == shown


def test_one_line_cannot_fake_a_second_line() -> None:
    """A line end inside a name is shown, so that it cannot forge a line of a report."""
    assert one_line("a\nok   gate") == "a\\nok   gate"


@given(any_text, st.integers(40, 300), st.sampled_from([len, utf16_length]))
def test_shortened_text_fits_and_says_how_much_is_missing(
    text: str, limit: int, measure: Measure
) -> None:
    """The result never passes the limit, and what is shown plus what is counted is all of it."""
    shown = shorten(text, limit, measure)
    assert measure(shown) <= limit
    if measure(text) <= limit:
        assert shown == text
    else:
        kept, _, tail = shown.rpartition("… (+")
        missing = int(tail.removesuffix(" characters)").replace(",", ""))
        assert text.startswith(kept)
        assert len(kept) + missing == len(text)


def test_a_limit_without_room_for_the_count_is_refused() -> None:
    """A caller cannot ask for text to be cut silently."""
    with pytest.raises(ValueError, match="no room"):
        shorten("x" * 100, 10)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "utf-8", None])
@pytest.mark.parametrize("text", [*HOSTILE, "2 → 8, 3.1× (2.7–3.5) − … “q”"])
def test_any_output_encoding_can_hold_the_text(text: str, encoding: str | None) -> None:
    """A report never fails because the terminal is not UTF-8."""
    for_encoding(harmless(text), encoding).encode(encoding or "utf-8")


def test_arrows_become_plain_where_the_encoding_lacks_them() -> None:
    """The numbers stay readable in ASCII."""
    assert for_encoding("2 → 8, 3.1× (2.7–3.5)", "ascii") == "2 -> 8, 3.1x (2.7-3.5)"
