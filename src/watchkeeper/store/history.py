"""All history as DuckDB tables and views, read from explicit file lists of commit markers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from watchkeeper.errors import RecordUnreadable
from watchkeeper.store import tables
from watchkeeper.store.cache import FileRef, ObjectCache
from watchkeeper.store.mentions import needed_names
from watchkeeper.store.records import Commit, RunRecords
from watchkeeper.store.statements import query, statements

MAX_CACHE_BYTES = 20 * 1024**3
CACHE_WORKERS = 8

Row = dict[str, Any]


class History:
    """A consistent view of the store as it was when the history was opened."""

    def __init__(self, records: RunRecords, cache_folder: Path) -> None:
        """Lists the commits; files are fetched when a connection is opened.

        Args:
            records: The runs of the store.
            cache_folder: Where files of a remote store are kept.
        """
        self._records = records
        self._cache = ObjectCache(records.objects, cache_folder, MAX_CACHE_BYTES, CACHE_WORKERS)
        self.cache_folder = cache_folder
        self.commits: list[Commit] = records.commits()

    def connect(
        self, run_ids: Iterable[str] | None = None, *, asked: Iterable[str] | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A connection with the record tables and views.

        Args:
            run_ids: The runs whose trials are wanted; all by default.
            asked: The statements that will be run: only what they mention is read and made, by
                default everything.
        """
        wanted = None if run_ids is None else set(run_ids)
        chosen = [one for one in self.commits if wanted is None or one.run_id in wanted]
        needed = None if asked is None else needed_names(asked)
        connection = tables.connect()
        tables.create_tables(connection, without=tables.RECORD_TABLES, only=needed)
        for table in tables.RECORD_TABLES:
            if needed is None or table in needed:
                self._attach(connection, table, _references(chosen, table))
        with TemporaryDirectory(prefix="watchkeeper-") as folder:
            fill_small_tables(connection, chosen, self._records, Path(folder), only=needed)
        tables.create_views(connection, only=needed)
        return connection

    def rows(
        self,
        name: str,
        parameters: Mapping[str, object],
        run_ids: Iterable[str] | None = None,
    ) -> list[Row]:
        """The rows of a named query over the trials of some runs."""
        statement = query(name)
        connection = self.connect(run_ids, asked=[statement])
        try:
            return fetch(connection, statement, parameters)
        finally:
            connection.close()

    def unsound_rows(self, run_id: str) -> dict[str, int]:
        """How many faulty rows each check of sql/checks finds in a run; empty means sound."""
        checks = statements("checks")
        connection = self.connect([run_id], asked=checks.values())
        try:
            found = {
                name: len(fetch(connection, statement, {"run_id": run_id}))
                for name, statement in checks.items()
            }
        finally:
            connection.close()
        return {name: count for name, count in found.items() if count}

    def paths_of(self, table: str) -> list[Path]:
        """The files with a table's rows, absolute and checked; fetched from a remote store."""
        return [path.resolve() for path in self._cache.paths(_references(self.commits, table))]

    def folders(self) -> list[Path]:
        """The only folders that the files of a connection lie in."""
        local = self._records.objects.local_path("commits/x.json")
        if local is None:
            return [self.cache_folder.resolve()]
        return [local.resolve().parent.parent]

    def _attach(
        self, connection: duckdb.DuckDBPyConnection, table: str, references: Sequence[FileRef]
    ) -> None:
        if not references:
            connection.execute(tables.schema_of(table))
            return
        paths = [str(path) for path in self._cache.paths(references)]
        connection.execute(view_over_files(table, paths))


def _references(commits: Sequence[Commit], table: str) -> list[FileRef]:
    files = [commit.file(table) for commit in commits]
    return [file.reference for file in files if file is not None and file.rows]


def view_over_files(table: str, paths: Sequence[str]) -> str:
    """The statement of a view over Parquet files, with the columns of the schema."""
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return (
        f"create view {table} as select * from "  # noqa: S608 - a view takes no parameters
        f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    )


def fetch(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, object]
) -> list[Row]:
    """The rows of a statement as mappings by column."""
    try:
        result = connection.execute(statement, dict(parameters))
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    except duckdb.IOException as error:
        raise RecordUnreadable(f"a stored file cannot be read: {str(error)[:300]}") from error


