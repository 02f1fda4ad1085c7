"""Every SQL file is one statement with a heading that tells the truth."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from watchkeeper.store.statements import statements

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "sql").rglob("*.sql"))
HEADING = re.compile(r"-- One row(?: |:).+\. Params: (none|\$\w+(?:, \$\w+)*)")
FOLDERS = {"schema", "views", "queries", "checks"}


def _id(path: Path) -> str:
    return path.relative_to(ROOT / "sql").as_posix()


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_a_file_is_one_statement_with_the_parameters_of_its_heading(path: Path) -> None:
    """DuckDB would run a second statement too and return the last one's rows."""
    text = path.read_text()
    heading = HEADING.fullmatch(text.splitlines()[0])
    assert heading, "the first line reads: -- One row per ….  Params: none, or $first, $second"
    found = duckdb.extract_statements(text)
    assert len(found) == 1
    named = [] if heading[1] == "none" else heading[1].split(", ")
    assert sorted(named) == sorted(f"${name}" for name in found[0].named_parameters)


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_a_statement_fits_its_folder(path: Path) -> None:
    """Schemas make tables, views make views; queries and checks change nothing."""
    kind = duckdb.extract_statements(path.read_text())[0].type
    makes = duckdb.StatementType.CREATE
    expected = makes if path.parent.name in {"schema", "views"} else duckdb.StatementType.SELECT
    assert kind == expected


def test_a_files_name_is_its_key() -> None:
    """Every file is found by the package, by its name, in a folder that is known."""
    assert {path.parent.name for path in FILES} <= FOLDERS
    on_disk = {(path.parent.name, path.stem) for path in FILES}
    found = {
        (folder, name)
        for folder in ("schema", "views", "queries", "checks")
        if (ROOT / "sql" / folder).is_dir()
        for name in statements(folder)
    }
    assert found == on_disk


@pytest.mark.parametrize("folder", ["schema", "views"])
def test_numbers_give_the_order(folder: str) -> None:
    """Tables and views are made in the order of their numbers, which have no gap and no double."""
    numbers = [int(path.stem.split("_")[0]) for path in FILES if path.parent.name == folder]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_statement_runs_on_empty_tables() -> None:
    """Names and types fit: schema, views, queries and checks are accepted in that order."""
    connection = duckdb.connect()
    for folder in ("schema", "views"):
        for path in (one for one in FILES if one.parent.name == folder):
            connection.execute(path.read_text())
    for path in (one for one in FILES if one.parent.name in {"queries", "checks"}):
        (statement,) = duckdb.extract_statements(path.read_text())
        connection.execute(statement, {name: _empty(name) for name in statement.named_parameters})


def _empty(name: str) -> object:
    if name.endswith("_count"):
        return 1
    return [""] if name.endswith("s") else ""
