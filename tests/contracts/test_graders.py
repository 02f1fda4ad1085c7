"""What every grader promises; a new file in graders/ is covered as soon as it is there."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from watchkeeper import graders
from watchkeeper.domain.case import Case
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.grade import Grade, Grader, GradingContext
from watchkeeper.domain.identity import content_hash
from watchkeeper.domain.trajectory import Round, ToolCall, Trajectory
from watchkeeper.graders import (
    GraderModel,
    GraderValueError,
    build_graders,
    expect_json_schema,
    grade_trial,
    grader_class,
    grader_kinds,
    grader_versions,
)

KINDS = grader_kinds()
LONGEST_REASON = 300
REFERENCE = Path(__file__).parents[2] / "docs" / "graders.md"


def example(kind: str) -> Any:
    """The YAML value that the module offers as its example."""
    return importlib.import_module(f"watchkeeper.graders.{kind}").EXAMPLE


def built(kind: str) -> list[Grader]:
    """The graders of the example."""
    return build_graders(kind, example(kind))


def nested(depth: int, leaf: object = 1) -> object:
    """A list in a list in a mapping, ever deeper."""
    value = leaf
    for index in range(depth):
        value = [value] if index % 2 else {"amount_cents": value}
    return value


HOSTILE_TEXTS = {
    "huge": "a" * 2_000_000,
    "huge text in JSON": json.dumps({"amount_cents": "9" * 900_000}),
    "nul": "\x00\x00 NUL",
    "lone surrogate": "\ud800 and \udfff",
    "escaped surrogate": '{"amount_cents": "\\ud800"}',
    "terminal": "\x1b[2J\x1b]0;owned\x07 \u202etxt.exe \u2066",
    "open brackets": "[" * 500_000,
    "open objects": '{"amount_cents":' * 100_000,
    "as deep as is read": json.dumps(nested(31)),
    "one deeper": json.dumps(nested(33)),
    "huge exponent": '{"amount_cents": 1e999999999}',
    "impossible exponent": '{"amount_cents": 1e9999999999999999999}',
    "tiny": '{"amount_cents": -1e-999999999}',
    "endless digits": '{"amount_cents": ' + "1" * 100_000 + "}",
    "endless fraction": '{"amount_cents": 0.' + "1" * 100_000 + "}",
    "nan": '{"amount_cents": NaN}',
    "infinity": '{"amount_cents": -Infinity}',
    "duplicate keys": '{"amount_cents": 125050, "amount_cents": 1}',
    "byte order mark": '\ufeff{"amount_cents": 125050}',
    "fence": "```" * 50_000,
    "empty fence": "```json\n```",
    "marks": "a" + "\u0301\u0316" * 100_000,
    "bare string": '"amount_cents"',
    "scalar": "125050",
    "many items": json.dumps(list(range(100_000))),
    "many keys": json.dumps({str(number): number for number in range(50_000)}),
    "slow for patterns": json.dumps({"currency": "a" * 100_000 + "!"}),
}
SELF_CONTAINING: list[object] = []
SELF_CONTAINING.append(SELF_CONTAINING)
HOSTILE_VALUES: dict[str, Any] = {
    "deep": nested(5_000),
    "in itself": SELF_CONTAINING,
    "nan": float("nan"),
    "infinity": float("-inf"),
    "huge int": 10**5_000,
    "huge negative int": -(10**5_000),
    "decimal": Decimal("1e999999"),
    "signalling nan": Decimal("sNaN"),
    "bytes": b"\xff\xfe",
    "object": object(),
    "set": {1, 2},
    "tuple": (1, (2, (3,))),
    "no text keys": {1: 2, None: 3, ("a",): 4},
    "surrogate keys": {"\ud800": "\udfff"},
    "type": type,
    "none": None,
    "true": True,
    "long": "x" * 1_000_000,
}
HOSTILE_NAMES = ("", "\x00", "\ud800", "x" * 1_000_000, "edit_file\n", "../../etc", "\u202eelif")


def hostile_trajectories() -> dict[str, Trajectory]:
    """What no honest agent would produce, by name."""
    scenes = {f"answer: {name}": Trajectory(answer=text) for name, text in HOSTILE_TEXTS.items()}
    for name, value in HOSTILE_VALUES.items():
        for tool in ("execute_transfer", "read_file", "edit_file"):
            arguments: Any = {"amount_cents": value, "currency": value}
            call = ToolCall(tool, arguments)
            scenes[f"argument of {tool}: {name}"] = Trajectory((Round(tool_calls=(call,)),), "x")
            call = ToolCall(tool, value)
            scenes[f"arguments of {tool}: {name}"] = Trajectory((Round(tool_calls=(call,)),), "x")
        scenes[f"state: {name}"] = Trajectory(answer="x", state={"amount_cents": value})
        scenes[f"whole state: {name}"] = Trajectory(answer="x", state=value)
    for name in HOSTILE_NAMES:
        call = ToolCall(name, {"amount_cents": 1})
        scenes[f"name: {name[:9]!r}"] = Trajectory((Round(tool_calls=(call,)),), "", action=name)
    many = tuple(Round(tool_calls=(ToolCall(f"tool{n % 997}"),)) for n in range(20_000))
    scenes["many calls"] = Trajectory(many, "x")
    return scenes


HOSTILE = hostile_trajectories()


def check(grade: Grade, grader: Grader) -> None:
    """The grade is one that can be stored, counted and shown."""
    assert grade.outcome in ("passed", "failed"), grade
    assert grade.reason
    assert len(grade.reason) <= LONGEST_REASON
    assert grade.reason.isprintable()
    assert grade.reason.encode()
    assert (grade.grader, grade.grader_version) == (grader.kind, grader.version)
    assert (grade.assertion, grade.severity) == (grader.assertion, grader.severity)
    assert grade.evidence in ("answer", "trajectory", "state")


def context(grader: Grader, trajectory: Trajectory, stop_reason: str) -> GradingContext:
    """A case with this grader alone."""
    return GradingContext(("t",), trajectory, stop_reason)


def test_every_file_is_found_under_its_own_name() -> None:
    """The file's name is the key under ``expect``, and the kind."""
    files = {one.name for one in pkgutil.iter_modules(graders.__path__) if one.name[0] != "_"}
    assert set(KINDS) == files
    assert [grader_class(kind).kind for kind in KINDS] == list(KINDS)


