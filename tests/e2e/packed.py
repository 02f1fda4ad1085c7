"""What files hold, also where it is packed: for tests that look for what must not be there."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import duckdb


def texts_below(folder: Path) -> dict[str, str]:
    """Everything that a folder holds, as text: objects as they are, and what is packed in them."""
    found: dict[str, str] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        text = data.decode("latin-1")
        if path.suffix == ".gz":
            text += gzip.decompress(data).decode()
        elif path.suffix == ".parquet":
            text += _all_rows(f"from read_parquet('{path}')")
        elif path.suffix == ".duckdb":
            text += _catalog(path)
        found[str(path.relative_to(folder))] = text
    return found


def _all_rows(source: str) -> str:
    with duckdb.connect() as connection:
        return repr(connection.execute(f"select * {source}").fetchall())


def _catalog(path: Path) -> str:
    with duckdb.connect(str(path), read_only=True) as connection:
        tables: list[Any] = connection.execute(
            "select table_name from information_schema.tables"
        ).fetchall()
        return "".join(
            repr(connection.execute(f'select * from "{name}"').fetchall()) for (name,) in tables
        )
