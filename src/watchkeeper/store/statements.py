"""The SQL files of the package, each one statement, found by name."""

from __future__ import annotations

import functools
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal

Folder = Literal["schema", "views", "queries", "checks"]


def _files(folder: Folder) -> list[Traversable]:
    entries = (resources.files("watchkeeper.sql") / folder).iterdir()
    return sorted(
        (entry for entry in entries if entry.name.endswith(".sql")), key=lambda entry: entry.name
    )


@functools.cache
def statements(folder: Folder) -> dict[str, str]:
    """Every statement of a folder by file name without its ending, in the order of the names."""
    return {entry.name.removesuffix(".sql"): entry.read_text() for entry in _files(folder)}


@functools.cache
def query(name: str) -> str:
    """A named query.

    Raises:
        KeyError: There is no such query.
    """
    return statements("queries")[name]
