"""Questions from people to history: read-only for real, bounded, and helpful when they fail."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import duckdb

from watchkeeper.errors import UsageError
from watchkeeper.store.history import History

MAX_ROWS = 100_000
TIMEOUT_S = 120.0

Value = object


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows; ``is_cut`` says that there were more rows than are shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    is_cut: bool


def ask(
    history: History,
    statement: str,
    parameters: Mapping[str, object],
    *,
    max_rows: int = MAX_ROWS,
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """The answer to one select statement over the views of history.

    Args:
        history: The store's history.
        statement: One statement that only reads.
        parameters: Values of its ``$names``.
        max_rows: Rows at most.
        timeout_s: Seconds at most.

    Raises:
        UsageError: It is not one reading statement, or DuckDB refuses it.
    """
    for asked in ([statement], None):
        connection = history.connect(asked=asked)
        try:
            _lock(connection, history)
            _check(connection, statement)  # reading a statement may open a file that it names
            return _answer(connection, statement, parameters, max_rows, timeout_s)
        except UsageError as error:
            # With everything made DuckDB knows which name was probably meant.
            if asked is None or not isinstance(error.__cause__, duckdb.CatalogException):
                raise
        finally:
            connection.close()
    raise AssertionError("the last connection returns or raises")


def _check(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    try:
        found = connection.extract_statements(statement)
    except duckdb.Error as error:
        raise UsageError(f"the query cannot be read: {_plain(error)}") from error
    if len(found) != 1:
        raise UsageError(f"expected one statement, found {len(found)}")
    if found[0].type != duckdb.StatementType.SELECT:
        kind = str(found[0].type).rpartition(".")[2]
        raise UsageError(
            f"only statements that read are run, this one is {kind}; export rows with "
            "--format csv or json, or open catalog.duckdb with another client"
        )


def _lock(connection: duckdb.DuckDBPyConnection, history: History) -> None:
    """Nothing outside the store's files can be reached from here on, and no setting changed."""
    folders = history.folders()
    listed = ", ".join("'" + str(folder).replace("'", "''") + "'" for folder in folders)
    connection.execute(f"set allowed_directories = [{listed}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _answer(
    connection: duckdb.DuckDBPyConnection,
    statement: str,
    parameters: Mapping[str, object],
    max_rows: int,
    timeout_s: float,
) -> Answer:
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        connection.interrupt()

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    try:
        result = connection.execute(statement, dict(parameters))
        columns = tuple(column[0] for column in result.description or ())
        rows = result.fetchmany(max_rows + 1)
    except duckdb.InterruptException as error:
        if is_late.is_set():
            raise UsageError(
                f"the query was ended after {timeout_s:g} s; ask for less, or use another client "
                "on catalog.duckdb"
            ) from error
        raise
    except duckdb.OutOfMemoryException as error:
        raise UsageError(
            "the query needs more memory than it may use; group or filter earlier"
        ) from error
    except duckdb.Error as error:
        raise UsageError(_helpful(connection, error)) from error
    finally:
        timer.cancel()
    return Answer(columns, tuple(rows[:max_rows]), len(rows) > max_rows)


def _helpful(connection: duckdb.DuckDBPyConnection, error: duckdb.Error) -> str:
    """DuckDB's words, and the column or view that was probably meant."""
    text = _plain(error)
    missing = re.search(r'Referenced column "([^"]+)"|have a column named "([^"]+)"', text)
    if missing is not None:
        known = connection.execute(
            "select distinct column_name from duckdb_columns() where not internal"
        ).fetchall()
        import difflib  # noqa: PLC0415 - only a mistyped name needs it

        name = missing[1] or missing[2]
        close = difflib.get_close_matches(name, [column for (column,) in known], n=3)
        if close and "Candidate bindings" not in text:
            text += f"; did you mean {', '.join(close)}?"
    absent = re.search(r"Table with name (\S+) does not exist", text)
    if absent is not None:
        names = connection.execute(
            "select view_name from duckdb_views() where not internal order by view_name"
        ).fetchall()
        text += f"; views: {', '.join(name for (name,) in names)}"
    if "NO_LOCAL_FILE" in text or "file system operations are disabled" in text.lower():
        text = "a query reads the store's views only, no files and no network: " + text
    return f"the query failed: {text}"


def _plain(error: duckdb.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(line for line in lines if set(line) != {"^"})[:600]


def shown(value: Value) -> str:
    """A value as a table or CSV shows it; nothing known is an empty text."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return str(value)


def storable(value: Value) -> object:
    """A value as JSON holds it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return storable(float(value))
    if isinstance(value, Mapping):
        return {str(key): storable(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [storable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
