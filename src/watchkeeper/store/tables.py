"""Rows into typed DuckDB tables and out again as Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from watchkeeper.errors import RecordUnreadable
from watchkeeper.store.statements import statements

ROW_GROUP_SIZE = 20_000
_SMALLEST_BUFFER_BYTES = 1024 * 1024

RECORD_TABLES = ("trial_attempts", "grade_records", "transcripts")


def connect(
    path: str = ":memory:", *, memory_limit: str = "1GB", threads: int = 2
) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that reaches for nothing by itself, in UTC.

    Args:
        path: A database file, or memory.
        memory_limit: As DuckDB writes it.
        threads: Worker threads.
    """
    connection = duckdb.connect(
        path,
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": memory_limit,
            "threads": str(threads),
            "allow_community_extensions": "false",
        },
    )
    connection.execute("set timezone = 'UTC'")
    return connection


def create_tables(connection: duckdb.DuckDBPyConnection, without: Iterable[str] = ()) -> None:
    """Creates the record tables of sql/schema, but for those named in ``without``."""
    left_out = set(without)
    for statement in statements("schema").values():
        if table_of(statement) not in left_out:
            connection.execute(statement)


def create_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Creates the views of sql/views over the record tables."""
    for statement in statements("views").values():
        connection.execute(statement)


def table_of(statement: str) -> str:
    """The table that a schema statement creates."""
    return statement.split("create table ", 1)[1].split(" ", 1)[0]


def schema_of(table: str) -> str:
    """The schema statement of a table.

    Raises:
        KeyError: There is no such table.
    """
    for statement in statements("schema").values():
        if table_of(statement) == table:
            return statement
    raise KeyError(table)


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The columns of a table with their DuckDB types, in order."""
    described = connection.execute(
        "select column_name, data_type from duckdb_columns() where table_name = $table "
        "order by column_index",
        {"table": table},
    )
    return {name: str(kind) for name, kind in described.fetchall()}


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
    try:
        connection.execute(
            f"insert into {table} by name select {select} from read_json($paths, "  # noqa: S608
            "format = 'newline_delimited', columns = $columns, "
            f"maximum_object_size = $line_bytes){where}",
            {"paths": paths, "columns": expected, "line_bytes": _longest_line(paths)},
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
    connection.execute(
        f"copy (select * from {table} order by {order}) to '{_quoted(path)}' "  # noqa: S608
        f"(format parquet, compression zstd, row_group_size {ROW_GROUP_SIZE})"
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


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
