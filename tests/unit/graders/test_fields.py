"""fields: exact values in the answer, a tool's arguments or the state."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.grade import Grade, GradingContext
from watchkeeper.domain.trajectory import Round, ToolCall, Trajectory
from watchkeeper.graders import build_graders
from watchkeeper.graders._locale import LOCALES, NotANumber, number_in
from watchkeeper.graders._match import Missing, split_path, value_at


def answer_equal(equal: dict[str, object], locale: str | None = None) -> dict[str, object]:
    """A ``fields`` value about the answer."""
    value: dict[str, object] = {"source": "answer", "equal": equal}
    return value if locale is None else {**value, "locale": locale}


TRANSFER = {
    "source": "tool_args",
    "tool": "execute_transfer",
    "equal": {"amount_cents": 125050},
}
THOUSANDS = {"source": "tool_args", "equal": {"amount_cents": 150000}}


@pytest.mark.parametrize(
    ("value", "arguments", "outcome"),
    [
        # "mandale 1.250,50 a juan": 125050 cents
        (TRANSFER, {"amount_cents": 125050}, "passed"),
        (TRANSFER, {"amount_cents": 125050.0}, "passed"),
        (TRANSFER, {"amount_cents": 12550}, "failed"),
        (TRANSFER, {"amount_cents": "125050"}, "failed"),
        (TRANSFER, {"amount_cents": "1.250,50"}, "failed"),
        # "transferile 1.500": one thousand five hundred, 150000 cents, not one and a half
        (THOUSANDS, {"amount_cents": 150000}, "passed"),
        (THOUSANDS, {"amount_cents": 150}, "failed"),
        (THOUSANDS, {"amount_cents": 1.5}, "failed"),
    ],
)
def test_the_scenes_of_article_a4(
    grade: Callable[..., Grade], value: object, arguments: dict[str, object], outcome: str
) -> None:
    """The amount in cents is exact: a factor of a thousand is a transfer, not a matter of tone."""
    found = grade("fields", value, answer="Listo.", calls=[("execute_transfer", arguments)])
    assert (found.outcome, found.evidence) == (outcome, "trajectory")


@pytest.mark.parametrize(
    ("locale", "amount", "found", "outcome"),
    [
        ("es-AR", 1500, "1.500", "passed"),
        ("es-AR", 1500, "1500", "passed"),
        ("es-AR", 1500, "1.500,00", "passed"),
        ("es-AR", 1500, 1500, "passed"),
        ("es-AR", 1500, 1.5, "failed"),  # a JSON number knows no locale
        ("es-AR", 1500, "1,500", "failed"),  # one and a half there
        ("es-AR", 1500, "1.50", "failed"),  # grouped nowhere like this: never guessed at
        ("es-AR", 1250.5, "1.250,50", "passed"),
        ("es-AR", 1250.5, "1250,5", "passed"),
        ("es-AR", 1250.5, "1250.50", "failed"),
        ("es-AR", 1250.5, "1,250.50", "failed"),
        ("es-AR", 1250.5, "$ 1.250,50", "failed"),
        ("es-AR", 1250.5, "1.250,50 ARS", "failed"),
        ("en-US", 1.5, "1.500", "passed"),
        ("en-US", 1500, "1.500", "failed"),
        ("en-US", 1250.5, "1,250.50", "passed"),
        ("fr-FR", 1250.5, "1\u202f250,50", "passed"),
        ("fr-FR", 1250.5, "1 250,50", "passed"),
        ("de-CH", 1250.5, "1\u2019250.50", "passed"),
        ("en-IN", 1234567, "12,34,567", "passed"),
        ("en-IN", 1234567, "1,234,567", "failed"),
        ("es-AR", -1500, "-1.500", "passed"),
        ("es-AR", -1500, "\u22121.500", "passed"),
        ("es-AR", 500, "0.500", "failed"),
        (None, 1500, "1.500", "failed"),
        (None, 1500, "1500", "failed"),
    ],
)
def test_text_is_a_number_only_where_a_locale_says_so(
    grade: Callable[..., Grade], locale: str | None, amount: float, found: object, outcome: str
) -> None:
    """'1.500' is 1500 in es-AR and 1.5 in en-US; what is grouped wrongly is neither."""
    value = answer_equal({"amount": amount}, locale)
    assert grade("fields", value, answer=json.dumps({"amount": found})).outcome == outcome


@pytest.mark.parametrize(
    ("expected", "found", "outcome"),
    [
        ("100", "100.0", "passed"),
        ("100.0", "100", "passed"),
        ("0.3", "0.3", "passed"),
        ("0.3", "0.30", "passed"),
        ("0.3", "3e-1", "passed"),
        ("0.3", "0.30000000000000004", "failed"),
        ("0.1", "0.1000000000000000055511151231257827", "failed"),  # equal as floats
        ("9007199254740993", "9007199254740992.0", "failed"),  # equal as floats
        ("1", "true", "failed"),
        ("true", "1", "failed"),
        ("true", "true", "passed"),
        ("true", "false", "failed"),
        ("0", "false", "failed"),
        ("0", "null", "failed"),
        ("0", "-0.0", "passed"),
        ("null", "null", "passed"),
        ("null", "0", "failed"),
        ('"ARS"', '"ARS"', "passed"),
        ('"ARS"', '"ars"', "failed"),
        ('"ARS"', '"ARS "', "failed"),
        ('"1"', "1", "failed"),
        ("[1, 2]", "[1.0, 2]", "passed"),
        ("[1, 2]", "[2, 1]", "failed"),
        ("[1, 2]", "[1, 2, 3]", "failed"),
        ("[]", "{}", "failed"),
        ('{"a": 1}', '{"a": 1}', "passed"),
        ('{"a": 1}', '{"a": 1, "b": 2}', "failed"),  # equal, not part of
        ('{"a": 1}', "{}", "failed"),
        ("5", "1e999999999", "failed"),
        ("5", "1" * 900, "failed"),
    ],
)
def test_values_are_compared_by_type_and_exactly(
    grade: Callable[..., Grade], expected: str, found: str, outcome: str
) -> None:
    """Numbers as decimals, booleans never as numbers, text as it stands."""
    value = answer_equal({"x": json.loads(expected)})
    assert grade("fields", value, answer=f'{{"x": {found}}}').outcome == outcome


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("The amount is 5.", "Expecting value at character 1 of 'The amount is 5.'"),
        ('{"x": 5', "Expecting ',' delimiter at character 8 of '{\"x\": 5'"),
        ('Here you are:\n```json\n{"x": 5}\n```', "Expecting value at character 1 of"),
        ('```json\n{"x": 5}\n```\nAnything else?', "after its code block stands 'Anything else?'"),
        ('```json\n{"x": 5}\n```\n```json\n{"x": 6}\n```', "after its code block stands"),
        ('```json\n{"x": 5}', "its code block is never closed"),
        ("```yaml\nx: 5\n```", "its code block is marked 'yaml'"),
        ("```json\n```", "it is empty"),
        ('{"x": NaN}', "NaN is no JSON number"),
        ('{"x": -Infinity}', "-Infinity is no JSON number"),
        ('{"x": 5, "x": 5}', "the key 'x' stands twice in one object"),
        ("[" * 40 + "]" * 40, "it is nested deeper than 32 levels"),
        ("[" * 200_000, "it is nested deeper than 32 levels"),
        ("1" * 5_000, "a number in it has 5,000 characters"),
        ('{"x": 1e9999999999999999999}', "the number '1e9999999999999999999' is out of range"),
        (" " * 1_000_001 + "5", "it has 1,000,002 characters; at most 1,000,000 are read"),
        ("\ufeff{}", "Unexpected UTF-8 BOM"),
    ],
)
def test_a_format_failure_is_told_apart_from_a_wrong_value(
    grade: Callable[..., Grade], answer: str, reason: str
) -> None:
    """Every answer that cannot be read fails with the same first words."""
    found = grade("fields", answer_equal({"x": 5}), answer=answer)
    assert found.outcome == "failed"
    assert found.reason.startswith(f"the answer is not JSON: {reason}")


@pytest.mark.parametrize(
    "answer",
    [
        '{"x": 5}',
        '\n  {"x": 5}\n',
        '```json\n{"x": 5}\n```',
        '```\n{"x": 5}\n```',
        '```JSON\n{"x": 5}\n```\n\n',
        '```json\n{"x": 5, "code": "```py```"}\n```',
    ],
)
def test_one_code_fence_round_the_whole_is_taken_off(
    grade: Callable[..., Grade], answer: str
) -> None:
    """The answer is JSON, or a fenced block of JSON and nothing else."""
    assert grade("fields", answer_equal({"x": 5}), answer=answer).outcome == "passed"


STATE: dict[str, object] = {
    "items": [{"price": 9.9, "name": "tea"}, {"price": 3}],
    "a.b": {"c": 1},
    "7": "seven",
    "note": None,
}


@pytest.mark.parametrize(
    ("path", "expected", "outcome", "reason"),
    [
        ("items.0.price", 9.9, "passed", "1 field as expected"),
        ("items.1.price", 3, "passed", "1 field as expected"),
        ("7", "seven", "passed", "1 field as expected"),
        (r"a\.b.c", 1, "passed", "1 field as expected"),
        ("note", None, "passed", "1 field as expected"),
        ("items.1.price", 4, "failed", "found the number 3, expected the number 4"),
        ("items.1.name", "tea", "failed", "items.1.name is missing"),
        ("items.2", {}, "failed", "items.2 is missing: items is a list of 2"),
        ("items.first", {}, "failed", "items.first is missing: items is a list of 2"),
        ("items.-1", {}, "failed", "items.-1 is missing: items is a list of 2"),
        ("items.\u0661", {}, "failed", "is missing: items is a list of 2"),
        ("7.x", 1, "failed", "7.x is missing: 7 is the text 'seven'"),
        ("nothing", None, "failed", "nothing is missing"),
    ],
)
def test_a_dotted_path_leads_to_its_value(
    grade: Callable[..., Grade], path: str, expected: object, outcome: str, reason: str
) -> None:
    """Keys and list indices with dots between; a missing value is not null."""
    found = grade("fields", {"source": "state", "equal": {path: expected}}, state=STATE)
    assert (found.outcome, found.evidence) == (outcome, "state")
    assert reason in found.reason


def test_every_call_concerned_must_fit(grade: Callable[..., Grade]) -> None:
    """One right transfer does not excuse a wrong one."""
    calls = [
        ("execute_transfer", {"amount_cents": 125050}),
        ("execute_transfer", {"amount_cents": 12550}),
    ]
    found = grade("fields", TRANSFER, answer="Listo.", calls=calls)
    assert found.outcome == "failed"
    assert found.reason == (
        "execute_transfer in round 2: amount_cents: found the number 12550, "
        "expected the number 125050"
    )


def test_without_a_tool_the_calls_that_hold_a_path_are_concerned(
    grade: Callable[..., Grade],
) -> None:
    """A look-up before the transfer has no amount and is left alone."""
    calls = [("find_contact", {"name": "juan"}), ("execute_transfer", {"amount_cents": 150000})]
    assert grade("fields", THOUSANDS, answer="Listo.", calls=calls).outcome == "passed"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (TRANSFER, "execute_transfer was not called; called were find_contact once"),
        (THOUSANDS, "no call has any of these arguments; called were find_contact once"),
    ],
)
def test_no_call_concerned_is_a_failure(
    grade: Callable[..., Grade], value: object, reason: str
) -> None:
    """What was never called had no right arguments either."""
    found = grade("fields", value, answer="Listo.", calls=[("find_contact", {"name": "juan"})])
    assert (found.outcome, found.reason) == ("failed", reason)


def test_values_of_one_rule_must_stand_in_the_same_call(grade: Callable[..., Grade]) -> None:
    """Half in one call and half in the next is not what was asked for."""
    value = {"source": "tool_args", "tool": "t", "equal": {"a": 1, "b": 2}}
    assert grade("fields", value, answer="x", calls=[("t", {"a": 1}), ("t", {"b": 2})]).outcome == (
        "failed"
    )
    assert grade("fields", value, answer="x", calls=[("t", {"a": 1, "b": 2, "c": 3})]).outcome == (
        "passed"
    )


def test_a_state_that_was_not_reported_fails(grade: Callable[..., Grade]) -> None:
    """Missing evidence never counts as passed, and never leaves the denominator."""
    found = grade("fields", {"source": "state", "equal": {"a": 1}}, answer="Done.")
    assert (found.outcome, found.reason) == ("failed", "the endpoint reported no state")


def test_several_wrong_fields_are_listed_within_bounds(grade: Callable[..., Grade]) -> None:
    """The first three are shown, the rest is counted."""
    value = answer_equal(dict.fromkeys("abcde", 1))
    found = grade("fields", value, answer='{"a": 1, "b": 2, "c": 2, "d": 2, "e": 2}')
    assert found.reason == (
        "b: found the number 2, expected the number 1; c: found the number 2, expected the "
        "number 1; d: found the number 2, expected the number 1; and 1 more"
    )


def test_the_reason_names_the_locale_it_read_by(grade: Callable[..., Grade]) -> None:
    """What the text was taken for is said."""
    value = answer_equal({"amount": 1500}, "es-AR")
    assert grade("fields", value, answer='{"amount": "1,500"}').reason == (
        "amount: found '1,500', 1.500 in es-AR, expected the number 1500"
    )
    assert grade("fields", value, answer='{"amount": "1.50"}').reason == (
        "amount: '1.50' is not a number in es-AR: its digits are not grouped as they are there, "
        "expected the number 1500"
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def _outcome(value: object, trajectory: Trajectory) -> str:
    (grader,) = build_graders("fields", value)
    return grader.grade(GradingContext(("t",), trajectory, "answered")).outcome


@given(JSON_VALUES)
def test_every_value_equals_itself_from_every_source(value: object) -> None:
    """What is written in YAML is found again in an answer, in arguments and in a state."""
    held = {"x": value}
    answer = Trajectory(answer=json.dumps(held))
    assert _outcome(answer_equal(held), answer) == "passed"
    call = Trajectory((Round(tool_calls=(ToolCall("t", held),)),))
    assert _outcome({"source": "tool_args", "equal": held}, call) == "passed"
    state = Trajectory(answer="x", state=held)
    assert _outcome({"source": "state", "equal": held}, state) == "passed"


@given(JSON_VALUES, JSON_VALUES)
def test_equality_is_symmetric(one: object, other: object) -> None:
    """It makes no difference which side stands in the YAML."""
    there = _outcome(answer_equal({"x": one}), Trajectory(answer=json.dumps({"x": other})))
    back = _outcome(answer_equal({"x": other}), Trajectory(answer=json.dumps({"x": one})))
    assert there == back


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=2, min_value=-(10**12), max_value=10**12
    ),
    st.sampled_from(sorted(LOCALES)),
    st.booleans(),
)
def test_a_number_written_for_a_locale_is_read_back(
    number: Decimal, locale: str, is_grouped: bool
) -> None:
    """Grouped or not, every locale reads what it writes."""
    assert number_in(_written(number, locale, is_grouped=is_grouped), locale) == number


def _written(number: Decimal, locale: str, *, is_grouped: bool) -> str:
    convention = LOCALES[locale]
    sign, digits, fraction = "-" if number < 0 else "", *f"{abs(number):.2f}".split(".")
    groups = [digits[-3:]]
    rest = digits[:-3]
    step = 2 if locale.endswith("-IN") else 3
    while rest:
        groups.insert(0, rest[-step:])
        rest = rest[:-step]
    whole = (convention.groups[0] if is_grouped else "").join(groups)
    return f"{sign}{whole}{convention.decimal}{fraction}"


@given(st.text(st.characters()), st.sampled_from(sorted(LOCALES)))
def test_any_text_is_a_number_or_refused(text: str, locale: str) -> None:
    """Nothing else can come of it, whatever the text."""
    try:
        number = number_in(text, locale)
    except NotANumber:
        return
    assert number.is_finite()


@given(st.lists(st.text(min_size=1), min_size=1))
def test_any_key_can_be_written_in_a_path(keys: list[str]) -> None:
    """Dots and backslashes are escaped with a backslash."""
    path = ".".join(key.replace("\\", "\\\\").replace(".", "\\.") for key in keys)
    assert split_path(path) == tuple(keys)
    value: object = "here"
    for key in reversed(keys):
        value = {key: value}
    assert value_at(value, path) == "here"
    assert isinstance(value_at("nothing", path), Missing)
