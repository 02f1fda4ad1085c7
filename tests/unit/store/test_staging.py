"""What a run puts aside comes back whole, and what was said only where it is missing."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.errors import RecordUnreadable
from watchkeeper.store.objects import open_objects
from watchkeeper.store.objects.port import ObjectStore
from watchkeeper.store.staging import stage, staged


def finished(number: int) -> dict[str, Any]:
    """One finished attempt, as the journal has it."""
    key = {"trial_id": f"t{number}", "attempt": 1}
    said = {**key, "answer": f"answer {number}\u2028" * 3}
    return {"trial": {**key, "status": "completed"}, "transcript": said, "again": False}


def grades(number: int) -> dict[str, Any]:
    """All grades of that attempt."""
    return {"grades": [{"trial_id": f"t{number}", "attempt": 1, "outcome": "passed"}]}


SHARDS = ([finished(0), finished(1), grades(0), grades(1)], [finished(2), grades(2)])


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    """A store in which a run has put two shards aside, the first twice."""
    store = open_objects("file:./store", root=tmp_path)
    for shard in (*SHARDS, SHARDS[0]):
        stage(store, "run", shard)
    return store


def in_order(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same lines in an order of their own."""
    return sorted(lines, key=repr)


def test_another_machine_gets_everything_once(objects: ObjectStore) -> None:
    """A machine that knows nothing takes over every line, with what was said."""
    found = list(staged(objects, "run"))
    assert in_order(found) == in_order([*SHARDS[0], *SHARDS[1]])


def test_what_is_known_is_not_read_again(objects: ObjectStore) -> None:
    """Of shards whose attempts are all here no transcript is fetched: they may as well be gone."""
    for info in list(objects.list("staging/run/")):
        if info.key.endswith(".transcripts.jsonl.gz"):
            objects.delete(info.key)
    known = {("t0", 1), ("t1", 1), ("t2", 1)}
    found = list(staged(objects, "run", known))
    assert [line for line in found if "transcript" in line] == []
    assert {line["trial"]["trial_id"] for line in found if "trial" in line} == {"t0", "t1", "t2"}


def test_what_is_learnt_meanwhile_is_known(objects: ObjectStore) -> None:
    """The set may grow while lines are taken over, as it does when a run is recovered."""
    known: set[tuple[str, int]] = set()
    said = 0
    for line in staged(objects, "run", known):
        if "trial" in line:
            said += "transcript" in line
            known.add((line["trial"]["trial_id"], line["trial"]["attempt"]))
    assert said == len(known) == 3


def test_a_damaged_object_is_told_with_its_name(objects: ObjectStore) -> None:
    """It was cut short from outside; nothing is guessed."""
    (info, *_) = [
        one for one in objects.list("staging/run/") if one.key.endswith(".transcripts.jsonl.gz")
    ]
    whole = objects.get(info.key)
    objects.delete(info.key)
    objects.put_if_absent(info.key, whole[: len(whole) // 2])
    with pytest.raises(RecordUnreadable, match=r"transcripts\.jsonl\.gz is damaged"):
        list(staged(objects, "run"))


def test_lines_hold_nothing_that_was_said(objects: ObjectStore) -> None:
    """Whoever recovers a run reads rows for counting alone."""
    for info in objects.list("staging/run/"):
        text = gzip.decompress(objects.get(info.key)).decode()
        assert ("answer" in text) == info.key.endswith(".transcripts.jsonl.gz")
