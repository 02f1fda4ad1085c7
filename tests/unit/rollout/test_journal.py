"""What was written down stays written down, whatever happens to the process or the disk."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watchkeeper.domain.records import transcripts_beside
from watchkeeper.errors import EXIT_BROKEN, BrokenEvaluation, RecordUnreadable
from watchkeeper.rollout.journal import Journal, RunLock, read_journal, read_transcript

HELD = 3
WRITER = """
import sys
from pathlib import Path
from watchkeeper.rollout.journal import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(100_000):
    journal.append({"number": number, "text": "x" * (number % 3_000)})
    print(number, flush=True)
"""
HOLDER = """
import sys
from pathlib import Path
from watchkeeper.rollout.journal import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def written(path: Path, *records: dict[str, Any]) -> None:
    """A journal with these records."""
    with Journal(path) as journal:
        for record in records:
            journal.append(record)


def test_records_come_back_in_order(tmp_path: Path) -> None:
    """Also when the file is opened again in between; folders are made."""
    path = tmp_path / "runs/one/trials.jsonl"
    written(path, {"n": 1}, {"n": 2})
    written(path, {"n": 3})
    assert list(read_journal(path)) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_journal_that_was_never_begun_is_empty(tmp_path: Path) -> None:
    """A run without a finished trial has none."""
    assert list(read_journal(tmp_path / "absent.jsonl")) == []


RECORDS = st.lists(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=5),
        st.text(st.characters(codec="utf-8"), max_size=30) | st.integers() | st.none(),
        max_size=3,
    ),
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(records=RECORDS, cut=st.integers(0, 200))
def test_a_torn_end_loses_its_own_line_and_no_other(
    tmp_path: Path, records: list[dict[str, Any]], cut: int
) -> None:
    """Wherever a power cut ends the file: whole lines count, and the next one begins anew."""
    path = tmp_path / "torn.jsonl"
    path.unlink(missing_ok=True)
    written(path, *records)
    whole = path.read_bytes()
    torn = whole[: max(0, len(whole) - cut)]
    path.write_bytes(torn)
    kept = records[: torn.count(b"\n")]
    assert list(read_journal(path)) == kept
    written(path, {"next": True})
    assert list(read_journal(path)) == [*kept, {"next": True}]


def test_a_torn_line_longer_than_a_block_is_cut_off(tmp_path: Path) -> None:
    """A transcript may have megabytes."""
    path = tmp_path / "long.jsonl"
    written(path, {"n": 1})
    with path.open("ab") as file:
        file.write(b'{"text": "' + b"x" * 300_000)
    written(path, {"n": 2})
    assert list(read_journal(path)) == [{"n": 1}, {"n": 2}]


def test_a_damaged_line_is_told_with_its_number(tmp_path: Path) -> None:
    """A whole line that is no JSON was changed from outside; nothing is guessed."""
    path = tmp_path / "damaged.jsonl"
    path.write_text('{"n": 1}\nnot json\n{"n": 3}\n')
    with pytest.raises(RecordUnreadable, match=r"damaged\.jsonl:2: not a record"):
        list(read_journal(path))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_loses_nothing_that_was_written(full_disk: Path) -> None:
    """The line that does not fit leaves no half of it; once there is room, the journal goes on."""
    path = full_disk / "trials.jsonl"
    ballast = full_disk / "ballast"
    ballast.write_bytes(b"x" * 40_000)
    with Journal(path) as journal:
        journal.append({"n": 1})
        with pytest.raises(
            BrokenEvaluation, match=r"No space left on device.*free the disk"
        ) as told:
            journal.append({"n": 2, "text": "x" * 60_000})
        assert told.value.exit_code == EXIT_BROKEN
        cause = told.value.__cause__
        assert isinstance(cause, OSError)
        assert cause.errno == errno.ENOSPC
        assert list(read_journal(path)) == [{"n": 1}]
        ballast.unlink()
        journal.append({"n": 3})
    assert list(read_journal(path)) == [{"n": 1}, {"n": 3}]


def test_a_killed_process_loses_nothing_that_it_wrote(tmp_path: Path) -> None:
    """Kill -9 in the middle of its work: every line that it had reported is there, and whole."""
    path = tmp_path / "killed.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        reported = [int(child.stdout.readline()) for _ in range(500)]
        child.kill()
        reported += [int(line) for line in child.stdout.read().split()]
    assert child.returncode == -signal.SIGKILL
    numbers = [record["number"] for record in read_journal(path)]
    assert numbers[: len(reported)] == reported
    assert numbers == list(range(len(numbers)))
    assert len(numbers) - len(reported) <= 1
    written(path, {"number": len(numbers)})
    assert len(list(read_journal(path))) == len(numbers) + 1


