"""Attempts that were committed to a store, read back from its Parquet files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.unit.rollout.stage import START
from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.records import trial_from_rows
from watchkeeper.domain.run import CaseStamp, Manifest
from watchkeeper.domain.trial import Trial
from watchkeeper.store.history import History, fetch
from watchkeeper.store.objects import open_objects
from watchkeeper.store.payloads import to_json
from watchkeeper.store.records import RunRecords

STAMP = CaseStamp("case", "facts", "cluster", "asks", "demands", 3, tags={"language": "es-AR"})
MANIFEST = Manifest(
    run_id="run",
    endpoint="agent",
    suite="basic",
    purpose="nightly",
    trigger="test",
    seed=1,
    slot_at=START,
    planned_at=START,
    confirms=None,
    suite_hash="",
    cases=(STAMP,),
    gates=(),
    graders={},
    endpoint_kind="scripted",
    endpoint_owner="team",
    suite_owner="team",
    env="staging",
    endpoint_config_hash="",
    identity=ServedIdentity("alias", "model-v1"),
    limits={},
    attempt_policy={},
    price_table_version="",
    engine_version="",
    planned_count=3,
)


def stored_trials(folder: Path, journal: Path, manifest: Manifest) -> list[Trial]:
    """The attempts of a journal after a commit, in the order of their ids."""
    records = RunRecords(open_objects("file:./store", root=folder))
    at = datetime(2026, 3, 2, tzinfo=UTC)
    assert records.commit(to_json(manifest), [journal], "2026-03-02", at, "token")
    connection = History(records, folder / "cache").connect()
    try:
        rows, said = (
            fetch(connection, f"select * from {table} order by trial_id, attempt", {})
            for table in ("trial_attempts", "transcripts")
        )
    finally:
        connection.close()
    return [
        trial_from_rows(with_texts(row), transcript)
        for row, transcript in zip(rows, said, strict=True)
    ]


def with_texts(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its times as the texts that the journal holds."""
    return {
        key: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
        for key, value in row.items()
    }
