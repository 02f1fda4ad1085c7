"""Which version of the harness is under test, as git, an address or a program tells it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from watchkeeper.domain.endpoint import Harness
from watchkeeper.domain.references import NotSet, value_of
from watchkeeper.downloads import DownloadBounds, download, shown_url
from watchkeeper.processes import Bounds, run_bounded, surroundings
from watchkeeper.settings import read_settings

GIT_SECONDS = 10.0
ASKED_SECONDS = 10.0
_MOST_BYTES = 100_000
_MOST_TEXT = 200

# Set inside git hooks; they would make git speak of another repository than the one at the path.
_REDIRECTING = frozenset(
    {"GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"}
)
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class Revision(NamedTuple):
    """The revision, of a work tree its commit with ``+dirty`` for uncommitted changes.

    Where it cannot be told, ``reason`` says why; where nobody is to tell it, both are ``None``.
    """

    commit: str | None
    reason: str | None = None


async def harness_revision(
    harness: Harness,
    root: Path,
    variables: Mapping[str, str],
    seconds: float = ASKED_SECONDS,
) -> Revision:
    """The revision of a harness, from wherever its configuration says; never raises.

    Args:
        harness: What says where the revision is told.
        root: The project folder, which a path is relative to and a command runs in.
        variables: The environment.
        seconds: Bound of a command and of a request.
    """
    if harness.revision_git is not None:
        return await git_revision(root / harness.revision_git, variables)
    if harness.revision_url is not None:
        return await _asked_revision(harness, harness.revision_url, variables, seconds)
    if harness.revision_command:
        return await _printed_revision(harness.revision_command, root, variables, seconds)
    return Revision(harness.version)


async def _asked_revision(
    harness: Harness, url: str, variables: Mapping[str, str], seconds: float
) -> Revision:
    where = shown_url(url)
    try:
        headers = {
            name: value_of(value, variables) for name, value in harness.revision_headers.items()
        }
    except NotSet as error:
        return Revision(None, f"{where}: a header is taken from {error}, which is not set")
    bounds = DownloadBounds(seconds=seconds, most_bytes=_MOST_BYTES)
    found = await download(url, headers, bounds)
    if found.content is None:
        return Revision(None, f"{where}: {found.reason}")
    text = found.content.decode("utf-8", "replace")
    if harness.revision_pointer is None:
        if found.media_type == "text/html" or text.lstrip().startswith("<"):
            return Revision(None, f"{where}: it answers with a page and no revision")
        return _revision_in(text, where)
    try:
        value = _pointed_at(json.loads(text), harness.revision_pointer)
    except (ValueError, RecursionError):
        return Revision(None, f"{where}: it answers with no JSON")
    except LookupError:
        return Revision(None, f"{where}: there is nothing at {harness.revision_pointer}")
    if not isinstance(value, str | int) or isinstance(value, bool):
        return Revision(None, f"{where}: no text at {harness.revision_pointer}")
    return _revision_in(str(value), where)


async def _printed_revision(
    command: tuple[str, ...], root: Path, variables: Mapping[str, str], seconds: float
) -> Revision:
    where = f"the command {command[0]}"
    bounds = Bounds(seconds=seconds, output_bytes=_MOST_BYTES)
    try:
        ended = await run_bounded(
            command, cwd=root, variables=surroundings(variables), bounds=bounds
        )
    except OSError as error:
        return Revision(None, f"{where} could not be run: {error.strerror}")
    if ended.reason == "time":
        return Revision(None, f"{where} did not end within {seconds:g} s")
    if ended.reason != "exited":
        return Revision(None, f"{where} printed more than {_MOST_BYTES:,} bytes")
    if ended.exit_code != 0:
        how = f"code {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
        return Revision(None, f"{where} ended with {how}")
    return _revision_in(ended.stdout.decode("utf-8", "replace"), where)


def _revision_in(text: str, where: str) -> Revision:
    """A text that may stand for a version: one short line."""
    revision = text.strip()
    if not revision:
        return Revision(None, f"{where}: it says nothing")
    if len(revision) > _MOST_TEXT or not revision.isprintable():
        return Revision(None, f"{where}: expected one line of {_MOST_TEXT} characters at most")
    return Revision(revision)


def _pointed_at(value: object, pointer: str) -> object:
    """What a JSON pointer (RFC 6901) names.

    Raises:
        LookupError: There is nothing.
    """
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list) and key.isdecimal():
            value = value[int(key)]
        else:
            raise LookupError(key)
    return value


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
