"""Files that are not what they seem: told with file and place, within bounds."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.importers import samples
from tests.unit.importers.samples import OPENAI, SAMPLE, asks, call, result, write, write_lines
from watchkeeper.errors import UsageError
from watchkeeper.importers import _source, importer_module, kind_of


def told(kind: str, path: Path) -> str:
    """What the reader says, after the file's name."""
    with pytest.raises(UsageError) as caught:
        list(importer_module(kind).read(path))
    return str(caught.value).removeprefix(str(path))


def tau(**changes: Any) -> list[dict[str, Any]]:
    """A file of tau-bench with keys of its trial changed."""
    return [{**samples.TAU_BENCH[0], **changes}]


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("tau_bench", {}, ": found a mapping with 0 keys; expected a list"),
        ("tau_bench", tau(trial=-1), ": [0].trial: found -1; expected greater than or equal to 0"),
        ("tau_bench", tau(reward="1"), ": [0].reward: found the text '1'; expected a number"),
        ("tau_bench", [{"traj": []}], ": [0]: key 'task_id' is missing"),
        (
            "tau_bench",
            tau(traj=[{"role": "robot", "content": ""}]),
            ": [0].traj[0].role: found the text 'robot'; expected 'system', 'developer', 'user', "
            "'assistant', 'tool' or 'function'",
        ),
        (
            "tau_bench",
            tau(traj=[*OPENAI[:2], result("c9", "a")]),
            ": [0].traj[2]: a result of the text 'c9' that no call before it waits for; is the "
            "beginning of the conversation missing?",
        ),
        (
            "tau_bench",
            [*samples.TAU_BENCH, *samples.TAU_BENCH],
            ": [1]: trial 1 of case '7' a second time; the first is at {path}: [0]",
        ),
        ("messages", OPENAI[2:], ": messages[0]: a result of the text 'c1' that no call"),
        ("messages", [OPENAI, 5], ": [1]: found 5; expected a list of messages, or an object"),
        (
            "messages",
            [{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}],
            ": messages[0].content[0]: a call without the tool's name",
        ),
        ("swe_agent", {"trajectory": [], "info": 3}, ": info: found 3; expected an object"),
        ("swe_agent", {"info": {}}, ": key 'trajectory' is missing"),
        ("inspect", {"version": 2}, ": key 'eval' is missing"),
        (
            "inspect",
            samples.log({**SAMPLE, "epoch": 0}),
            ": samples[0].epoch: found 0; expected greater than or equal to 1",
        ),
        (
            "inspect",
            samples.log({**SAMPLE, "events": [{"event": "model"}]}),
            ": samples[0].events[0]: key 'model' is missing",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(
    kind: str, value: Any, says: str, tmp_path: Path
) -> None:
    """The place is the file's own: its keys and its numbers, counted from 0."""
    path = write(tmp_path / "file.json", value)
    found = told(kind, path)
    assert found.startswith(says.replace("{path}", str(path))), found


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", ":1:1: no JSON: Expecting value"),
        (b'{"a": 1,\n  oops}', ":2:3: no JSON: Expecting property name"),
        (b'{"a": "\xff"}', ": not UTF-8 text: byte 7"),
        (b"[" * 100_000, ": nested too deeply"),
        (b"[" + b"9" * 5_000 + b"]", ": cannot be read: Exceeds the limit"),
        (gzip.compress(b"[1, 2", mtime=0)[:-9], ": cannot be read: "),
        (b"\x1f\x8bnonsense", ": cannot be read: "),
    ],
)
def test_what_is_no_json_is_told_with_line_and_column(
    content: bytes, says: str, tmp_path: Path
) -> None:
    """However it is broken."""
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert told("messages", path).startswith(says)


def test_lines_are_told_by_their_number(tmp_path: Path) -> None:
    """Blank ones count."""
    path = tmp_path / "file.jsonl"
    path.write_text('{"role": "user", "content": "a"}\n\n{oops\n')
    assert told("messages", path).startswith(": line 3:1:2: no JSON")
    write_lines(path, {"messages": []}, {"messages": [{"role": 1, "content": ""}]})
    assert told("messages", path).startswith(": line 2: messages[0].role: found 1; expected")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, ": cannot be read: No such file or directory"),
        (lambda path: path.mkdir(), ": not a file"),
        (os.mkfifo, ": not a file"),
        (lambda path: path.write_text('{"a": 1}'), ": of no known format; formats: inspect ("),
        (lambda path: path.write_text("# Notes"), ":1:1: no JSON: Expecting value; formats: "),
    ],
)
def test_what_is_no_transcript_is_told(
    make: Callable[[Path], Any], says: str, tmp_path: Path
) -> None:
    """With the formats that there are, where that is the question."""
    path = tmp_path / "notes"
    make(path)
    with pytest.raises(UsageError) as caught:
        kind_of(path)
    assert str(caught.value).removeprefix(str(path)).startswith(says)


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain, packed by gzip or within a zip file: the bound holds for what comes out."""
    monkeypatch.setattr(_source, "MAX_BYTES", 1024**2)
    bomb = b'["' + b"a" * 2 * 1024**2 + b'"]'
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    plain.write_bytes(bomb)
    packed.write_bytes(gzip.compress(bomb))
    assert packed.stat().st_size < 10_000
    for path in (plain, packed):
        assert told("messages", path) == ": larger than 1 MB; split it"
    archive = tmp_path / "a.eval"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as within:
        within.writestr("header.json", json.dumps({"eval": {}}))
        within.writestr("samples/1_epoch_1.json", bomb)
    assert told("inspect", archive) == ": samples/1_epoch_1.json: larger than 1 MB; split it"


def test_a_zip_file_that_lies_is_told(tmp_path: Path) -> None:
    """A header that is none, and bytes that are not those that were packed."""
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "[]")
    assert told("inspect", path).startswith(": header.json: found a list of 0; expected")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", '{"eval": {"model": "one"}}')
    path.write_bytes(path.read_bytes().replace(b'"one"', b'"two"'))
    assert told("inspect", path).startswith(": header.json: cannot be read: Bad CRC")


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    """What was read before is not what stands there now."""
    path = write(tmp_path / "a.json", OPENAI)
    assert kind_of(path) == "messages"
    write(path, [*OPENAI, asks(call("c3", "look"))])
    (trial,) = importer_module("messages").read(path)
    assert len(trial.trajectory.rounds) == 4


def test_an_unknown_format_is_told() -> None:
    """With the one that was probably meant."""
    with pytest.raises(UsageError, match="no format 'taubench'; did you mean 'tau_bench'"):
        importer_module("taubench")
