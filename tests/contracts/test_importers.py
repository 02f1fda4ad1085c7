"""What every importer promises; a new file in importers/ is covered once it has a sample."""

from __future__ import annotations

import gzip
import inspect
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.importers.samples import small_files
from watchkeeper.errors import UsageError
from watchkeeper.importers import importer_kinds, importer_module, kind_of
from watchkeeper.importers._source import Source

NONSENSE: tuple[Any, ...] = (None, 7, -1, "x", "\ud800", [], {}, [[]], {"": None}, True)


def test_every_kind_has_a_sample(tmp_path: Path) -> None:
    """So that nothing below leaves one out."""
    assert tuple(small_files(tmp_path)) == importer_kinds()


@pytest.mark.parametrize("kind", importer_kinds())
def test_a_kind_says_what_it_reads(kind: str) -> None:
    """A title for people, and a reader that yields."""
    module = importer_module(kind)
    assert 5 < len(module.TITLE) < 80
    assert inspect.isgeneratorfunction(module.read)


@pytest.mark.parametrize("kind", importer_kinds())
def test_the_same_trial_is_counted_the_same(kind: str, tmp_path: Path) -> None:
    """Three rounds, a barren one, a path that does not exist, and the answer."""
    for path in small_files(tmp_path)[kind]:
        (trial,) = importer_module(kind).read(path)
        trajectory = trial.trajectory
        assert len(trajectory.rounds) == 3
        assert trajectory.barren_round_count == 1
        calls = [(call.tool, call.status) for call in trajectory.tool_calls]
        assert calls == [("look", "ok"), ("read", "missing_path")]
        assert trajectory.answer == "yes"
        assert (trial.status, trial.stop_reason) == ("completed", "answered")
        assert trial.source.startswith(str(path))


@pytest.mark.parametrize("kind", importer_kinds())
def test_a_file_is_known_by_its_shape(kind: str, tmp_path: Path) -> None:
    """Its own importer takes it, no other does, whatever its name."""
    for path in small_files(tmp_path)[kind]:
        assert kind_of(path) == kind
        others = [one for one in importer_kinds() if one != kind]
        assert not any(importer_module(one).recognises(Source(path)) for one in others)


@pytest.mark.parametrize("kind", importer_kinds())
def test_gzip_makes_no_difference(kind: str, tmp_path: Path) -> None:
    """Large logs are kept so."""
    for path in small_files(tmp_path)[kind]:
        if path.suffix == ".eval":
            continue
        packed = path.with_name(f"{path.name}.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert kind_of(packed) == kind
        (trial,) = importer_module(kind).read(packed)
        assert len(trial.trajectory.rounds) == 3


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a JSON value something could be something else."""
    yield at
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    for key, item in inner.items() if isinstance(inner, dict) else ():
        yield from places(item, (*at, key))


def changed(value: Any, at: tuple[Any, ...], to: Any) -> Any:
    """The value with another one in one place."""
    if not at:
        return to
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = changed(value[at[0]], at[1:], to)
    return copy


def fault(kind: str, path: Path) -> str:
    """What is said of a file, with its name first; nothing where it can be read."""
    try:
        list(importer_module(kind).read(path))
    except UsageError as error:
        said = str(error)
        return said if said.startswith(str(path)) else f"without the file's name: {said}" * 10
    return ""


@pytest.mark.parametrize("kind", importer_kinds())
def test_nonsense_is_told_or_read_and_never_crashes(kind: str, tmp_path: Path) -> None:
    """Whatever stands in one place instead, the error begins with the file and is one line."""
    told = 0
    for path in small_files(tmp_path)[kind]:
        if path.suffix not in (".json", ".traj"):
            continue
        whole = json.loads(path.read_text())
        for at in places(whole):
            for nonsense in NONSENSE:
                path.write_text(json.dumps(changed(whole, at, nonsense)))
                error = fault(kind, path)
                told += bool(error)
                assert len(error) < 2 * len(str(path)) + 400
                assert "\n" not in error
    assert told > 50


@pytest.mark.parametrize("kind", importer_kinds())
def test_a_damaged_file_is_told(kind: str, tmp_path: Path) -> None:
    """Cut anywhere, or with bytes of it changed: an error with the file's name, or a reading."""
    chance = random.Random(7)
    for path in small_files(tmp_path)[kind]:
        whole = path.read_bytes()
        for _ in range(40):
            damaged = bytearray(whole[: chance.randrange(len(whole))])
            for _ in range(3):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            path.write_bytes(damaged)
            fault(kind, path)
