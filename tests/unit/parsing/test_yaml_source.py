"""YAML as plain values of the core schema, and the line of every one of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.domain.redaction import Redactor
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.parsing.yaml_source import (
    MAX_MESSAGE_CHARACTERS,
    Document,
    fault_at,
    parse_yaml,
    plain_scalar,
    read_text,
    read_yaml,
)


def faults_of(text: str) -> tuple[Fault, ...]:
    """What is wrong with a text."""
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml")
    return caught.value.faults


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None)),
        *(("true", True), ("True", True), ("TRUE", True), ("false", False), ("tRue", "tRue")),
        *(("no", "no"), ("yes", "yes"), ("on", "on"), ("off", "off"), ("y", "y"), ("N", "N")),
        *(("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("0x1F", 31), ("0o17", 15), ("-0", 0)),
        *(("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-1.5E-2", -0.015)),
        *((".nan", ".nan"), (".inf", ".inf"), ("-.INF", "-.INF"), ("nan", "nan")),
        *(("12:30", "12:30"), ("1_000", "1_000"), ("2026-01-01", "2026-01-01"), ("0b1", "0b1")),
        *(("1,5", "1,5"), ("0x", "0x"), ("0xG", "0xG"), ("0o8", "0o8"), ("-", "-"), ("+.", "+.")),
        ("9" * 300, int("9" * 300)),
        ("9" * 301, "9" * 301),
    ],
)
def test_a_plain_scalar_is_what_the_core_schema_says(text: str, value: object) -> None:
    """``no`` is Norway and ``12:30`` a time, not a boolean and not 750."""
    found = plain_scalar(text)
    assert (type(found), found) == (type(value), value)


def test_quoted_texts_stay_texts() -> None:
    """Whoever quotes a number means the text."""
    text = "a: '7'\nb: \"true\"\nc: |\n  1\nd: >-\n  2\n"
    assert parse_yaml(text, "f").value == {"a": "7", "b": "true", "c": "1\n", "d": "2"}


def test_every_value_knows_its_line() -> None:
    """The line of its key, or of its item in a list."""
    text = "a: 1\n\nb:\n  - x\n  - c: 2\n    d:\n      e: 3\nf: [1,\n  2]\n"
    document = parse_yaml(text, "f")
    assert document.lines == {
        (): 1,
        ("a",): 1,
        ("b",): 3,
        ("b", 0): 4,
        ("b", 1): 5,
        ("b", 1, "c"): 5,
        ("b", 1, "d"): 6,
        ("b", 1, "d", "e"): 7,
        ("f",): 8,
        ("f", 0): 8,
        ("f", 1): 9,
    }
    assert document.line_of(("b", 1, "d", "absent", 7)) == 6
    assert document.line_of(("absent",)) == 1


def test_lines_are_counted_as_editors_count_them() -> None:
    """U+2028, U+2029 and U+0085 are characters of a text there, and end no line."""
    text = 'a: "x\u2028y\u2029z"\n# a comment\x85\nb: 1\n\nc:\n  - d\n'
    lines = parse_yaml(text, "f").lines
    assert [lines[path] for path in (("a",), ("b",), ("c",), ("c", 0))] == [1, 3, 5, 6]
    (fault,) = faults_of(text + "c: 2\n")
    assert fault.line == 7
    (fault,) = faults_of(text + "e: [\n")
    assert fault.line == 8


# PyYAML writes YAML 1.1, in which 0E0 and 0o7 need no quotes to be texts.
TEXTS = st.text(max_size=12).filter(lambda text: not text or plain_scalar(text) == text)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(value=st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=4))
def test_what_a_program_wrote_is_read_back(value: dict[str, Any]) -> None:
    """Every value, and a line for each that the text has."""
    text = yaml.safe_dump(value, width=10_000)  # PyYAML doubles a backslash where it folds
    document = parse_yaml(text, "f")
    assert document.value == value
    assert all(1 <= line <= text.count("\n") for line in document.lines.values())


def test_all_doubled_keys_are_told_at_once() -> None:
    """Each with the line of the first; a key of another mapping is another key."""
    told = faults_of("a: 1\na: 2\nb:\n  a: 1\n  c: 1\n  c: 2\n'a': 3\n")
    assert [str(one) for one in told] == [
        "f.yaml:2: key 'a' stands twice; the first is on line 1",
        "f.yaml:6: key 'c' stands twice; the first is on line 5",
        "f.yaml:7: key 'a' stands twice; the first is on line 1",
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a:\n\tb: 1\n", 2, "a tab indents this line; YAML takes spaces only"),
        ("a: 1\n\t\n", 2, "a tab indents this line"),
        ("a: b\n  \tc: 1\n", 2, "a tab indents this line"),
        ("a: *none\n", 1, "undefined alias: no anchor of that name stands before it"),
        ("a: 1\n--- \nb: 2\n", 2, "a second document begins here"),
        ("a: 1\n\nb: \x07\n", 3, "control characters"),
        ("ä: 1\nb: \x00\n", 2, "control characters"),
        ('a: "\\q"\n', 1, "not YAML"),
        ('a: "\\ud800"\n', 1, "not YAML"),
        ("a: 1\nb\nc: 2\n", 3, "not YAML"),
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("{a: 1}: 2\n", 1, "a key must be plain text"),
        ("a: 1\n<<: {b: 1}\n", 2, "merge keys (<<) are not supported"),
        ("a: !env HOME\n", 1, "tag '!env' is not supported"),
        ("a:\n  - !!set {b}\n", 2, "set' is not supported"),
        ("a: !!binary aGk=\n", 1, "binary' is not supported"),
        ("a: !include x.yaml\nb: !x [1]\nc: !y {d: 1}\n", 3, "tag '!y' is not supported"),
        ("# only this\n", 1, "the file is empty"),
        ("a: 1\n(", 2, "not YAML"),
    ],
)
def test_what_is_no_plain_yaml_is_told(text: str, line: int, says: str) -> None:
    """On the line where a person has to look."""
    told = faults_of(text)
    assert any(one.line == line and says in one.message for one in told), told


def test_aliases_within_bounds_are_read() -> None:
    """A list that is used three times is written once."""
    text = "a: &a [1, 2]\nb: *a\nc: {d: *a}\n"
    assert parse_yaml(text, "f").value == {"a": [1, 2], "b": [1, 2], "c": {"d": [1, 2]}}


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(
            ["a0: &a0 [x, x, x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 40))]
        ),
        "a: &a [*a, *a, *a]\n",
        "a: &a {b: *a, c: *a}\n",
        "a: &a\n" + "- *a\n" * 1_000,
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 50_000,
        "? " * 50_000,
    ],
    ids=["bomb", "itself", "itself as mapping", "wide", "lists", "mappings", "dashes", "keys"],
)
def test_a_bomb_is_refused_before_it_grows(text: str) -> None:
    """A few hundred bytes cost neither seconds nor gigabytes."""
    started = time.process_time()
    (fault,) = faults_of(text)
    assert time.process_time() - started < 1
    assert fault.line == 1 or fault.message.startswith("aliases repeat")


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    """One line of ten megabytes is refused by its size, seven are read."""
    path = tmp_path / "long.yaml"
    path.write_bytes(b"a: " + b"x" * 10_000_000)
    with pytest.raises(ConfigError, match=r"long:1: the file has 10,000,003 bytes; at most 8,000"):
        read_yaml(path, "long")
    path.write_bytes(b"a: " + b"x" * 7_000_000)
    assert read_yaml(path, "long").value == {"a": "x" * 7_000_000}


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """A device would never end, a folder has no text."""
    for path in (Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match="it is a folder or a device"):
            read_text(path, "f")


SHAPED = "sk-ant-api03-0123456789abcdefghij"


@settings(max_examples=300)
@given(text=st.text(st.characters(codec=None), max_size=60), shown=st.booleans())
def test_a_fault_is_one_printable_line(text: str, shown: bool) -> None:
    """Whatever a file holds: no second line, no escape sequence, no key, no half a character."""
    document = Document("f", None, {(): 3})
    fault = document.fault(("a",), f"{text}{SHAPED if shown else ''}")
    assert fault.line == 3
    assert fault.message.isprintable()
    assert fault.message == fault.message.encode().decode()
    assert SHAPED not in fault.message
    if text.isprintable() and Redactor({}).text(text) == text and not shown:
        assert fault.message == text


def test_a_fault_is_not_endless() -> None:
    """A file of megabytes is not printed again."""
    fault = fault_at("f", 1, "x" * 1_000_000)
    assert len(fault.message) == MAX_MESSAGE_CHARACTERS + 1
