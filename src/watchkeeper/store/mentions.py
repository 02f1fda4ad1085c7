"""Which tables and views a statement needs, so that nothing else is read and made for it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from watchkeeper.store.statements import statements

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_SOURCE = re.compile(r"\b(?:from|join)\s+([a-z_][a-z0-9_]*)")
# What lists the tables and views that exist, or names one in a text that may be put together.
_LOOKS_AROUND = re.compile(
    r"\b(?:information_schema|duckdb_\w+|pg_\w+|sqlite_\w+|pragma\w*|show|describe|query|query_table)\b"
)


def needed_names(asked: Iterable[str]) -> frozenset[str]:
    """The tables of sql/schema and views of sql/views that some statements need.

    A name that is mentioned anywhere is needed, a comment included: rather one too many. A
    statement that asks which tables there are needs them all.
    """
    needed: set[str] = set()
    for statement in asked:
        text = statement.lower()
        if _LOOKS_AROUND.search(text):
            return frozenset(_sources())
        needed |= set(_WORD.findall(text)) & _sources().keys()
    waiting = list(needed)
    while waiting:
        below = _sources()[waiting.pop()] - needed
        needed |= below
        waiting.extend(below)
    return frozenset(needed)


def made_name(statement: str) -> str:
    """The table or view that a statement of sql/schema or sql/views makes."""
    match = re.search(r"^create (?:table|view) (\w+)", statement, re.MULTILINE)
    assert match is not None, statement  # noqa: S101 - a test holds every file to it
    return match[1]


@functools.cache
def _sources() -> Mapping[str, frozenset[str]]:
    """Every table and view by name, with what it reads."""
    tables = {made_name(one): frozenset[str]() for one in statements("schema").values()}
    views = {
        made_name(one): frozenset(_SOURCE.findall(one)) for one in statements("views").values()
    }
    known = tables.keys() | views.keys()
    return {name: sources & known for name, sources in {**tables, **views}.items()}
