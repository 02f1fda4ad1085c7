"""Whatever a value is replaced by: the project loads, or says on which line it does not."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.loading.example import FILES, assert_stands_in, write
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.loading.project import load_project

DOCUMENTS: dict[str, Any] = {file: yaml.safe_load(text) for file, text in FILES.items()}
SECONDS = 1.0

TELLING: st.SearchStrategy[Any] = st.sampled_from(
    [
        *("", " ", "x" * 5_000, "\x00", "a/b", "..", "../../etc", "/etc/passwd", "/dev/zero"),
        *("config", "config/suites", "prompts/agent.md", "env:HOME", "file:x", "s3://b/p"),
        *("2026-02-30", "٢٠٢٦-01-01", "24:00", "Europe", "* * * * *", "<@U1>", "no_such:NAME"),
        *("1", "-1", "1e9", "²", "true", "null", "~", "*", "&a", "<<", "!x", "{known}", "a: b"),
        *(0, -1, 1, 2, 10**6, 10**40, -(10**40), 0.5, 1.5, -0.5, 1e308, 5e-324),
        *(None, True, False, [], {}, [[]], [{}], {"": ""}, {"a": {"b": []}}),
    ]
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ANYTHING = st.recursive(
    TELLING | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document can be changed: every value in it, leaves and branches."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from paths(inner, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: object) -> Any:
    """A copy of the document with another value at a path."""
    copy = deepcopy(document)
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return copy


def loaded(root: Path) -> tuple[float, tuple[Fault, ...] | None]:
    """How long a project took to load, and its faults; ``None`` where it is sound."""
    started = time.process_time()
    try:
        load_project(root)
    except ConfigError as error:
        return time.process_time() - started, error.faults
    return time.process_time() - started, None


def assert_loads_or_is_told(root: Path) -> None:
    """One of the two, and soon; nothing else may be raised."""
    took_s, faults = loaded(root)
    if took_s >= SECONDS:  # or the collector of this process had its turn
        gc.collect()
        took_s, faults = loaded(root)
    assert took_s < SECONDS
    assert faults is None or faults
    for fault in faults or ():
        assert_stands_in(root, fault)


@pytest.mark.parametrize("file", FILES)
@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_value_anywhere_loads_or_is_told(
    file: str, tmp_path: Path, data: st.DataObject
) -> None:
    """Never another exception, never a line that is not there, never more than a second."""
    path = data.draw(st.sampled_from(list(paths(DOCUMENTS[file]))), label="where")
    document = replaced(DOCUMENTS[file], path, data.draw(ANYTHING, label="what"))
    text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    root = write(tmp_path, {**FILES, file: text})
    assert_loads_or_is_told(root)


LINES = st.lists(st.sampled_from([line for text in FILES.values() for line in text.splitlines()]))


@pytest.mark.parametrize("file", FILES)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=LINES, position=st.floats(0, 1), raw=st.binary(max_size=20))
def test_any_bytes_anywhere_load_or_are_told(
    file: str, tmp_path: Path, lines: list[str], position: float, raw: bytes
) -> None:
    """The same for lines that were pasted into a file, and for bytes that are no text."""
    text = FILES[file].encode()
    cut = int(position * len(text))
    pasted = "\n".join(lines).encode()
    root = write(tmp_path, {**FILES, file: text[:cut] + raw + pasted + text[cut:]})
    assert_loads_or_is_told(root)
