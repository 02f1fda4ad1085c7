"""What a trial changed in its workspace, within bounds, and honest about what is not shown."""

from __future__ import annotations

import difflib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.domain.case import InitialFiles
from watchkeeper.domain.trial import ChangeKind, FileChange

MAX_CHANGES = 1_000
MAX_DIFF_CHARACTERS = 20_000  # of one file
MAX_DIFF_CHARACTERS_IN_ALL = 200_000
MAX_TEXT_BYTES = 200_000
MAX_TEXT_LINES = 5_000
MAX_KEPT_BYTES = 5_000_000  # of texts that setup made, in memory while the trial runs
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a link that is never followed; ``sha256`` of a link is that of where it leads.

    What is neither (a socket, a pipe) or may not be read has no hash.
    """

    sha256: str | None
    byte_count: int | None
    is_executable: bool = False
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A workspace as it was: entries by path, and where the text of each can still be read.

    A file of the case is read again from the case's folder; of what setup made, small texts are
    kept in ``texts``.
    """

    entries: Mapping[str, Entry]
    files: InitialFiles | None
    texts: Mapping[str, bytes]

    def content(self, path: str) -> bytes | None:
        """The bytes of a small file as it was; ``None`` where they are not to be had."""
        if path in self.texts:
            return self.texts[path]
        entry = self.entries[path]
        if self.files is None or entry.link is not None:
            return None
        content = _small(self.files.folder / path)
        is_it = content is not None and hashlib.sha256(content).hexdigest() == entry.sha256
        return content if is_it else None


def snapshot_of(folder: Path, files: InitialFiles | None) -> Snapshot:
    """The workspace as it is now; empty folders are no part of it."""
    entries = dict(_entries(folder))
    given = {one.path: one.sha256 for one in files.files} if files is not None else {}
    texts: dict[str, bytes] = {}
    kept = 0
    for path, entry in entries.items():
        if given.get(path) == entry.sha256 or (entry.byte_count or 0) > MAX_TEXT_BYTES:
            continue
        content = _small(folder / path) if entry.link is None else None
        if content is not None and kept + len(content) <= MAX_KEPT_BYTES:
            texts[path] = content
            kept += len(content)
    return Snapshot(entries, files, texts)


def changes_since(before: Snapshot, folder: Path) -> tuple[FileChange, ...]:
    """Every file that was added, changed or removed, by path.

    A diff that is cut or left out says so in its place, in square brackets. More than
    ``MAX_CHANGES`` files end with one entry that counts the others.
    """
    now = dict(_entries(folder))
    paths = [
        path
        for path in sorted(before.entries.keys() | now.keys())
        if before.entries.get(path) != now.get(path)
    ]
    found: list[FileChange] = []
    room = MAX_DIFF_CHARACTERS_IN_ALL
    for path in paths[:MAX_CHANGES]:
        old, new = before.entries.get(path), now.get(path)
        diff = _diff(before, folder, path, old, new)
        if diff is not None and len(diff) > room:
            diff = f"[not shown: the diffs of this trial exceed {MAX_DIFF_CHARACTERS_IN_ALL:,}]"
        room -= len(diff or "")
        change: ChangeKind = "added" if old is None else "removed" if new is None else "changed"
        found.append(
            FileChange(
                path=_shown(path),
                change=change,
                sha256=new.sha256 if new is not None else None,
                byte_count=new.byte_count if new is not None else None,
                diff=diff,
            )
        )
    if len(paths) > MAX_CHANGES:
        rest = f"[{len(paths) - MAX_CHANGES:,} more files]"
        found.append(FileChange(rest, "changed", None, None))
    return tuple(found)


def _shown(path: str) -> str:
    """A name as text: bytes that are none are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def _diff(
    before: Snapshot, folder: Path, path: str, old: Entry | None, new: Entry | None
) -> str | None:
    """How a text differs; ``None`` where there is nothing to show of it."""
    if (old is not None and old.link is not None) or (new is not None and new.link is not None):
        return f"[link: {_led(old)} → {_led(new)}]"
    if old is not None and new is not None and old.sha256 == new.sha256:
        return f"[executable: {_yes(old.is_executable)} → {_yes(new.is_executable)}]"
    was = _text(before.content(path)) if old is not None else ""
    is_now = _text(_small(folder / path)) if new is not None else ""
    if was is None or is_now is None:
        return None
    old_lines, new_lines = _lines(was), _lines(is_now)
    if max(len(old_lines), len(new_lines)) > MAX_TEXT_LINES:
        return f"[not shown: more than {MAX_TEXT_LINES:,} lines]"
    name = _shown(path)
    lines = difflib.unified_diff(
        old_lines,
        new_lines,
        f"a/{name}" if old is not None else "/dev/null",
        f"b/{name}" if new is not None else "/dev/null",
        lineterm="",
    )
    diff = "\n".join(lines)
    if len(diff) > MAX_DIFF_CHARACTERS:
        cut = len(diff) - MAX_DIFF_CHARACTERS
        return f"{diff[:MAX_DIFF_CHARACTERS]}\n[cut: {cut:,} more characters]"
    return diff


def _lines(text: str) -> list[str]:
    """The lines of a text; a last one without an end says so, as diffs do."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines


def _led(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    return _shown(entry.link)[:200] if entry.link is not None else "a file"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _text(content: bytes | None) -> str | None:
    if content is None or b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _entries(folder: Path) -> Iterator[tuple[str, Entry]]:
    """Every file and link below a folder, by its path with ``/``; links are not followed."""
    waiting = [(os.fspath(folder), "")]
    while waiting:
        place, prefix = waiting.pop()
        try:
            found = list(os.scandir(place))
        except OSError:
            yield f"{prefix}[unreadable]", Entry(None, None)
            continue
        for one in found:
            path = prefix + one.name
            if one.is_dir(follow_symlinks=False):
                waiting.append((one.path, f"{path}/"))
            else:
                yield path, _entry(one)


def _entry(one: os.DirEntry[str]) -> Entry:
    try:
        if one.is_symlink():
            target = os.readlink(one.path)  # noqa: PTH115 - as it is, not as a path
            return Entry(hashlib.sha256(os.fsencode(target)).hexdigest(), None, link=target)
        if not one.is_file(follow_symlinks=False):
            return Entry(None, None)
        digest = hashlib.sha256()
        with open(_opened(one.path), "rb") as file:
            found = os.fstat(file.fileno())
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return Entry(None, None)
    return Entry(digest.hexdigest(), found.st_size, bool(found.st_mode & stat.S_IXUSR))


def _opened(path: str | Path) -> int:
    """A descriptor of a file; a link is not followed, and a pipe is not waited for.

    Raises:
        OSError: It is no regular file, or may not be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("no regular file")
    return descriptor


def _small(path: Path) -> bytes | None:
    """The bytes of a file; ``None`` where it is too large for a diff or cannot be read."""
    try:
        with open(_opened(path), "rb") as file:
            content = file.read(MAX_TEXT_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MAX_TEXT_BYTES else None
