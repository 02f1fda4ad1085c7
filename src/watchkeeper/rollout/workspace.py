"""A folder of its own for every trial: the case's files, its setup, and nothing left afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from watchkeeper.domain.case import Case, InitialFile, Preparation
from watchkeeper.domain.trial import FileChange
from watchkeeper.errors import EndpointFault
from watchkeeper.processes import Bounds, Ended, run_bounded, surroundings
from watchkeeper.rollout._changes import Snapshot, changes_since, snapshot_of

PREPARATION = Bounds(seconds=120.0, output_bytes=1_000_000)
LAST_LINES = 5
_FILES = "files"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A trial's folder between its setup and its reset."""

    path: Path
    at_start: Snapshot

    async def changes(self) -> tuple[FileChange, ...]:
        """What is not as it was when setup had ended; see ``changes_since``."""
        return await asyncio.to_thread(changes_since, self.at_start, self.path)


def needs_workspace(case: Case) -> bool:
    """Whether a case asks for a folder, whatever its endpoint's kind asks for."""
    return case.files is not None or bool(case.setup) or bool(case.reset)


@asynccontextmanager
async def prepared(
    case: Case,
    trial_id: str,
    *,
    folder: Path,
    inherited: Mapping[str, str],
    bounds: Bounds = PREPARATION,
    tell: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Workspace]:
    """A workspace for one trial; reset and removed afterwards, whatever happened.

    Setup and reset run in it with a few variables of ours, and with ``WATCHKEEPER_TRIAL_ID``,
    ``WATCHKEEPER_CASE_ID`` and ``WATCHKEEPER_WORKSPACE``. What a command leaves running in the
    background is ended with it.

    Args:
        case: Whose files are copied and whose commands are run.
        trial_id: Of the trial; given to the commands.
        folder: Where workspaces are made; made itself where it is not there.
        inherited: The environment of this process.
        bounds: Of each command.
        tell: Is given what could not be reset or removed: the trial is over and stays as it is.

    Raises:
        EndpointFault: The files could not be copied or a setup command failed (``setup_failed``);
            the text ends with the command's last lines, which may hold secrets.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    own = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f"{trial_id[:20]}-", dir=folder))
    path = own / _FILES
    variables = surroundings(
        inherited,
        given={
            "WATCHKEEPER_TRIAL_ID": trial_id,
            "WATCHKEEPER_CASE_ID": case.id,
            "WATCHKEEPER_WORKSPACE": str(path),
        },
    )
    try:
        await asyncio.to_thread(_copied, case, path)
        for one in case.setup:
            problem, may_pass = await _run(one, path, variables, bounds)
            if problem is not None:
                raise _failed(case, f"setup {problem}", is_transient=may_pass)
        try:
            yield Workspace(path, await asyncio.to_thread(snapshot_of, path, case.files))
        finally:
            for one in case.reset:
                problem, _ = await _run(one, path, variables, bounds)
                if problem is not None:
                    tell(f"case '{case.id}': reset {problem}")
    finally:
        left = await asyncio.to_thread(_removed, own)
        if left is not None:
            tell(f"case '{case.id}': the workspace {own} could not be removed: {left}")


def _failed(case: Case, what: str, *, is_transient: bool) -> EndpointFault:
    where = f"{case.location}: case '{case.id}'".removeprefix(": ")
    return EndpointFault(f"{where}: {what}", kind="setup_failed", is_transient=is_transient)


async def _run(
    one: Preparation, path: Path, variables: Mapping[str, str], bounds: Bounds
) -> tuple[str | None, bool]:
    """What went wrong with a command, if anything, and whether it may pass."""
    shown = " ".join(one.words)[:200]
    words = list(one.words)
    if one.script is not None:
        found = await asyncio.to_thread(_sha256, one.script)
        if one.script_sha256 is not None and found != one.script_sha256:
            return f"'{shown}': {one.script} is not what it was when the suite was loaded", False
        words[0] = str(one.script.absolute())
    try:
        ended = await run_bounded(words, cwd=path, variables=variables, bounds=bounds)
    except OSError as error:
        return f"'{shown}' could not be started: {error.strerror}", False
    if ended.reason == "exited" and ended.exit_code == 0:
        return None, False
    return f"'{shown}' {_how(ended, bounds)}{_last_lines(ended)}", True


def _how(ended: Ended, bounds: Bounds) -> str:
    if ended.reason == "time":
        return f"was ended after {bounds.seconds:g} s"
    if ended.reason == "output":
        return f"was ended: it wrote more than {bounds.output_bytes:,} bytes"
    if ended.signal is not None:
        return f"was ended by signal {ended.signal}"
    return f"exited with {ended.exit_code}"


def _last_lines(ended: Ended) -> str:
    """The end of what a command said, on one line; errors where there are any."""
    text = (ended.stderr.strip() or ended.stdout.strip()).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()][-LAST_LINES:]
    said = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " / ".join(lines))
    return f": {said[-600:]}" if said else ""


def _copied(case: Case, target: Path) -> None:
    """Copies the case's files, each checked against its hash."""
    target.mkdir()
    if case.files is None:
        return
    root = case.files.folder.resolve()
    for one in case.files.files:
        try:
            _copy(root, one, target)
        except OSError as error:
            what = f"the file {one.path} could not be copied: {error.strerror or error}"
            raise _failed(case, what, is_transient=False) from error


def _copy(root: Path, one: InitialFile, target: Path) -> None:
    """Copies one file; neither its name nor a link on its way leads out of the folder.

    Raises:
        OSError: It cannot be read, leads elsewhere, or is not what it was.
    """
    parts = PurePosixPath(one.path)
    source = (root / parts).resolve()
    if parts.is_absolute() or ".." in parts.parts or not source.is_relative_to(root):
        raise OSError("it leads out of the case's folder")
    content = source.read_bytes()
    if hashlib.sha256(content).hexdigest() != one.sha256:
        raise OSError("it is not what it was when the suite was loaded")
    place = target / parts
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(0o755 if one.is_executable else 0o644)


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _removed(folder: Path) -> str | None:
    """Removes a folder with folders that nobody may write; why it could not, where it could not."""
    for _ in range(2):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or str(error)
            _make_writable(folder)
        else:
            return None
    return reason


def _make_writable(folder: Path) -> None:
    for name, folders, _ in os.walk(folder):
        for path in (name, *(os.path.join(name, one) for one in folders)):  # noqa: PTH118
            with contextlib.suppress(OSError):
                if not stat.S_ISLNK(os.lstat(path).st_mode):
                    os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
