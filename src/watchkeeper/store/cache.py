"""Stored files as files of this machine, fetched once: stored objects never change."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.errors import RecordUnreadable
from watchkeeper.store.objects.file_faults import file_faults
from watchkeeper.store.objects.port import TEMPORARY_PREFIX, ObjectMissing, ObjectStore

KEEP_SECONDS = 600.0
"""A file used this recently is not evicted: a query of some process may still open it."""

UNFINISHED_SECONDS = 3600.0
"""A file still being written is left alone for this long; then its writer is taken for dead."""

_TOO_FEW_FOR_THREADS = 2
_LOCK = ".lock"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileRef:
    """A stored file as its commit promises it: its key, its size and its SHA-256 in hex."""

    key: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What this process found when it hashed a file, and the file's status at that time."""

    inode: int
    size: int
    changed_ns: int
    sha256: str

    @classmethod
    def of(cls, status: os.stat_result, sha256: str) -> _Seen:
        """The finding for a file of this status."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, sha256)

    def is_still(self, status: os.stat_result) -> bool:
        """Whether a file of this status is the one that was hashed."""
        return self == _Seen.of(status, self.sha256)


class ObjectCache:
    """Paths to read stored files from, whole and checked against their hashes.

    Objects of a local store are read where they are. Others are fetched into ``directory``,
    named by their hash, which any number of threads and processes may share: a file appears
    there whole or not at all. Every file is hashed once per process and again when it changed.

    Args:
        objects: The store that holds the files.
        directory: Where fetched files are kept; made when it is first needed.
        max_bytes: What ``directory`` is cut back to after each call, least recently used first.
            Files of the call itself and those used within ``keep_seconds`` stay all the same.
        workers: Files fetched at once; each is held in memory whole.
        keep_seconds: How long a returned path holds good, at least.
        token: Gives n random bytes as hex, for the names of unfinished files.
    """

    def __init__(
        self,
        objects: ObjectStore,
        directory: Path,
        max_bytes: int,
        workers: int,
        *,
        keep_seconds: float = KEEP_SECONDS,
        token: Callable[[int], str] = secrets.token_hex,
    ) -> None:
        self._objects = objects
        self._directory = directory.absolute()
        self._max_bytes = max_bytes
        self._workers = workers
        self._keep_seconds = keep_seconds
        self._token = token
        self._seen: dict[Path, _Seen] = {}

    def paths(self, files: Sequence[FileRef]) -> list[Path]:
        """One readable file for each reference, in their order.

        Raises:
            RecordUnreadable: an object is missing or is not what the reference promises.
            StoreUnavailable: the store or the disk of the cache failed.
        """
        own: dict[FileRef, Path] = {}
        kept: dict[FileRef, Path] = {}
        for file in files:
            path = self._objects.local_path(_checked(file).key)
            if path is None:
                kept[file] = self._directory / file.sha256
            else:
                own[file] = path
        if kept:
            self._mark_used(kept.values())
        self._with_each(self._check, own)
        self._with_each(self._fetch, kept)
        if kept:
            self._evict(keep={path.name for path in kept.values()})
        return [(own.get(file) or kept[file]) for file in files]

    def _with_each(
        self, do: Callable[[FileRef, Path], None], files: Mapping[FileRef, Path]
    ) -> None:
        """Does something with every file, with several at once where there are several."""
        if len(files) < _TOO_FEW_FOR_THREADS:
            for file, path in files.items():
                do(file, path)
            return
        # Loaded where threads are worth it: a question to a small store should not pay for them.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        with ThreadPoolExecutor(self._workers, thread_name_prefix="objects") as pool:
            # The first fault ends the call; what was not begun by then is not begun.
            list(pool.map(do, files.keys(), files.values()))

    def _check(self, file: FileRef, path: Path) -> None:
        with file_faults("reading", path):
            try:
                found = self._found(path)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
                raise ObjectMissing(
                    f"{self._objects.url}: there is no object {file.key!r} (expected the file "
                    f"{path}), though a record names it. Restore it from a backup.",
                    key=file.key,
                ) from error
        self._refuse_unless_promised(file, found)

    def _fetch(self, file: FileRef, path: Path) -> None:
        with file_faults("reading", path), suppress(FileNotFoundError):
            if self._found(path) == (file.bytes, file.sha256):
                return
        data = self._objects.get(file.key)
        self._refuse_unless_promised(file, (len(data), hashlib.sha256(data).hexdigest()))
        with file_faults("writing", path):
            self._seen[path] = _Seen.of(self._write(path, data), file.sha256)

    def _found(self, path: Path) -> tuple[int, str]:
        """Size and hash of a file, hashed only where this process has not seen it as it is."""
        status = path.stat()
        seen = self._seen.get(path)
        if seen is None or not seen.is_still(status):
            with path.open("rb") as content:
                seen = _Seen.of(status, hashlib.file_digest(content, "sha256").hexdigest())
            self._seen[path] = seen
        return seen.size, seen.sha256

    def _refuse_unless_promised(self, file: FileRef, found: tuple[int, str]) -> None:
        if found != (file.bytes, file.sha256):
            raise RecordUnreadable(
                f"{self._objects.url}: the object {file.key!r} is damaged: expected {file.bytes} "
                f"bytes with SHA-256 {file.sha256}, found {found[0]} bytes with SHA-256 "
                f"{found[1]}. Restore it from a backup or an older version of the object."
            )

    def _write(self, path: Path, data: bytes) -> os.stat_result:
        # No fsync: a file that a power cut leaves damaged is found by its hash and fetched again.
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{self._token(8)}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as output:
                output.write(data)
            status = temporary.stat()
            temporary.replace(path)
            return status
        finally:
            temporary.unlink(missing_ok=True)

    def _mark_used(self, paths: Iterable[Path]) -> None:
        """Date what is already here, so that no process evicts it from under this call."""
        with file_faults("opening the cache", self._directory):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock(fcntl.LOCK_SH):
                for path in paths:
                    with suppress(FileNotFoundError):
                        seen = self._seen.get(path)
                        is_known = seen is not None and seen.is_still(path.stat())
                        os.utime(path)
                        if seen and is_known:
                            self._seen[path] = _Seen.of(path.stat(), seen.sha256)

    def _evict(self, keep: set[str]) -> None:
        with file_faults("cutting back the cache", self._directory), self._lock(fcntl.LOCK_EX):
            files = sorted(self._files())
            now = files[-1][0] if files else 0.0  # the disk's own clock: the call dated its files
            total = sum(size for _, size, _ in files)
            for used_at, size, name in files:
                age = now - used_at
                if name.startswith(TEMPORARY_PREFIX):
                    is_due = age > UNFINISHED_SECONDS
                else:
                    is_due = (
                        total > self._max_bytes and name not in keep and age >= self._keep_seconds
                    )
                if is_due:
                    (self._directory / name).unlink(missing_ok=True)
                    self._seen.pop(self._directory / name, None)
                    total -= size

    def _files(self) -> Iterator[tuple[float, int, str]]:
        with os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process has just finished it
                    if entry.is_file() and entry.name != _LOCK:
                        status = entry.stat()
                        yield status.st_mtime, status.st_size, entry.name

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        descriptor = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)


def _checked(file: FileRef) -> FileRef:
    if file.bytes < 0 or not _SHA256.fullmatch(file.sha256):
        raise RecordUnreadable(
            f"a record names the file {file.key!r} with {file.bytes} bytes and SHA-256 "
            f"{file.sha256!r}, which cannot be: expected a size and 64 hex digits. The record is "
            f"damaged; restore it from a backup."
        )
    return file
