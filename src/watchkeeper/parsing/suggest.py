"""The nearest known name, for whoever mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable
from typing import TypeGuard

from watchkeeper.domain.identity import is_name


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, or ``None`` where none is close."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def known_names(name: str, known: Iterable[str], limit: int = 12) -> str:
    """``did you mean 'x'? known: …``, for the end of an error."""
    names = sorted(known)
    closest = nearest(name, names)
    listed = ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if names[limit:] else "")
    hint = f"did you mean '{closest}'? " if closest else ""
    return f"{hint}known: {listed or 'none'}"


def is_unknown_name(value: object, known: Container[str]) -> TypeGuard[str]:
    """Whether something is a name, but not one that is known; what is no name is told elsewhere."""
    return isinstance(value, str) and is_name(value) and value not in known
