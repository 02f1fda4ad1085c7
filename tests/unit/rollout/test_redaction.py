"""Secrets go out of whatever becomes a record, by their value and by their shape."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from watchkeeper.domain.redaction import Redactor, whole_text

SHAPES = (
    "sk-ant-api03-0123456789abcdefghij",
    "sk-proj-0123456789abcdefghij0123",
    "sk-0123456789abcdefghij0123",
    "xoxb-0123456789-abcdef",
    "xapp-1-0123456789-abc",
    "ghp_0123456789abcdefghij0123",
    "AKIA0123456789ABCDEF",
    "AIza0123456789abcdefghijABCDEFGHIJ-_012",
    "ASIA0123456789ABCDEF",
    "github_pat_0123456789abcdefghij_0123",
    "glpat-0123456789abcdefghij",
    "ya29.a0123456789abcdefghij-_0123",
    "sk_live_0123456789abcdefghij",
    "rk_live_0123456789abcdefghij",
    "hf_0123456789abcdefghijABCDEFGHIJ",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "https://hooks.slack.com/services/T0000000/B0000000/0123456789abcdefghij",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADANB\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQ\n-----END RSA PRIVATE KEY-----",
)
SECRET = st.text(st.characters(codec="utf-8"), min_size=8, max_size=30).filter(
    lambda text: len(text.strip()) >= 8 and len(set(text)) > 3
)
AROUND = st.text(st.characters(codec="utf-8"), max_size=20)


def hidden(value: str) -> Redactor:
    """A redactor that knows one secret."""
    return Redactor({"SOME_KEY": value})


@given(secret=SECRET, before=AROUND, after=AROUND)
def test_a_known_value_is_replaced_by_its_name(secret: str, before: str, after: str) -> None:
    """Wherever it stands in a text."""
    assume(secret.strip() not in "[secret SOME_KEY]" + before + after)
    text = hidden(secret).text(before + secret + after)
    assert secret.strip() not in text
    assert "[secret SOME_KEY]" in text


@given(secret=SECRET)
def test_a_known_value_is_found_inside_json(secret: str) -> None:
    """Quotes, backslashes, line breaks and other alphabets are escaped there."""
    assume(secret.strip() not in "[secret SOME_KEY]")
    for is_ascii in (True, False):
        text = hidden(secret).text(json.dumps({"key": [secret]}, ensure_ascii=is_ascii))
        assert json.loads(text) == {"key": [secret.replace(secret.strip(), "[secret SOME_KEY]")]}


@given(secret=SECRET, user=st.text(st.characters(codec="utf-8"), max_size=9))
def test_a_known_value_is_found_in_addresses_and_in_basic_authentication(
    secret: str, user: str
) -> None:
    """Servers repeat both in their errors."""
    secret = secret.strip()
    assume(secret not in "[secret SOME_KEY]" and len(secret.encode()) >= 10)
    address = f"https://h/?key={quote(secret, safe='')}&k={quote_plus(secret)}"
    assert hidden(secret).text(address) == "https://h/?key=[secret SOME_KEY]&k=[secret SOME_KEY]"
    header = b64encode(f"{user}:{secret}".encode()).decode()
    assert "[secret SOME_KEY]" in hidden(secret).text(f"Basic {header}")


def test_half_a_private_key_is_none_either() -> None:
    """What was cut before it was redacted has no end."""
    text = Redactor({}).text("see -----BEGIN EC PRIVATE KEY-----\nMHcCAQ")
    assert text == "see [secret]"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_well_known_shape_is_replaced_without_being_known(shape: str) -> None:
    """A key that somebody pasted into a prompt is in no variable."""
    text = Redactor({}).text(f"use {shape}, please")
    assert text == "use [secret], please"


def test_what_only_looks_a_little_like_a_key_stays() -> None:
    """Records are worth reading."""
    text = "a sk-ant task, xoxb, AKIA, ghp_x, the risk-free sk-1 way, task-0123456789"
    assert Redactor({}).text(text) == text


def test_every_text_of_a_value_is_redacted() -> None:
    """Keys too, at any depth; what is no text stays what it is."""
    secret = "hunter2-hunter2"
    value: dict[str, Any] = {
        secret: [{"deep": (f"x {secret}", 7, 1.5, None, True)}],
        "plain": {SHAPES[0]: SHAPES[3]},
    }
    assert hidden(secret).value(value) == {
        "[secret SOME_KEY]": [{"deep": ["x [secret SOME_KEY]", 7, 1.5, None, True]}],
        "plain": {"[secret]": "[secret]"},
    }


def test_a_secret_within_another_does_not_uncover_it() -> None:
    """The longer one is replaced first."""
    redactor = Redactor({"SHORT": "hunter2", "LONG": "hunter2-and-more"})
    assert redactor.text("hunter2-and-more, hunter2") == "[secret LONG], [secret SHORT]"
    redactor = Redactor({"LONG": "hunter2-and-more", "SHORT": "hunter2"})
    assert redactor.text("hunter2-and-more, hunter2") == "[secret LONG], [secret SHORT]"


def test_short_values_are_no_secrets() -> None:
    """A variable SOME_KEY=yes would take every yes out of the records."""
    assert hidden("yes").text("yes, yes") == "yes, yes"


def test_a_line_break_around_a_value_is_no_part_of_it() -> None:
    """Files of secrets end in one."""
    assert hidden("hunter2-hunter2\n").text("is hunter2-hunter2.") == "is [secret SOME_KEY]."


@given(text=st.text(st.characters(codec=None), max_size=40))
def test_half_characters_become_whole(text: str) -> None:
    """What cannot be encoded is replaced; what can stays."""
    whole = whole_text(text)
    assert whole == whole.encode().decode()
    if not any("\ud800" <= one <= "\udfff" for one in text):
        assert whole == text


def test_two_halves_that_belong_together_become_one_character() -> None:
    """Some servers escape them one by one."""
    assert whole_text("\ud83d\ude00") == "\U0001f600"
    assert whole_text("a\ud83db") == "a\ufffdb"
