"""For tools of your own harness: the trial that they are called in.

A tool of ``harness.tools`` may ask where its trial works::

    from watchkeeper.place import current

    def read_file(path: str) -> str:
        return (current().workspace / path).read_text()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A trial's own folder and name.

    ``workspace`` holds the case's files and is gone after the trial; ``None`` where the case has
    neither files nor setup.
    """

    trial_id: str
    case_id: str
    workspace: Path | None


_CURRENT: ContextVar[Place] = ContextVar("watchkeeper_place")


def current() -> Place:
    """The place of the trial that calls.

    Raises:
        LookupError: No trial calls: the tool is used outside of Watchkeeper.
    """
    return _CURRENT.get()


@contextlib.contextmanager
def at_place(place: Place) -> Iterator[None]:
    """Makes a place the current one within the block, and in threads that are started there."""
    token = _CURRENT.set(place)
    try:
        yield
    finally:
        _CURRENT.reset(token)