def fill_small_tables(
    connection: duckdb.DuckDBPyConnection,
    commits: Sequence[Commit],
    records: RunRecords,
    scratch: Path,
    only: Collection[str] | None = None,
) -> None:
    """Fills the tables that come from JSON: runs, planned cases, verdicts, incidents.

    Args:
        connection: Holds the tables.
        commits: The runs that are wanted.
        records: The runs of the store.
        scratch: A folder for files that are gone afterwards.
        only: The names of the tables that are needed; all by default.
    """
    rows_of: dict[str, Callable[[], Iterable[Row]]] = {
        "run_records": lambda: map(_run_row, commits),
        "planned_cases": lambda: (row for commit in commits for row in _planned_rows(commit)),
        "verdict_records": lambda: (
            row for verdict in records.verdicts() for row in _verdict_rows(verdict)
        ),
        "incident_records": lambda: incident_rows(records.events()),
    }
    for table, rows in rows_of.items():
        if only is None or table in only:
            tables.insert_rows(connection, table, rows(), scratch)


def _run_row(commit: Commit) -> Row:
    manifest = commit.manifest
    identity = manifest["identity"]
    names = (
        "run_id endpoint suite purpose trigger seed slot_at planned_at confirms suite_hash "
        "endpoint_kind endpoint_owner suite_owner env endpoint_config_hash price_table_version "
        "engine_version planned_count"
    )
    return {
        **{name: manifest[name] for name in names.split()},
        "committed_at": commit.committed_at,
        "requested_model": identity["requested_model"],
        "resolved_model": identity["resolved_model"],
        "harness_revision": identity["harness_revision"],
    }


def _planned_rows(commit: Commit) -> Iterable[Row]:
    names = (
        "case_id",
        "category",
        "cluster_id",
        "execution_hash",
        "grading_hash",
        "trials",
        "source",
    )
    for stamp in commit.manifest["cases"]:
        yield {"run_id": commit.run_id, **{name: stamp[name] for name in names}}


def _verdict_rows(verdict: Mapping[str, Any]) -> Iterable[Row]:
    counts = verdict["counts"]
    head = {
        name: verdict[name]
        for name in (
            "run_id",
            "endpoint",
            "suite",
            "purpose",
            "slot_at",
            "decided_at",
            "reason",
            "broken",
            "exit_code",
        )
    }
    head["verdict"] = verdict["state"]
    head["planned"] = counts["planned"]
    head["graded"] = counts["passed"] + counts["failed"]
    head["passed"] = counts["passed"]
    findings = verdict["findings"] or [None]
    for finding in findings:
        if finding is None:
            yield head
            continue
        measured = finding["confirmed"] or finding["screened"] or {}
        yield {
            **head,
            "metric": finding["metric"],
            "level": finding["level"],
            "group_name": finding["group"],
            "state": finding["state"],
            "state_reason": finding["reason"],
            **{
                name: measured.get(name)
                for name in (
                    "estimate",
                    "low",
                    "high",
                    "p_worse",
                    "z",
                    "case_count",
                    "smallest_detectable",
                )
            },
            "is_confirmed": finding["confirmed"] is not None,
        }


def incident_rows(events: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Stored events folded to one row an incident."""
    # Folding needs the domain's types; most queries have no incident to fold.
    stored = list(events)
    if not stored:
        return []
    from watchkeeper.domain.incident import fold  # noqa: PLC0415
    from watchkeeper.store.payloads import event_from_json  # noqa: PLC0415

    rows: list[Row] = []
    for incident in fold(event_from_json(event) for event in stored).values():
        root = incident.root
        rows.append(
            {
                "incident_id": incident.id,
                "dedup_key": root.dedup_key,
                "endpoint": root.endpoint,
                "suite": root.suite,
                "env": root.env,
                "root_kind": root.kind,
                "root": root.name,
                "owner": root.owner,
                "severity": root.severity,
                "state": incident.state,
                "resolution": incident.resolution,
                "opened_at": incident.opened_at.isoformat(),
                "resolved_at": incident.resolved_at.isoformat() if incident.resolved_at else None,
                "first_run": incident.first_run,
                "last_run": incident.last_run,
                "night_count": incident.night_count,
                "page_count": len(incident.sent_keys),
            }
        )
    return rows
