"""What a model refuses, as faults that a person can act on."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from watchkeeper.errors import Fault
from watchkeeper.parsing.suggest import is_unknown_name, known_names, nearest
from watchkeeper.parsing.validation import shown, validated
from watchkeeper.parsing.yaml_source import parse_yaml


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Inner(_Strict):
    """A mapping below."""

    length: Annotated[float, Field(gt=0, le=10)] = Field(1, description="metres")
    token: Annotated[str, Field(pattern="^env:")] | None = None


class Outer(_Strict):
    """The top of a file."""

    name: str = Field(description="what it is called")
    count: int = 1
    inner: Inner = Inner()
    many: list[Inner] = []
    named: dict[str, Inner] = {}
    either: Annotated[int, Field(ge=0)] | dict[str, Annotated[float, Field(ge=0)]] = 1


def told(text: str) -> list[str]:
    """The faults of a file, each as people see it."""
    faults: list[Fault] = []
    document = parse_yaml(text, "f.yaml")
    found = validated(Outer, document, (), document.value, faults)
    assert (found is None) == bool(faults)
    return [str(one) for one in faults]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("name: a\n", []),
        ("count: 1\n", ["f.yaml:1: key 'name' is missing: what it is called"]),
        ("name: 7\n", ["f.yaml:1: name: found 7; expected text (put it in quotes) (what it is"]),
        ("name: a\ncount: x\n", ["f.yaml:2: count: found the text 'x'; expected a whole number"]),
        ("name: a\ncount: 1.5\n", ["f.yaml:2: count: found 1.5; expected a whole number"]),
        ("name: a\ncount: true\n", ["f.yaml:2: count: found true; expected a whole number"]),
        ("name: a\ncount:\n", ["f.yaml:2: count: found nothing; expected a whole number"]),
        ("name: a\ninner: []\n", ["f.yaml:2: inner: found a list of 0; expected a mapping of"]),
        ("name: a\ninner:\n  length: 0\n", ["f.yaml:3: inner.length: found 0; expected more than"]),
        ("name: a\ninner:\n  length: 11\n", ["f.yaml:3: inner.length: found 11; expected at most"]),
        (
            "name: a\ninner:\n  lenght: 1\n",
            ["f.yaml:3: unknown key 'lenght'; did you mean 'length"],
        ),
        ("name: a\nmany:\n  - {}\n  - lenght: 1\n", ["f.yaml:4: unknown key 'lenght'; did you"]),
        (
            "name: a\nnamed:\n  b: {}\n  c:\n    lenght: 1\n",
            ["f.yaml:5: unknown key 'lenght'; did"],
        ),
        ("name: a\nnmae: b\n", ["f.yaml:2: unknown key 'nmae'; did you mean 'name'? known: coun"]),
        ("name: a\nzzz: b\n", ["f.yaml:2: unknown key 'zzz'; known: count, either, inner, many"]),
        (
            "name: a\neither: x\n",
            ["f.yaml:2: either: found the text 'x'; expected a whole number, "],
        ),
        ("name: a\neither:\n  k: -1\n", ["f.yaml:3: either.k: found -1; expected at least 0"]),
        (
            "name: a\neither: -1\n",
            ["f.yaml:2: either: found -1; expected at least 0, or a mapping"],
        ),
        ("name: a\ninner:\n  token: abc\n", ["f.yaml:3: inner.token: a secret is given as the na"]),
        ("- a\n", ["f.yaml:1: this file: found a list of 1; expected a mapping of keys"]),
        (
            "count: x\ninner:\n  lenght: 1\nzzz: 1\n",
            ["f.yaml:1: key 'name'", "f.yaml:1: count: ", "f.yaml:3: unknown", "f.yaml:4: unknown"],
        ),
    ],
)
def test_a_refusal_says_where_what_and_what_instead(text: str, faults: list[str]) -> None:
    """One fault for everything that is wrong, in the words of the file and not of a library."""
    found = told(text)
    assert len(found) == len(faults), found
    for one, begins in zip(found, faults, strict=True):
        assert one.startswith(begins), found
        assert "Input should" not in one
        assert "type=" not in one


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (0.5, "0.5"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "a mapping with 1 keys"),
        ("a\nb", r"the text 'a\nb'"),
        ("x" * 70, f"the text '{'x' * 60}…'"),
    ],
)
def test_a_value_is_quoted_shortly(value: Any, text: str) -> None:
    """What it is, then what it says, never more than a line."""
    assert shown(value) == text


def test_the_nearest_name_is_offered_or_none() -> None:
    """A guess that is far off would mislead."""
    known = ["must_mention", "must_not_mention", "tool_calls"]
    assert nearest("must_mentoin", known) == "must_mention"
    assert nearest("colour", known) is None
    assert nearest("x", []) is None
    assert known_names("tol_calls", known) == (
        "did you mean 'tool_calls'? known: must_mention, must_not_mention, tool_calls"
    )
    assert known_names("x", []) == "known: none"
    assert known_names("x", map(str, range(20)), limit=2) == "known: 0, 1 and 18 more"


def test_only_a_name_can_be_an_unknown_name() -> None:
    """What is no name at all is told as that, once."""
    assert is_unknown_name("taem", {"team"})
    assert not is_unknown_name("team", {"team"})
    assert not is_unknown_name("not a name", {"team"})
    assert not is_unknown_name(None, {"team"})
    assert not is_unknown_name(["team"], {"team"})
