"""catalog.duckdb: the same views for any DuckDB client, rebuilt from the commits."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from watchkeeper.store import tables
from watchkeeper.store.history import History, fill_small_tables, view_over_files
from watchkeeper.store.records import RunRecords

CATALOG_KEY = "catalog.duckdb"


def publish_catalog(history: History, records: RunRecords, scratch: Path) -> Path | None:
    """Builds the catalog anew and puts it into the store; the last writer wins.

    In a store on this machine the catalog's views read the Parquet files where they are. DuckDB
    cannot define a view over files that it cannot open, so for a remote store the rows of trials
    and grades are copied into the catalog and what was said is left out.

    Returns:
        Where the catalog is, for a store on this machine.
    """
    objects = records.objects
    is_local = objects.local_path(CATALOG_KEY) is not None
    scratch.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="catalog-", dir=scratch) as folder:
        path = Path(folder) / CATALOG_KEY
        connection = tables.connect(str(path))
        try:
            tables.create_tables(connection, without=tables.RECORD_TABLES)
            fill_small_tables(connection, history.commits, records, Path(folder))
            for table in tables.RECORD_TABLES:
                if table == "transcripts" and not is_local:
                    paths = []
                else:
                    paths = [str(one) for one in history.paths_of(table)]
                if not paths:
                    connection.execute(tables.schema_of(table))
                elif is_local:
                    connection.execute(view_over_files(table, paths))
                else:
                    copied = view_over_files(table, paths).replace("create view", "create table", 1)
                    connection.execute(copied)
            tables.create_views(connection)
        finally:
            connection.close()
        objects.put(CATALOG_KEY, path.read_bytes())
    return objects.local_path(CATALOG_KEY)
