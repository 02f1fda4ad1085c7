"""What an operating system's refusal means for somebody who wants their records kept."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.errors import StoreRefused, StoreUnavailable, WatchkeeperError

_ELSEWHERE = "or choose another folder"

_MEANINGS: dict[int, tuple[type[WatchkeeperError], str, str]] = {
    errno.ENOSPC: (
        StoreUnavailable,
        "the disk is full",
        f"Free some space there, {_ELSEWHERE}, and run the same command again",
    ),
    errno.EDQUOT: (
        StoreUnavailable,
        "the disk quota is used up",
        f"Free some space there, {_ELSEWHERE}, and run the same command again",
    ),
    errno.EIO: (
        StoreUnavailable,
        "the disk reported an input/output error",
        f"Check the disk, {_ELSEWHERE}",
    ),
    errno.EACCES: (
        StoreRefused,
        "this user has no permission",
        f"Give this user write permission on the folder, {_ELSEWHERE}",
    ),
    errno.EPERM: (
        StoreRefused,
        "the system does not permit it",
        f"Give this user write permission on the folder, {_ELSEWHERE}",
    ),
    errno.EROFS: (
        StoreRefused,
        "the file system is mounted read-only",
        f"Mount it for writing, {_ELSEWHERE}",
    ),
    errno.ENOTDIR: (
        StoreRefused,
        "a file stands where a folder was expected",
        f"Move that file away, {_ELSEWHERE}",
    ),
    errno.EEXIST: (
        StoreRefused,
        "a file stands where a folder was expected",
        f"Move that file away, {_ELSEWHERE}",
    ),
    errno.EISDIR: (
        StoreRefused,
        "a folder stands where a file was expected",
        f"Move that folder away, {_ELSEWHERE}",
    ),
    errno.ENOENT: (
        StoreRefused,
        "the folder is not there",
        f"Create or mount it, {_ELSEWHERE}",
    ),
    errno.ENAMETOOLONG: (
        StoreRefused,
        "the path is longer than this file system keeps",
        "Choose a folder with a shorter path",
    ),
}


@contextmanager
def file_faults(doing: str, where: Path) -> Iterator[None]:
    """Turn the system's errors inside the block into ours.

    Args:
        doing: What was attempted, such as ``writing``.
        where: The file or folder that it was attempted on.

    Raises:
        StoreRefused: somebody has to change the folder or its permissions first.
        StoreUnavailable: the disk failed or is full.
    """
    try:
        yield
    except OSError as error:
        raise explained(error, doing, where) from error


def explained(error: OSError, doing: str, where: Path) -> WatchkeeperError:
    """Our error for the system's: what failed, where, why, and what to do."""
    kind, problem, remedy = _MEANINGS.get(
        error.errno or 0,
        (
            StoreUnavailable,
            f"the system said: {error.strerror or error}",
            f"See that the folder can be read and written, {_ELSEWHERE}",
        ),
    )
    place = f" ({error.filename})" if error.filename and error.filename != str(where) else ""
    return kind(f"{where}: {doing} failed: {problem}{place}. {remedy}.")
