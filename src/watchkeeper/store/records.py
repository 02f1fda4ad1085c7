"""Runs in the store: rows first, the commit marker last, and every reader begins with the marker.

staging/<run_id>/plan.json              what was promised, before the first call
staging/<run_id>/<sha256>.jsonl.gz      finished trials and grades, while the run goes on
trials/run_date=D/run_id=R/<sha256>.parquet   and grades/…, transcripts/…
commits/<run_id>.json                   THE COMMIT
verdicts/<run_id>.json                  what was concluded, once
incidents/<incident_id>/<key>.json      what happened to an incident, append-only
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from watchkeeper.domain.records import transcripts_beside
from watchkeeper.errors import RecordUnreadable
from watchkeeper.store.cache import FileRef
from watchkeeper.store.objects.port import ObjectMissing, ObjectStore
from watchkeeper.store.staging import stage, staged

COMMIT_SCHEMA_VERSION = 1
_FOLDERS = {"trial_attempts": "trials", "grade_records": "grades", "transcripts": "transcripts"}


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A Parquet file that a commit promises."""

    table: str
    key: str
    rows: int
    bytes: int
    sha256: str

    @property
    def reference(self) -> FileRef:
        """The file as the cache asks for it."""
        return FileRef(self.key, self.bytes, self.sha256)


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed run: its manifest as JSON, and the files that hold its rows."""

    run_id: str
    committed_at: str
    token: str
    manifest: Mapping[str, Any]
    files: tuple[CommitFile, ...]

    def file(self, table: str) -> CommitFile | None:
        """The file with the rows of one table."""
        return next((one for one in self.files if one.table == table), None)


class RunRecords:
    """Writes and reads whole runs, verdicts and incident events."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    def is_committed(self, run_id: str) -> bool:
        """Whether the run has its commit marker."""
        try:
            self.objects.get(_commit_key(run_id))
        except ObjectMissing:
            return False
        return True

    def stage(self, run_id: str, lines: Sequence[Mapping[str, Any]]) -> None:
        """Puts finished records aside in the store; the same records twice are stored once."""
        stage(self.objects, run_id, lines)

    def staged(
        self, run_id: str, known: Collection[tuple[str, int]] = ()
    ) -> Iterator[dict[str, Any]]:
        """The records that were put aside; those of ``known`` attempts without transcripts."""
        return staged(self.objects, run_id, known)

    def stage_plan(self, run_id: str, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Writes down what a run promises and returns what holds: the first plan that was written.

        A restart, or another machine, works on the same trials.
        """
        key = f"staging/{run_id}/plan.json"
        data = json.dumps(plan, ensure_ascii=False, sort_keys=True).encode()
        if self.objects.put_if_absent(key, data):
            return plan
        held = self.staged_plan(run_id)
        if held is None:  # whoever committed the run has cleared it away meanwhile
            self.objects.put_if_absent(key, data)
            held = self.staged_plan(run_id)
        return plan if held is None else held

    def staged_plan(self, run_id: str) -> Mapping[str, Any] | None:
        """The plan of a run that was begun and is not committed, or ``None``."""
        key = f"staging/{run_id}/plan.json"
        try:
            return _parsed(self.objects.get(key), key, self.objects.url)
        except ObjectMissing:
            return None

    def clear_staging(self, run_id: str) -> None:
        """Removes what a committed run had put aside."""
        for info in list(self.objects.list(f"staging/{run_id}/")):
            self.objects.delete(info.key)

    def commit(
        self,
        manifest: Mapping[str, Any],
        journals: Sequence[Path],
        run_date: str,
        committed_at: datetime,
        token: str,
    ) -> bool:
        """Makes a run part of history, all of it or nothing.

        Args:
            manifest: The run's manifest as JSON.
            journals: Files of lines with a ``trial`` or a ``grades``; transcripts lie beside.
            run_date: UTC date of the run, ``YYYY-MM-DD``.
            committed_at: Now.
            token: Tells this writer from any other.

        Returns:
            Whether this call made the commit; False: another writer did, with the same rows.
        """
        # DuckDB is loaded where rows are written, not where a marker is looked up.
        from watchkeeper.store import tables  # noqa: PLC0415

        run_id = str(manifest["run_id"])
        said = [transcripts_beside(path) for path in journals]
        files: list[CommitFile] = []
        with TemporaryDirectory(prefix="watchkeeper-") as folder:
            # One table at a time, by one thread: memory is needed beside the trials' own.
            connection = tables.connect(
                memory_limit=tables.memory_to_load([*journals, *said]),
                threads=1,
                scratch=Path(folder),
            )
            try:
                tables.create_tables(connection, only=_FOLDERS)
                for table, member in (
                    ("trial_attempts", "trial"),
                    ("transcripts", "transcript"),
                    ("grade_records", "grades"),
                ):
                    is_list = member == "grades"
                    files_of = said if member == "transcript" else journals
                    tables.insert_json_lines(connection, table, files_of, member, is_list=is_list)
                    path = Path(folder) / f"{table}.parquet"
                    rows = tables.write_parquet(connection, table, path)
                    connection.execute(f"drop table {table}")
                    files.append(self._put_file(table, path, rows, run_id, run_date))
            finally:
                connection.close()
        marker = {
            "schema_version": COMMIT_SCHEMA_VERSION,
            "run_id": run_id,
            "token": token,
            "committed_at": committed_at.isoformat(),
            "files": [
                {
                    "table": file.table,
                    "key": file.key,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "sha256": file.sha256,
                }
                for file in files
            ],
            "manifest": manifest,
        }
        data = json.dumps(marker, ensure_ascii=False, sort_keys=True).encode()
        created = self.objects.put_if_absent(_commit_key(run_id), data)
        if not created:
            key = _commit_key(run_id)
            stored = _parsed(self.objects.get(key), key, self.objects.url)
            created = stored.get("token") == token
        return created

    def commits(self) -> list[Commit]:
        """Every committed run, in the order of the run ids, which begin with the time."""
        keys = [info.key for info in self.objects.list("commits/")]
        return [self._read_commit(key) for key in keys if key.endswith(".json")]

    def commit_of(self, run_id: str) -> Commit | None:
        """One committed run, or ``None`` where there is no such commit."""
        try:
            return self._read_commit(_commit_key(run_id))
        except ObjectMissing:
            return None

    def put_verdict(self, run_id: str, verdict: Mapping[str, Any]) -> bool:
        """Stores what was concluded about a run; the first conclusion stays."""
        data = json.dumps(verdict, ensure_ascii=False, sort_keys=True).encode()
        return self.objects.put_if_absent(f"verdicts/{run_id}.json", data)

    def verdict(self, run_id: str) -> dict[str, Any] | None:
        """The stored verdict of a run as JSON."""
        key = f"verdicts/{run_id}.json"
        try:
            return _parsed(self.objects.get(key), key, self.objects.url)
        except ObjectMissing:
            return None

    def verdicts(self) -> list[dict[str, Any]]:
        """Every stored verdict as JSON."""
        return self._all("verdicts/")

    def put_event(self, incident_id: str, key: str, event: Mapping[str, Any]) -> bool:
        """Stores an incident's event; the same key is stored once."""
        data = json.dumps(event, ensure_ascii=False, sort_keys=True).encode()
        name = hashlib.sha256(key.encode()).hexdigest()[:24]
        return self.objects.put_if_absent(f"incidents/{incident_id}/{name}.json", data)

    def events(self) -> list[dict[str, Any]]:
        """Every event of every incident as JSON."""
        return self._all("incidents/")

    def put_message(self, key: str, message: Mapping[str, Any]) -> bool:
        """Puts a message into the outbox before it is sent; the same key is stored once."""
        data = json.dumps(message, ensure_ascii=False, sort_keys=True).encode()
        name = hashlib.sha256(key.encode()).hexdigest()[:24]
        return self.objects.put_if_absent(f"outbox/{name}.json", data)

    def put_receipt(self, key: str, receipt: Mapping[str, Any]) -> bool:
        """Records that a message of the outbox was delivered."""
        data = json.dumps(receipt, ensure_ascii=False, sort_keys=True).encode()
        name = hashlib.sha256(key.encode()).hexdigest()[:24]
        return self.objects.put_if_absent(f"receipts/{name}.json", data)

    def unsent_messages(self) -> list[dict[str, Any]]:
        """The messages of the outbox that have no receipt yet, oldest first."""
        sent = {info.key.rpartition("/")[2] for info in self.objects.list("receipts/")}
        keys = [info.key for info in self.objects.list("outbox/")]
        waiting = [key for key in keys if key.rpartition("/")[2] not in sent]
        messages = [_parsed(self.objects.get(key), key, self.objects.url) for key in waiting]
        return sorted(messages, key=lambda one: (str(one.get("queued_at")), str(one.get("key"))))

    def receipts(self) -> list[dict[str, Any]]:
        """Every receipt as JSON."""
        return self._all("receipts/")

    def _all(self, prefix: str) -> list[dict[str, Any]]:
        keys = [info.key for info in self.objects.list(prefix)]
        return [_parsed(self.objects.get(key), key, self.objects.url) for key in keys]

    def _read_commit(self, key: str) -> Commit:
        marker = _parsed(self.objects.get(key), key, self.objects.url)
        version = marker.get("schema_version")
        if not isinstance(version, int) or version > COMMIT_SCHEMA_VERSION:
            raise RecordUnreadable(
                f"{self.objects.url}/{key} has schema version {version!r}; this version reads up "
                f"to {COMMIT_SCHEMA_VERSION}. Install a newer watchkeeper to read this store"
            )
        try:
            return Commit(
                run_id=marker["run_id"],
                committed_at=marker["committed_at"],
                token=marker["token"],
                manifest=marker["manifest"],
                files=tuple(CommitFile(**file) for file in marker["files"]),
            )
        except (KeyError, TypeError) as error:
            raise RecordUnreadable(
                f"{self.objects.url}/{key} is no commit marker: {error!r}; restore it from a "
                "backup, or move it away to leave this run out of history"
            ) from error

    def _put_file(
        self, table: str, path: Path, rows: int, run_id: str, run_date: str
    ) -> CommitFile:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        key = f"{_FOLDERS[table]}/run_date={run_date}/run_id={run_id}/{digest}.parquet"
        self.objects.put_if_absent(key, data)
        return CommitFile(table, key, rows, len(data), digest)


def _commit_key(run_id: str) -> str:
    return f"commits/{run_id}.json"


def _parsed(data: bytes, key: str, url: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise RecordUnreadable(
            f"{url}/{key} is not JSON ({error}); it was cut short or overwritten from outside. "
            "Restore it from a backup or move it away"
        ) from error
    if not isinstance(value, dict):
        raise RecordUnreadable(f"{url}/{key} holds no JSON object")
    return value
