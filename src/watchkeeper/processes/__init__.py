"""Foreign programs within bounds: time, output, disk; and nothing of them is left afterwards.

Each runs below a supervisor (``_supervisor``) in a session of its own. Whatever ends it, our own
cancellation and our own death included, everything that it started is asked to end (SIGTERM) and
after a grace is killed, children that left its group and session included (Linux; elsewhere the
group).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from watchkeeper.processes._bounds import Bounds, Disk, Ended, EndReason, disk_bytes
from watchkeeper.processes._run import Run

__all__ = ["ALWAYS_PASSED", "Bounds", "EndReason", "Ended", "run_bounded", "surroundings"]

ALWAYS_PASSED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")


def surroundings(
    inherited: Mapping[str, str], names: Iterable[str] = (), given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a foreign program: a few variables, the named ones, and the given.

    Args:
        inherited: The environment of this process.
        names: Further variables to pass on; one that is not set is left out.
        given: Variables with their values, which come first.
    """
    passed = {name: inherited[name] for name in (*ALWAYS_PASSED, *names) if name in inherited}
    return {**passed, **(given or {})}


async def run_bounded(
    words: Sequence[str],
    *,
    cwd: Path,
    variables: Mapping[str, str],
    bounds: Bounds,
    stdin: str | bytes | Callable[[asyncio.WriteTransport], None] | None = None,
    on_line: Callable[[bytes], bool | None] | None = None,
    watched: Sequence[Path] | None = None,
) -> Ended:
    """Runs a program to its end or to a bound; nothing that it started is there afterwards.

    Args:
        words: The program, looked up in the PATH of ``variables``, and its arguments.
        cwd: Where it runs.
        variables: Its whole environment; see ``surroundings``.
        bounds: What it may take.
        stdin: What it reads; nothing by default. A function is given the pipe, to write to it
            while the program runs and to close it.
        on_line: Is given every line of standard output without its end, as it comes; ``True``
            ends the program.
        watched: The folders whose growth ``bounds.disk_bytes`` bounds; ``cwd`` by default.

    Raises:
        OSError: The program could not be executed (``FileNotFoundError``, ``PermissionError``).
        ValueError: A word or a variable holds a NUL, which no program can be given.
    """
    if any("\0" in text for text in (*words, *variables, *variables.values())):
        raise ValueError("a word or a variable holds a NUL")
    order = {
        "words": list(words),
        "variables": dict(variables),
        "file_bytes": bounds.disk_bytes,
        "grace_s": bounds.grace_s,
    }
    text = stdin.encode() if isinstance(stdin, str) else stdin
    disk = None
    if bounds.disk_bytes is not None:
        folders = (cwd,) if watched is None else tuple(watched)
        taken = await asyncio.to_thread(disk_bytes, folders)
        disk = Disk(folders, taken + bounds.disk_bytes)
    return await Run(bounds, on_line, disk).play(order, cwd, text)
