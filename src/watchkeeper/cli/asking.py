"""The command that asks history: sql."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context
    from watchkeeper.store.questions import Answer

_FORMATS = ("table", "csv", "json")
_WIDEST = 60


def sql(
    context: Context,
    *,
    query: str | None,
    file: Path | None,
    name: str | None,
    parameters: list[str],
    output: str,
) -> None:
    """Shows the answer to one statement, given as text, in a file, or by the name of a query.

    Raises:
        UsageError: Nothing or too much was asked, or the statement cannot be run.
    """
    if output not in _FORMATS:
        raise UsageError(f"--format {output}: expected one of {', '.join(_FORMATS)}")
    if query is None and file is None and name is None:
        _list_queries()
        return
    statement = _statement(query, file, name)
    from watchkeeper.store.questions import ask

    answer = ask(context.history(), statement, _parameters(parameters))
    if output == "json":
        _print_json(answer)
    elif output == "csv":
        _print_csv(answer)
    else:
        _print_table(answer)
    if answer.is_cut:
        print(f"only the first {len(answer.rows):,} rows are shown", file=sys.stderr)


def _statement(query: str | None, file: Path | None, name: str | None) -> str:
    if sum(one is not None for one in (query, file, name)) != 1:
        raise UsageError("give one of: a query, --file, --name")
    if query is not None:
        return query
    if file is not None:
        try:
            return file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read: {error}") from error
    from watchkeeper.parsing.suggest import known_names
    from watchkeeper.store.statements import statements

    known = statements("queries")
    if name not in known:
        raise UsageError(f"there is no query '{name}'; {known_names(str(name), known, limit=40)}")
    return known[name]


def _parameters(given: list[str]) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise UsageError(f"--param {one}: expected name=value")
        parameters[name] = value
    return parameters


def _list_queries() -> None:
    from watchkeeper.store.statements import statements

    print("Named queries, for --name:")
    for name, statement in statements("queries").items():
        first = statement.split("\n", 1)[0].removeprefix("-- ")
        print(f"  {name}: {first}")


def _print_json(answer: Answer) -> None:
    """JSON as any parser reads it, with everything escaped that could act on a terminal."""
    import re

    from watchkeeper.notifiers.text import harmless
    from watchkeeper.store.questions import storable

    def escaped(found: re.Match[str]) -> str:
        char = found[0]
        if harmless(char) == char:
            return char
        return f"\\u{ord(char):04x}" if char.isascii() else json.dumps(char)[1:-1]

    rows = [
        {column: storable(value) for column, value in zip(answer.columns, row, strict=True)}
        for row in answer.rows
    ]
    text = json.dumps(rows, ensure_ascii=False, allow_nan=False)
    print(re.sub(r"[^ -~]", escaped, text))


def _print_csv(answer: Answer) -> None:
    import csv

    from watchkeeper.notifiers.text import harmless
    from watchkeeper.store.questions import shown

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([harmless(column) for column in answer.columns])
    for row in answer.rows:
        writer.writerow([harmless(shown(value)) for value in row])


def _print_table(answer: Answer) -> None:
    from watchkeeper.notifiers.text import one_line, shorten
    from watchkeeper.store.questions import shown

    cells = [[shorten(one_line(shown(value)), _WIDEST) for value in row] for row in answer.rows]
    columns = [shorten(one_line(column), _WIDEST) for column in answer.columns]
    widths = [
        max([len(column), *(len(row[index]) for row in cells)])
        for index, column in enumerate(columns)
    ]
    is_number = [
        all(isinstance(row[index], int | float) or row[index] is None for row in answer.rows)
        for index in range(len(columns))
    ]
    print("  ".join(c.ljust(w) for c, w in zip(columns, widths, strict=True)).rstrip())
    print("  ".join("-" * width for width in widths))
    for row in cells:
        line = "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, is_number, strict=True)
        )
        print(line.rstrip())
    count = len(answer.rows)
    print(f"({count:,} {'row' if count == 1 else 'rows'})")
