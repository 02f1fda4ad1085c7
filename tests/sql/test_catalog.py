"""catalog.duckdb in a plain client, which knows nothing of this program."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from tests.projects import Bench, bench
from watchkeeper.pipeline.steps import committing
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.store.mentions import made_name
from watchkeeper.store.statements import statements

VIEWS = [made_name(statement) for statement in statements("views").values()]


@pytest.fixture
def catalog(stored: Bench) -> Path:
    """The catalog of the stored nights."""
    return stored.services.project.root / "store" / "catalog.duckdb"


def counts(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """The rows of every view."""
    found = {}
    for view in VIEWS:
        (row,) = connection.execute(f"select count(*) from {view}").fetchall()
        found[view] = int(row[0])
    return found


def test_every_view_has_the_same_rows(stored: Bench, catalog: Path) -> None:
    """Read-only and with DuckDB's defaults each view counts what the store's own history counts."""
    own = stored.services.history().connect()
    with duckdb.connect(str(catalog), read_only=True) as plain:
        found = counts(plain)
        assert found == counts(own)
        assert found["trials"] == 24
        assert min(found[view] for view in VIEWS if view != "incidents") > 0
        rows = plain.execute("select run_id, passed, pass_rate from runs order by all").fetchall()
        assert (
            rows
            == own.execute("select run_id, passed, pass_rate from runs order by all").fetchall()
        )
    own.close()


def test_nobody_writes_through_it(catalog: Path) -> None:
    """A read-only client can change neither the catalog nor, through it, the store."""
    before = catalog.read_bytes()
    with duckdb.connect(str(catalog), read_only=True) as plain:
        with pytest.raises(duckdb.Error, match=r"read-only|not an table|Can only"):
            plain.execute("delete from run_records")
    assert catalog.read_bytes() == before


def test_it_is_rebuilt_from_the_commits(stored: Bench, tmp_path: Path) -> None:
    """A catalog that was lost, or is nonsense, is made anew from what the store holds."""
    copied = tmp_path / "project"
    shutil.copytree(stored.services.project.root, copied)
    catalog = copied / "store" / "catalog.duckdb"
    catalog.write_bytes(b"nonsense")
    made = bench(copied)
    assert committing.refresh_catalog(Workshop(made.services)) == catalog
    with duckdb.connect(str(catalog), read_only=True) as plain:
        assert counts(plain)["trials"] == 24
