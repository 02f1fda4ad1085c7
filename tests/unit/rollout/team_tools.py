"""Tools as a team writes them: sync and async, plain and described."""

from __future__ import annotations

import asyncio
import threading

MEETING = threading.Barrier(2)


def add(first: int, second: int = 1) -> int:
    """Adds two numbers."""
    return first + second


async def find(pattern: str) -> list[str]:
    """Finds files."""
    await asyncio.sleep(0)
    return [f"{pattern}.txt"]


def note(text: str) -> None:
    """Keeps a note."""


def broken(path: str) -> str:
    """Always raises."""
    raise FileNotFoundError(2, "No such file or directory", path)


def nothing() -> None:
    """Returns nothing."""


def meet() -> str:
    """Returns when two calls are at work at the same time."""
    MEETING.wait(timeout=10)
    return "met"


async def never() -> None:
    """Never returns."""
    await asyncio.Event().wait()


def odd() -> object:
    """Returns something that JSON cannot hold."""
    return {"at": threading.Event}


def leave() -> None:
    """Ends the program."""
    raise SystemExit(3)


TOOLS = [
    add,
    find,
    broken,
    nothing,
    meet,
    never,
    odd,
    leave,
    {"function": note, "name": "scratch_pad", "description": "A pad.", "silent": True},
]
TEXT = "add"
NUMBERS = [1]
TWICE = [add, add]
