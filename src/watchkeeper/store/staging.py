"""What a run puts aside in the store while it goes on, so that another machine can finish it.

staging/<run_id>/<sha256>.jsonl.gz               finished trials and grades
staging/<run_id>/<sha256>.transcripts.jsonl.gz   what was said in them, read where it is missing
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from watchkeeper.errors import RecordUnreadable
from watchkeeper.store.objects.port import ObjectMissing, ObjectStore

_LINES, _TRANSCRIPTS = ".jsonl.gz", ".transcripts.jsonl.gz"
_COMPRESSION = 2  # beyond it, twice the time saves a tenth of the bytes


def stage(objects: ObjectStore, run_id: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Puts finished records aside; the same records twice are stored once."""
    if not lines:
        return
    said = _packed({"transcript": line["transcript"]} for line in lines if "transcript" in line)
    rest = _packed(
        {name: value for name, value in line.items() if name != "transcript"} for line in lines
    )
    name = f"staging/{run_id}/{hashlib.sha256(rest + said).hexdigest()}"
    # Lines last: whoever sees them finds what was said in them.
    objects.put_if_absent(f"{name}{_TRANSCRIPTS}", said)
    objects.put_if_absent(f"{name}{_LINES}", rest)


def staged(
    objects: ObjectStore, run_id: str, known: Collection[tuple[str, int]] = ()
) -> Iterator[dict[str, Any]]:
    """The records that were put aside, in no order that matters.

    Args:
        objects: The store.
        run_id: The run.
        known: Attempts whose records are here already; theirs come without transcripts.

    Raises:
        RecordUnreadable: What was put aside is damaged.
    """
    for info in objects.list(f"staging/{run_id}/"):
        key = info.key
        if not key.endswith(_LINES) or key.endswith(_TRANSCRIPTS):
            continue
        try:
            lines = _unpacked(objects, key)
            missing = [
                line for line in lines if "trial" in line and _of(line["trial"]) not in known
            ]
            if missing:
                rows = _unpacked(objects, f"{key.removesuffix(_LINES)}{_TRANSCRIPTS}")
                said = {_of(row["transcript"]): row["transcript"] for row in rows}
                for line in missing:
                    line["transcript"] = said[_of(line["trial"])]
        except ObjectMissing:
            continue  # whoever committed the run has cleared it away meanwhile
        yield from lines


def _of(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["trial_id"], row["attempt"]


def _packed(lines: Iterable[Mapping[str, Any]]) -> bytes:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return gzip.compress(text.encode(), _COMPRESSION, mtime=0)


def _unpacked(objects: ObjectStore, key: str) -> list[dict[str, Any]]:
    try:
        text = gzip.decompress(objects.get(key)).decode()
        # Only a line feed ends a line: texts may hold what breaks lines elsewhere.
        return [json.loads(line) for line in text.split("\n") if line]
    except (OSError, ValueError, EOFError) as error:
        raise RecordUnreadable(
            f"{objects.url}/{key} is damaged: {error}; delete it, and its trials are run again"
        ) from error
