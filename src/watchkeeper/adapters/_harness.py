"""Which version of the harness is under test, as git tells it."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from watchkeeper.settings import read_settings

GIT_SECONDS = 10.0

# Set inside git hooks; they would make git speak of another repository than the one at the path.
_REDIRECTING = frozenset(
    {"GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"}
)
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class Revision(NamedTuple):
    """The commit, with ``+dirty`` for uncommitted changes, or the reason why it cannot be told."""

    commit: str | None
    reason: str | None = None


async def git_revision(
    path: Path, variables: Mapping[str, str] | None = None, seconds: float = GIT_SECONDS
) -> Revision:
    """The commit that is checked out at a folder; never raises.

    Only what lies below ``path`` makes it dirty, files that git neither tracks nor ignores
    included: a new tool module changes an agent as an edited one does.

    Args:
        path: A folder in a git work tree.
        variables: Environment of the git commands; that of this process by default.
        seconds: Bound of each of the two git commands.
    """
    inherited = read_settings().variables if variables is None else variables
    surroundings = {name: text for name, text in inherited.items() if name not in _REDIRECTING}
    return await asyncio.to_thread(_ask_git, path, surroundings, seconds)


def _ask_git(path: Path, surroundings: Mapping[str, str], seconds: float) -> Revision:
    program = shutil.which("git", path=surroundings.get("PATH"))
    if program is None:
        return Revision(None, "the program git is not installed")
    if not path.is_dir():
        return Revision(None, f"{path}: no such folder")

    def said(*words: str) -> str:
        # A repository may name a program to watch its files; looking must not start it.
        command = [program, "--no-optional-locks", "-c", "core.fsmonitor=false", *words]
        done = subprocess.run(  # noqa: S603 - a fixed command; the path is its working folder
            command,
            cwd=path,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=True,
        )
        return done.stdout.decode("utf-8", "replace").strip()

    try:
        commit = said("rev-parse", "--verify", "HEAD")
        is_dirty = bool(said("status", "--porcelain", "--", "."))
    except subprocess.TimeoutExpired:
        return Revision(None, f"{path}: git did not answer within {seconds:g} s")
    except subprocess.CalledProcessError as error:
        complaint = " ".join(error.stderr.decode("utf-8", "replace").split())
        return Revision(None, f"{path}: git says: {complaint[:200]}")
    except OSError as error:
        return Revision(None, f"{path}: git could not be run: {error.strerror}")
    if not _COMMIT.fullmatch(commit):
        return Revision(None, f"{path}: git named no commit")
    return Revision(f"{commit}+dirty" if is_dirty else commit)