def test_versions_cover_every_grade_that_can_be_given() -> None:
    """A whole number from 1 for every kind, and for the guard."""
    versions = grader_versions()
    assert set(versions) == {*KINDS, "finished"}
    assert all(type(version) is int and version >= 1 for version in versions.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_grader_is_a_frozen_model_that_fits_the_port(kind: str) -> None:
    """It can be shared between threads, and no unknown key is ignored."""
    assert grader_class(kind).model_config.get("extra") == "forbid"
    for grader in built(kind):
        assert isinstance(grader, Grader)
        assert isinstance(grader, GraderModel)
        with pytest.raises(ValidationError, match="frozen"):
            setattr(grader, "severity", "critical")  # noqa: B010 - read-only for the type checker


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_json_and_rebuild_the_grader(kind: str) -> None:
    """The grading hash is made of them, so they are complete and the same every time."""
    for grader, again in zip(built(kind), built(kind), strict=True):
        parameters = grader.parameters()
        text = json.dumps(parameters, allow_nan=False, sort_keys=True)
        assert json.loads(text) == parameters
        assert json.dumps(again.parameters(), sort_keys=True) == text
        assert content_hash(parameters) == content_hash(again.parameters())
        given_keys = {key: value for key, value in parameters.items() if value is not None}
        rebuilt: object = grader_class(kind).build(given_keys)
        assert rebuilt == grader
        fields = grader_class(kind).model_fields
        assert set(parameters) == {field.alias or name for name, field in fields.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_assertions_are_unique_short_and_printable(kind: str) -> None:
    """They name the grade in records, pages and terminals."""
    assertions = [grader.assertion for grader in built(kind)]
    assert len(set(assertions)) == len(assertions)
    for assertion in assertions:
        assert assertion.startswith(f"{kind} ")
        assert len(assertion) <= LONGEST_REASON
        assert assertion.isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_mentioned_tools_are_names(kind: str) -> None:
    """The loader checks them against the tools that exist."""
    for grader in built(kind):
        assert all(isinstance(tool, str) and tool for tool in grader.mentioned_tools())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop_reason", ["silent", "answered", "refused", "round_limit"])
def test_a_silent_agent_fails(kind: str, stop_reason: str) -> None:
    """Also where silence would satisfy the rule."""
    for silent in (Trajectory(), Trajectory((Round(text=" "), Round()), answer="\n\u200b")):
        for grader in built(kind):
            grade = grader.grade(context(grader, silent, stop_reason))
            check(grade, grader)
            assert grade.outcome == "failed"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scene", HOSTILE)
def test_hostile_output_is_graded_like_any_other(kind: str, scene: str) -> None:
    """Never an exception, never an error: what an agent produces is passed or failed."""
    for grader in built(kind):
        grade = grader.grade(context(grader, HOSTILE[scene], "answered"))
        check(grade, grader)


ANY_TEXT = st.text(st.characters(), max_size=200)
ANY_VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["amount_cents", "currency"]) | ANY_TEXT, inner, max_size=3
        )
    ),
    max_leaves=8,
)
ANY_NAME = st.sampled_from(["execute_transfer", "read_file", "edit_file", "find_files"]) | ANY_TEXT
ANY_CALL = st.builds(
    ToolCall, tool=ANY_NAME, arguments=st.dictionaries(ANY_TEXT, ANY_VALUE, max_size=3)
)
ANY_ANSWER = ANY_TEXT | st.builds(json.dumps, ANY_VALUE) | st.sampled_from(["{}", "```\n[]\n```"])
ANY_TRAJECTORY = st.builds(
    Trajectory,
    rounds=st.lists(
        st.builds(
            Round,
            text=ANY_TEXT,
            tool_calls=st.lists(ANY_CALL, max_size=3).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    answer=ANY_ANSWER,
    action=st.none() | ANY_NAME,
    state=st.none() | st.dictionaries(ANY_TEXT, ANY_VALUE, max_size=3),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(trajectory=ANY_TRAJECTORY, stop_reason=ANY_TEXT)
def test_anything_is_graded_the_same_way_twice(
    kind: str, trajectory: Trajectory, stop_reason: str
) -> None:
    """A grader is a function of what happened, and of nothing else."""
    for grader in built(kind):
        one = context(grader, trajectory, stop_reason)
        grade = grader.grade(one)
        check(grade, grader)
        assert grader.grade(one) == grade


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(value=ANY_VALUE)
def test_any_value_builds_or_says_what_is_wrong(kind: str, value: object) -> None:
    """Nothing under ``expect`` raises anything else."""
    problems: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    graders_built: list[Grader] = []
    try:
        graders_built = build_graders(kind, value)
    except GraderValueError as error:
        problems = error.problems
    assert bool(problems) != bool(graders_built)
    for path, message in problems:
        assert all(isinstance(step, str | int) for step in path)
        assert message.isprintable()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [None, [], True, 1.5, [None], [[]]], ids=repr)
def test_what_no_grader_accepts_is_refused(kind: str, value: object) -> None:
    """An assertion that asserts nothing would always pass."""
    with pytest.raises(GraderValueError):
        build_graders(kind, value)


def test_the_editor_schema_is_a_schema_that_knows_every_kind() -> None:
    """Editors complete and check ``expect`` by it."""
    schema = expect_json_schema()
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert tuple(schema["properties"]) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_editor_schema_agrees_with_the_grader(kind: str) -> None:
    """What builds is valid there; what no grader accepts is not."""
    validator = Draft202012Validator(expect_json_schema())
    assert validator.is_valid({kind: example(kind)})
    for grader in built(kind):
        given_keys = {key: one for key, one in grader.parameters().items() if one is not None}
        takes_list = grader_class(kind).takes_list
        assert validator.is_valid({kind: [given_keys] if takes_list else given_keys})
    refused_values: tuple[object, ...] = (None, [], True, 1.5, [None], [[]])
    for refused in refused_values:
        assert not validator.is_valid({kind: refused})
    assert not validator.is_valid({kind: example(kind), "no_such_kind": 1})


def test_the_reference_documents_every_kind_with_examples_that_load() -> None:
    """docs/graders.md has a chapter for each kind, and every YAML block in it builds."""
    text = REFERENCE.read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"\n## {kind}\n" in text
    shown: set[str] = set()
    validator = Draft202012Validator(expect_json_schema())
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        for document in yaml.safe_load_all(block):
            assert validator.is_valid(document["expect"])
            for kind, value in document["expect"].items():
                assert build_graders(kind, value)
                shown.add(kind)
    assert shown == set(KINDS)


def test_a_whole_case_is_graded_whatever_happened() -> None:
    """All kinds together, over every hostile scene, through the one entrance."""
    every = tuple(grader for kind in KINDS for grader in built(kind))
    one = Case("c", "k", (UserTurn("t"),), every)
    for trajectory in HOSTILE.values():
        grades = grade_trial(one, trajectory, "truncated")
        assert len(grades) >= len(every)
        assert all(len(grade.reason) <= LONGEST_REASON for grade in grades)
        assert all(grade.outcome in ("passed", "failed") for grade in grades)


def test_importing_the_package_loads_no_grader() -> None:
    """A kind's module is imported when a case first asks for it."""
    code = (
        "import sys, watchkeeper.graders as g\n"
        "loaded = [k for k in g.grader_kinds() if f'watchkeeper.graders.{k}' in sys.modules]\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
