"""json_schema: the answer or the state fits a schema."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal

import pytest

from watchkeeper.domain.grade import Grade
from watchkeeper.graders import build_graders

TRANSFER = {
    "type": "object",
    "required": ["amount_cents", "currency"],
    "additionalProperties": False,
    "properties": {
        "amount_cents": {"type": "integer", "minimum": 1},
        "currency": {"enum": ["ARS", "USD"]},
        "items": {"type": "array", "items": {"type": "string"}},
    },
}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"below": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
        }
    },
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize(
    ("schema", "answer", "reason"),
    [
        (TRANSFER, {"amount_cents": 5, "currency": "ARS"}, None),
        (TRANSFER, {"amount_cents": 5.0, "currency": "ARS"}, None),
        (TRANSFER, {"amount_cents": 5}, "'currency' is missing"),
        (
            TRANSFER,
            {"amount_cents": "5", "currency": "ARS"},
            "amount_cents: found the text '5', expected type \"integer\"",
        ),
        (
            TRANSFER,
            {"amount_cents": 0, "currency": "ARS"},
            "amount_cents: found the number 0, expected minimum 1",
        ),
        (
            TRANSFER,
            {"amount_cents": 1, "currency": "EUR"},
            'currency: found the text \'EUR\', expected enum ["ARS", "USD"]',
        ),
        (
            TRANSFER,
            {"amount_cents": 1, "currency": "ARS", "iva": 2},
            "'iva' was not expected",
        ),
        (
            TRANSFER,
            {"amount_cents": 1, "currency": "ARS", "items": ["a", 5]},
            'items.1: found the number 5, expected type "string"',
        ),
        ({"multipleOf": 0.01}, 125.05, None),  # not so with binary fractions
        ({"multipleOf": 0.01}, 125.055, "found the number 125.055, expected multipleOf 0.01"),
        ({"uniqueItems": True}, [1, True, "1"], None),
        (
            {"uniqueItems": True},
            [{"a": 1}, {"a": 1.0}],
            "found a list of 2, expected uniqueItems true",
        ),
        ({"pattern": "^[A-Z]{3}$"}, "ARS", None),
        ({"pattern": "^[A-Z]{3}$"}, "ARS\n", "found the text 'ARS\\n', expected pattern"),
        (TREE, {"below": {"below": None}}, None),
        (TREE, {"below": {"below": 5}}, "below.below: found the number 5, expected anyOf"),
        ({"properties": {"x": False}}, {"x": 1}, "found the number 1, expected nothing here"),
        ({}, None, None),
    ],
)
def test_the_answer_fits_or_the_reason_says_where_not(
    grade: Callable[..., Grade], schema: object, answer: object, reason: str | None
) -> None:
    """The first misfit: its path, what was found, which keyword wanted what."""
    found = grade("json_schema", schema, answer=json.dumps(answer))
    if reason is None:
        assert (found.outcome, found.reason) == ("passed", "the answer fits the schema")
    else:
        assert found.outcome == "failed"
        assert found.reason.startswith(f"the answer does not fit the schema: {reason}")


@pytest.mark.parametrize("answer", ["5 pesos", '{"a": 1', '{"a": NaN}', "1e999", ""])
def test_a_format_failure_is_told_apart(grade: Callable[..., Grade], answer: str) -> None:
    """An answer that is no JSON fails with the words that ``fields`` uses."""
    found = grade("json_schema", {}, answer=answer, calls=["look"])
    assert found.outcome == "failed"
    assert found.reason.startswith("the answer is not JSON: ")


def test_the_state_can_be_held_against_a_schema(grade: Callable[..., Grade]) -> None:
    """The long form says where to look; a state that was not reported fails."""
    value = {"schema": {"required": ["balance"]}, "source": "state"}
    assert grade("json_schema", value, state={"balance": 5}).outcome == "passed"
    assert grade("json_schema", value, state={"total": 5}).evidence == "state"
    assert grade("json_schema", value, answer="Done.").reason == "the endpoint reported no state"


SHARED: list[object] = []
for _ in range(31):
    SHARED = [SHARED, SHARED, SHARED]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (float("inf"), "a number in it is not finite"),
        (10**5_000, "a number in it is too long"),
        ({1: 2}, "a key is not text"),
        ({1, 2}, "it holds a value of type set"),
        (Decimal("1.5"), "it holds a value of type Decimal"),
        ([[[]]] * 1_000_002, "it holds more than 1,000,000 values"),
        (SHARED, "it holds more than 1,000,000 values"),
    ],
    ids=["infinite", "huge", "key", "set", "decimal", "many", "shared"],
)
def test_a_state_that_is_no_json_fails(
    grade: Callable[..., Grade], state: object, reason: str
) -> None:
    """A state may come from a Python agent, and so hold anything."""
    value = {"schema": {"type": "object"}, "source": "state"}
    found = grade("json_schema", value, state={"x": state})
    assert (found.outcome, found.reason) == ("failed", f"the state is not JSON: {reason}")


def test_a_schema_too_deep_for_the_stack_is_an_error_not_a_pass(
    grade: Callable[..., Grade],
) -> None:
    """The author's schema is at fault, and the trial is not counted for it."""
    node: dict[str, object] = {"properties": {"below": {"$ref": "#"}}}
    for _ in range(25):
        node = {"allOf": [node]}
    value: object = None
    for _ in range(32):
        value = {"below": value}
    assert grade("json_schema", node, answer=json.dumps(value)).outcome == "error"


def test_a_pattern_cannot_be_made_slow(grade: Callable[..., Grade]) -> None:
    """The pattern of an author and the text of an agent together stall nothing."""
    started = time.process_time()
    found = grade("json_schema", {"pattern": "^(a+)+$"}, answer=json.dumps("a" * 100_000 + "!"))
    assert found.outcome == "failed"
    assert time.process_time() - started < 5


def test_many_items_are_compared_in_linear_time(grade: Callable[..., Grade]) -> None:
    """The library would compare each of these with each."""
    answer = json.dumps([{"n": n} for n in range(30_000)])
    started = time.process_time()
    assert grade("json_schema", {"uniqueItems": True}, answer=answer).outcome == "passed"
    assert time.process_time() - started < 10


def test_the_deepest_answer_is_checked_by_a_recursive_schema(
    grade: Callable[..., Grade],
) -> None:
    """The bound on depth keeps well within the interpreter's stack."""
    value: object = None
    for _ in range(32):
        value = {"below": value}
    assert grade("json_schema", TREE, answer=json.dumps(value)).outcome == "passed"


def test_the_library_is_imported_at_first_use() -> None:
    """Commands that only read do not pay for it, nor suites that do not use it."""
    code = (
        "import sys, watchkeeper.graders as g; g.grader_kinds(); "
        "g.build_graders('must_mention', 'x'); assert 'jsonschema' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_assertions_are_named_by_content() -> None:
    """Two schemas of one case stay apart, and a title is shown."""
    plain, titled = (
        build_graders("json_schema", schema)[0].assertion for schema in ({}, {"title": "Transfer"})
    )
    assert plain.startswith("json_schema answer #")
    assert titled.startswith("json_schema answer 'Transfer' #")
