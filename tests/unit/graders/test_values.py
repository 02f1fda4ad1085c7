"""What is wrong under ``expect`` is all said at once: what was found, what was expected."""

from __future__ import annotations

import datetime as dt

import pytest

from watchkeeper.graders import GraderValueError, build_graders

MENTION_FORMS = "expected a text, {text, case, normalise, severity}, or a list of these"


@pytest.mark.parametrize(
    ("kind", "value", "problems"),
    [
        ("must_mention", None, {(): f"found nothing, {MENTION_FORMS}"}),
        ("must_mention", [], {(): f"found an empty list, {MENTION_FORMS}"}),
        ("must_mention", 42, {(): f"found the number 42, {MENTION_FORMS} (put a text in quotes)"}),
        ("must_mention", "", {(): "found empty text, expected at least one character"}),
        ("must_mention", " \u200b", {(): "found text of which nothing is visible"}),
        (
            "must_mention",
            ["fine", {"txet": "a"}, {"text": "a", "case": "loud", "severity": "high"}, True],
            {
                (1, "text"): "'text' is missing: the text that is looked for in the answer",
                (1, "txet"): "unknown key 'txet'; did you mean 'text'? "
                "known: case, normalise, severity, text",
                (2, "case"): "found the text 'loud', expected 'exact' or 'ignore'",
                (2, "severity"): "found the text 'high', expected 'normal' or 'critical'",
                (3,): f"found true, {MENTION_FORMS} (put a text in quotes)",
            },
        ),
        ("must_mention", ["a", "a"], {(1,): "must_mention 'a' stands here twice"}),
        (
            "must_mention",
            {"text": 1.5},
            {("text",): "found the number 1.5, expected text (put it in quotes)"},
        ),
        (
            "must_mention",
            {"text": None},
            {("text",): "found nothing after the key; leave it out or give a value"},
        ),
        (
            "must_mention",
            {"text": "x" * 10_001},
            {
                ("text",): f"found the text '{'x' * 60}'… (10,001 characters), "
                "expected at most 10,000 characters"
            },
        ),
        (
            "must_not_mention",
            {"text": "a", 5: "b"},
            {(5,): "found the number 5 as a key, expected text (put it in quotes)"},
        ),
        (
            "calls",
            [{"tool": "a", "n": 0}, {"tool": "b", "n": "2"}, {"tool": "c", "args": {}}],
            {
                (0, "n"): "found the number 0, expected at least 1",
                (1, "n"): "found the text '2', expected a whole number",
                (2, "args"): "found an empty mapping; leave it out for any arguments",
            },
        ),
        (
            "calls",
            {"tool": "a", "n": True, "args": ["x"]},
            {
                ("n",): "found true, expected a whole number",
                ("args",): "found a list of 1, expected a mapping",
            },
        ),
        (
            "avoids",
            {"tool": "a", "args": {"when": dt.date(2026, 8, 1), "x": [float("nan")]}},
            {
                ("args", "when"): "found 2026-08-01 (date), which JSON cannot hold; "
                "put it in quotes",
                ("args", "x", 0): "found nan, expected a finite number",
            },
        ),
        (
            "avoids",
            {"tool": "a", "n": 3},
            {("n",): "unknown key 'n'; known: args, severity, tool"},
        ),
        (
            "at_most",
            {"a": "5", "b": True, "c": -1, "d": 2.0, 3: 4},
            {
                (): "found the number 3 as a key, expected the name of a tool (put it in quotes)",
                ("a",): "found the text '5', expected a whole number",
                ("b",): "found true, expected a whole number",
                ("c",): "found the number -1, expected at least 0",
                ("d",): "found the number 2, expected a whole number",
            },
        ),
        (
            "at_most",
            {"tool": "find_files", "n": 5},
            {(): "found one {tool, n} by itself; put it in a list, or write {tool name: n}"},
        ),
        (
            "at_most",
            "find_files",
            {
                (): "found the text 'find_files', expected {tool: number of calls}, "
                "or a list of {tool, n, severity}"
            },
        ),
        (
            "action",
            ["ask", "escalate"],
            {(): "found a list of 2, expected one name, or {name, severity}"},
        ),
        (
            "fields",
            {"source": "answers", "tool": "", "equal": {"a..b": 1, "c\\": 2}, "locale": "es_AR"},
            {
                ("source",): "found the text 'answers', expected 'answer', 'tool_args' or 'state'",
                ("tool",): "found empty text, expected at least one character",
                ("equal", "a..b"): "the path 'a..b': expected keys and list indices with "
                "single dots between: items.0.price",
                ("equal", "c\\"): "the path 'c\\\\': a backslash stands only before '.' "
                "or another backslash",
                ("locale",): "unknown locale 'es_AR'; did you mean 'es-AR'? known: cs-CZ",
            },
        ),
        (
            "fields",
            {"source": "state", "tool": "t", "equal": {"amount": "1.500"}, "locale": "es-AR"},
            {
                ("tool",): "a tool goes only with 'source: tool_args'",
                ("locale",): "a locale only changes how numbers are read, and 'equal' "
                "expects none; write numbers without quotes",
            },
        ),
        (
            "fields",
            {"equal": {}},
            {
                ("source",): "'source' is missing: answer (it must be JSON), tool_args or state",
                ("equal",): "found an empty mapping, expected at least one path",
            },
        ),
        (
            "json_schema",
            "object",
            {(): "found the text 'object', expected a JSON Schema, or {schema, source, severity}"},
        ),
        (
            "json_schema",
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "objct",
                "requried": ["a"],
                "properties": {
                    "a": {"format": "date"},
                    "b": {"$ref": "https://example.com/schema.json"},
                    "c": {"$ref": "file:///etc/passwd"},
                    "d": {"$ref": "#/$defs/nothing"},
                    "e": {"$ref": "#nothing"},
                    "f": {"pattern": "(?=a)b"},
                    "g": {"patternProperties": {"x": {}}},
                    "h": {"$id": "https://example.com/inner"},
                },
            },
            {
                ("$schema",): "found the text 'http://json-schema.org/draft-07/schema#', "
                "expected 'https://json-schema.org/draft/2020-12/schema', or no '$schema'",
                ("type",): "not a JSON Schema: found the text 'objct', expected a type "
                "(array, boolean, integer, null, number, object, string), or a list of them",
                ("requried",): "unknown keyword 'requried', which would be ignored; "
                "did you mean 'required'?",
                ("properties", "a", "format"): "'format' is refused: it would not be checked",
                ("properties", "b", "$ref"): "'$ref' leads to 'https://example.com/schema.json'; "
                "only places of this schema are read: #/…",
                ("properties", "c", "$ref"): "'$ref' leads to 'file:///etc/passwd'; only",
                ("properties", "d", "$ref"): "'$ref' leads to '#/$defs/nothing', and there is "
                "no schema at that place",
                ("properties", "e", "$ref"): "there is no '$anchor' 'nothing' in this schema",
                ("properties", "f", "pattern"): "the pattern '(?=a)b' cannot be used: look-around",
                ("properties", "g", "patternProperties"): "'patternProperties' is refused",
                ("properties", "h", "$id"): "'$id' may stand only at the top of the schema",
            },
        ),
        (
            "json_schema",
            {
                "schema": {
                    "$defs": {
                        "a": {"allOf": [{"$ref": "#/$defs/b"}]},
                        "b": {"not": {"$ref": "#/$defs/a"}},
                    }
                },
                "source": "trajectory",
            },
            {
                ("source",): "found the text 'trajectory', expected 'answer' or 'state'",
                ("schema", "$defs", "a", "allOf", 0, "$ref"): "'$ref' leads back to itself",
                ("schema", "$defs", "b", "not", "$ref"): "'$ref' leads back to itself",
            },
        ),
    ],
)
def test_every_problem_is_said_with_its_path(
    kind: str, value: object, problems: dict[tuple[str | int, ...], str]
) -> None:
    """The loader adds file and line; nothing is found only after the first fault is repaired."""
    with pytest.raises(GraderValueError) as caught:
        build_graders(kind, value)
    found = dict(caught.value.problems)
    assert set(found) == set(problems)
    for path, message in problems.items():
        assert found[path].startswith(message), path
    assert len(found) == len(caught.value.problems)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#/anyOf/0"}]},
        {"$anchor": "top", "if": {"$ref": "#top"}},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
    ],
)
def test_a_schema_that_never_ends_is_refused(schema: object) -> None:
    """It would exhaust the stack on every answer."""
    with pytest.raises(GraderValueError, match="leads back to itself without end"):
        build_graders("json_schema", schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"below": {"$ref": "#"}}},
        {"$anchor": "top", "items": {"$ref": "#top"}},
        {"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"},
        {"properties": {"$ref": {"type": "string"}, "format": {"type": "string"}}},
        {"const": {"$ref": "http://example.com", "format": "x"}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://x.test/a"},
        {"x-owner": "payments", "$comment": "why", "examples": [1]},
    ],
)
def test_what_only_looks_forbidden_is_accepted(schema: object) -> None:
    """Names of properties and constant values are data, and recursion into the answer ends."""
    assert build_graders("json_schema", schema)


def test_a_value_that_is_nested_without_end_is_refused() -> None:
    """Also where the loader's own bound is not in front of it."""
    value: object = 1
    for _ in range(5_000):
        value = {"a": value}
    with pytest.raises(GraderValueError, match="nested deeper than 64 levels"):
        build_graders("calls", {"tool": "t", "args": value})
    with pytest.raises(GraderValueError, match="nested deeper than 64 levels"):
        build_graders("json_schema", {"const": value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"tool": "t", "args": {"x": "\ud800"}}, "found text with half a surrogate pair"),
        ({"tool": "t", "args": {"\ud800": 1}}, "found half a surrogate pair in the key"),
        ("\ud800t", "expected text without half a surrogate pair"),
    ],
)
def test_text_that_cannot_be_stored_is_refused(value: object, message: str) -> None:
    """A YAML escape can write it; no record could hold it."""
    with pytest.raises(GraderValueError, match=message):
        build_graders("calls", value)


def test_an_unknown_kind_is_a_key_error() -> None:
    """The loader knows the kinds and words its own message."""
    with pytest.raises(KeyError, match="tool_call"):
        build_graders("tool_call", "x")
