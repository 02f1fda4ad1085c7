"""Rows into typed DuckDB tables and out again as Parquet."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from watchkeeper.errors import RecordUnreadable
from watchkeeper.store.mentions import made_name
from watchkeeper.store.statements import statements

ROW_GROUP_SIZE = 20_000
TRANSCRIPT_GROUP_SIZE = 2048  # a group is held in memory, and a transcript may have megabytes
CATALOG_VERSION = "v1.4.0"
"""The oldest DuckDB that opens catalog.duckdb, whichever version wrote it."""
_SMALLEST_BUFFER_BYTES = 1024 * 1024
_LOADING_MB = 512

RECORD_TABLES = ("trial_attempts", "grade_records", "transcripts")


def connect(
    path: str = ":memory:",
    *,
    memory_limit: str = "1GB",
    threads: int = 2,
    scratch: Path | None = None,
) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that reaches for nothing by itself, in UTC.

    Args:
        path: A database file, or memory.
        memory_limit: As DuckDB writes it.
        threads: Worker threads.
        scratch: Where goes what does not fit into memory; by default as DuckDB chooses.
    """
    beyond = {} if scratch is None else {"temp_directory": str(scratch)}
    connection = duckdb.connect(
        path,
        config={
            **beyond,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": memory_limit,
            "threads": str(threads),
            "allow_community_extensions": "false",
            "storage_compatibility_version": CATALOG_VERSION,
        },
    )
    connection.execute("set timezone = 'UTC'")
    return connection


def memory_to_load(files: Iterable[Path]) -> str:
    """A bound on the memory that rows of such files need on their way into Parquet.

    What is beyond it goes to the disk, so that a run of any size needs the same; only a single
    long line needs more, several times over.
    """
    longest = _longest_line(str(path) for path in files if path.exists())
    return f"{_LOADING_MB + 16 * longest // 1_000_000}MB"


def create_tables(
    connection: duckdb.DuckDBPyConnection,
    without: Iterable[str] = (),
    only: Collection[str] | None = None,
) -> None:
    """Creates the record tables of sql/schema.

    Args:
        connection: Where they are made.
        without: Tables that are not made here.
        only: The names of those that are needed; all by default.
    """
    left_out = set(without)
    for statement in statements("schema").values():
        name = made_name(statement)
        if name not in left_out and (only is None or name in only):
            connection.execute(statement)


def create_views(
    connection: duckdb.DuckDBPyConnection, only: Collection[str] | None = None
) -> None:
    """Creates the views of sql/views over the record tables; ``only`` names those needed."""
    for statement in statements("views").values():
        if only is None or made_name(statement) in only:
            connection.execute(statement)


def schema_of(table: str) -> str:
    """The schema statement of a table.

    Raises:
        KeyError: There is no such table.
    """
    for statement in statements("schema").values():
        if made_name(statement) == table:
            return statement
    raise KeyError(table)


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The columns of a table with their DuckDB types, in order."""
    described = connection.execute(f"describe {table}").fetchall()
    return {str(row[0]): str(row[1]) for row in described}


def insert_json_lines(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    files: Iterable[Path],
    member: str | None = None,
    *,
    is_list: bool = False,
) -> None:
    """Adds the rows of JSON-lines files to a table.

    Args:
        connection: Holds the table.
        table: Its name.
        files: Files with one JSON object a line.
        member: The member of every object that is the row; the object itself by default. Objects
            without it are passed over.
        is_list: Whether the member is a list of rows.

    Raises:
        RecordUnreadable: A row does not fit the schema.
    """
    paths = [str(path) for path in files if path.exists() and path.stat().st_size > 0]
    if not paths:
        return
    columns = columns_of(connection, table)
    if member is None:
        expected, select = columns, "*"
    else:
        fields = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        expected = {member: f"struct({fields}){'[]' if is_list else ''}"}
        select = f"unnest({member}{', recursive := true' if is_list else ''})"
    where = "" if member is None else f" where {member} is not null"
    # Written out, because DuckDB looks for pandas anew for every value that is a parameter.
    listed = ", ".join(_quoted(path) for path in paths)
    typed = ", ".join(f"{_quoted(name)}: {_quoted(kind)}" for name, kind in expected.items())
    try:
        connection.execute(
            f"insert into {table} by name select {select} from read_json([{listed}], "  # noqa: S608
            f"format = 'newline_delimited', columns = {{{typed}}}, "
            f"maximum_object_size = {_longest_line(paths)}){where}"
        )
    except duckdb.Error as error:
        raise RecordUnreadable(
            f"rows for {table} do not fit sql/schema: {str(error)[:500]}"
        ) from error


def insert_rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    rows: Iterable[Mapping[str, Any]],
    scratch: Path,
) -> None:
    """Adds rows to a table by way of a scratch file, which is much faster than one by one."""
    path = scratch / f"{table}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False))
            file.write("\n")
    insert_json_lines(connection, table, [path])
    path.unlink()


def write_parquet(connection: duckdb.DuckDBPyConnection, table: str, path: Path) -> int:
    """Writes a table as Parquet and says how many rows it has; the order makes it repeatable."""
    order = {
        "trial_attempts": "case_id, trial_index, attempt",
        "transcripts": "case_id, trial_id, attempt",
        "grade_records": "case_id, trial_id, attempt, assertion",
    }[table]
    size = TRANSCRIPT_GROUP_SIZE if table == "transcripts" else ROW_GROUP_SIZE
    connection.execute(
        f"copy (select * from {table} order by {order}) to {_quoted(str(path))} "  # noqa: S608
        f"(format parquet, compression zstd, row_group_size {size})"
    )
    found = connection.execute(f"select count(*) from {table}").fetchone()  # noqa: S608
    return int(found[0]) if found else 0


def _longest_line(paths: Iterable[str]) -> int:
    """A bound on the bytes of a line; DuckDB sets aside a multiple of it before it reads."""
    longest = _SMALLEST_BUFFER_BYTES
    for path in paths:
        with Path(path).open("rb") as lines:
            longest = max(longest, max((len(line) for line in lines), default=0) + 1024)
    return longest


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