def test_a_run_is_held_by_one_process(tmp_path: Path) -> None:
    """A second one is told so; a killed one lets go by itself."""
    path = tmp_path / "run-7/lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(BrokenEvaluation, match="run run-7 is being worked on by another"):
            RunLock(path).__enter__()
        child.kill()
        child.wait(10)
    with RunLock(path):
        pass


def test_a_run_is_held_against_the_same_process_too(tmp_path: Path) -> None:
    """Two evaluations in one program are two."""
    path = tmp_path / "run-7/lock"
    with RunLock(path):
        with pytest.raises(BrokenEvaluation):
            RunLock(path).__enter__()
    with RunLock(path):
        pass


def test_lines_are_plain_json(tmp_path: Path) -> None:
    """One object a line, whatever the texts hold."""
    path = tmp_path / "plain.jsonl"
    record = {"text": "one\ntwo\u2028three\x00\x1b[31m ä 😀"}
    written(path, record)
    (line,) = path.read_bytes().split(b"\n")[:-1]
    assert json.loads(line) == record


def spoken(number: int, said: str) -> dict[str, Any]:
    """A record with a transcript, as a finished attempt has one."""
    return {"trial": {"n": number}, "transcript": {"n": number, "answer": said}}


def read_whole(path: Path) -> list[dict[str, Any]]:
    """Every record with its transcript, as it was given."""
    return [
        {"trial": line["trial"], "transcript": read_transcript(path, line)}
        for line in read_journal(path)
    ]


def test_what_was_said_lies_beside(tmp_path: Path) -> None:
    """Whoever counts reads none of it, and any of it can be read alone."""
    path = tmp_path / "trials.jsonl"
    records = [spoken(number, f"sö {number}\n" * number) for number in range(5)]
    written(path, *records[:3])
    written(path, *records[3:])
    assert b"answer" not in path.read_bytes()
    assert all("transcript" not in line for line in read_journal(path))
    assert read_whole(path) == records


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), min_size=1, max_size=5),
    cut=st.integers(0, 300),
    cut_beside=st.integers(0, 300),
)
def test_lines_and_transcripts_stay_together(
    tmp_path: Path, texts: list[str], cut: int, cut_beside: int
) -> None:
    """Wherever either file is torn: what is whole in both counts, and nothing is left alone."""
    path = tmp_path / "pair.jsonl"
    beside = transcripts_beside(path)
    for one in (path, beside):
        one.unlink(missing_ok=True)
    records = [spoken(number, text) for number, text in enumerate(texts)]
    written(path, *records)
    for one, size in ((path, cut), (beside, cut_beside)):
        data = one.read_bytes()
        one.write_bytes(data[: max(0, len(data) - size)])
    kept = min(one.read_bytes().count(b"\n") for one in (path, beside))
    written(path, spoken(9, "next"))
    assert read_whole(path) == [*records[:kept], spoken(9, "next")]
    assert beside.read_bytes().count(b"\n") == kept + 1


def test_a_transcript_that_is_gone_is_told(tmp_path: Path) -> None:
    """The file beside was moved away or overwritten: nothing is guessed."""
    path = tmp_path / "trials.jsonl"
    written(path, spoken(1, "yes"))
    (line,) = read_journal(path)
    transcripts_beside(path).write_text("nothing")
    with pytest.raises(RecordUnreadable, match=r"trials\.transcripts\.jsonl: no transcript at"):
        read_transcript(path, line)


def test_a_full_disk_leaves_no_transcript_without_its_line(full_disk: Path) -> None:
    """Where the line does not fit, what was said goes too; the journal goes on in step."""
    path = full_disk / "trials.jsonl"
    ballast = full_disk / "ballast"
    with Journal(path) as journal:
        journal.append(spoken(1, "yes"))
        ballast.write_bytes(b"x" * 40_000)
        record = {**spoken(2, "yes"), "more": "x" * 60_000}  # there is room for the first of both
        with pytest.raises(BrokenEvaluation, match="free the disk"):
            journal.append(record)
        ballast.unlink()
        journal.append(spoken(3, "yes"))
    assert read_whole(path) == [spoken(1, "yes"), spoken(3, "yes")]
    assert transcripts_beside(path).read_bytes().count(b"\n") == 2
