"""Objects as files in one folder, each written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from watchkeeper.errors import StoreRefused
from watchkeeper.store.objects.file_faults import explained, file_faults
from watchkeeper.store.objects.port import (
    TEMPORARY_PREFIX,
    ObjectInfo,
    ObjectMissing,
    checked_key,
    checked_prefix,
    is_key,
)
from watchkeeper.store.objects.probe import prove

TEMPORARY_GRACE_S = 3600.0
"""A file still being written is left alone for this long; then its writer is taken for dead."""
SWEEP_FOLDERS = 5000
"""Folders looked through for such files at one start, the top ones and newest dates first."""
FOLDER_ATTEMPTS = 10
"""Tries at writing into a folder that another process keeps removing because it was empty."""

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


class LocalObjects:
    """An object store in a folder of this machine, safe for several processes.

    A hard link to a finished temporary file creates the object: the file system lets exactly
    one writer have the name, and the name never stands for half a file. The folder itself is
    made when it is first written to; its parent must exist, so that a disk which is not
    mounted is noticed instead of filled from below.
    """

    def __init__(self, folder: Path, *, token: Callable[[int], str] = secrets.token_hex) -> None:
        self._folder = folder.absolute()
        self._token = token

    @property
    def url(self) -> str:
        """The folder as a ``file:`` URL."""
        return self._folder.as_uri()

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """True when this call created the file, False when it was already there."""
        final = self._path(key)
        with file_faults("writing", final):
            with self._temporary(final, data) as temporary:
                created = _link(temporary, final)
            # Also for the loser: who is told "already there" may rely on it after a power cut.
            _sync_folder(final.parent)
        return created

    def put(self, key: str, data: bytes) -> None:
        """Write the file whole, over any other."""
        final = self._path(key)
        with file_faults("writing", final):
            with self._temporary(final, data) as temporary:
                temporary.replace(final)
            _sync_folder(final.parent)

    def get(self, key: str) -> bytes:
        """The file's bytes."""
        path = self._path(key)
        with file_faults("reading", path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
                self._refuse_a_file_as_store()
                raise ObjectMissing(
                    f"{self.url}: there is no object {key!r} (expected the file {path}). If a "
                    f"record names it, restore it from a backup or remove that record.",
                    key=key,
                ) from error

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key starts with ``prefix``, sorted; none where no folder is."""
        folder_key = checked_prefix(prefix)[: prefix.rfind("/") + 1]
        return self._walk(self._folder / folder_key, folder_key, prefix)

    def delete(self, key: str) -> None:
        """Remove the file, and the folders that this leaves empty."""
        path = self._path(key)
        with file_faults("deleting", path):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            with suppress(OSError):  # not empty, or somebody was faster
                for folder in path.parents:
                    if folder == self._folder:
                        break
                    folder.rmdir()

    def local_path(self, key: str) -> Path:
        """The object's own file."""
        return self._path(key)

    def probe(self) -> None:
        """Prove that a commit is safe here; clear away what killed writers left behind."""
        prove(self, self._token)
        with file_faults("clearing away unfinished files", self._folder):
            self._sweep()

    def _path(self, key: str) -> Path:
        return self._folder / checked_key(key)

    @contextmanager
    def _temporary(self, final: Path, data: bytes) -> Iterator[Path]:
        """A file beside ``final`` with the data safely on disk; gone when the block ends."""
        temporary = final.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{self._token(8)}")
        descriptor = self._create(temporary)
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _create(self, temporary: Path) -> int:
        for attempt in range(1, FOLDER_ATTEMPTS + 1):
            try:
                self._make_folder(temporary.parent)
                return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileNotFoundError:
                if attempt == FOLDER_ATTEMPTS:
                    raise
        raise AssertionError

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder != self._folder:
            self._make_folder(folder.parent)
        elif not folder.parent.is_dir():
            raise StoreRefused(
                f"{folder}: the store cannot be created, because its parent {folder.parent} is not "
                f"a folder (is a disk not mounted?). Create or mount {folder.parent}, or correct "
                f"the store's URL."
            )
        try:
            folder.mkdir()
        except FileExistsError:
            if not folder.is_dir():
                raise NotADirectoryError(
                    errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)
                ) from None
        _sync_folder(folder.parent)

    def _refuse_a_file_as_store(self) -> None:
        if self._folder.exists() and not self._folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self._folder))

    def _walk(self, folder: Path, folder_key: str, prefix: str) -> Iterator[ObjectInfo]:
        with file_faults("listing", folder):
            for name, entry in self._entries(folder):
                key = folder_key + name
                if not is_key(key.rstrip("/")):
                    continue  # unfinished, foreign, or a circle of links
                if name.endswith("/"):
                    if key.startswith(prefix) or prefix.startswith(key):
                        yield from self._walk(Path(entry.path), key, prefix)
                elif key.startswith(prefix):
                    try:
                        size = entry.stat().st_size
                    except FileNotFoundError:
                        continue
                    yield ObjectInfo(key, size)

    def _entries(self, folder: Path) -> Sequence[tuple[str, os.DirEntry[str]]]:
        """Files and folders in the order of the keys below them, which ``/`` takes part in."""
        try:
            with os.scandir(folder) as entries:
                named = [(f"{e.name}/" if e.is_dir() else e.name, e) for e in entries]
        except (FileNotFoundError, NotADirectoryError):
            self._refuse_a_file_as_store()
            return []
        return sorted(named, key=lambda pair: pair[0])

    def _sweep(self) -> None:
        now = self._file_system_time()
        folders = deque([self._folder])
        for _ in range(SWEEP_FOLDERS):
            if not folders:
                return
            for name, entry in reversed(self._entries(folders.popleft())):
                if name.endswith("/"):
                    folders.append(Path(entry.path))
                elif name.startswith(TEMPORARY_PREFIX):
                    with suppress(OSError):
                        if now - entry.stat().st_mtime > TEMPORARY_GRACE_S:
                            Path(entry.path).unlink()

    def _file_system_time(self) -> float:
        """Seconds on the clock that dates this folder's files, which may be another machine's."""
        with self._temporary(self._folder / "now", b"") as temporary:
            return temporary.stat().st_mtime


def _link(temporary: Path, final: Path) -> bool:
    try:
        final.hardlink_to(temporary)
    except FileExistsError:
        if final.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(final)) from None
        # NFS may carry out a link, lose the answer, and say "exists" to its own repetition.
        return temporary.stat().st_nlink > 1
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            raise StoreRefused(
                f"{final.parent}: the file system has no hard links ({error.strerror}), and "
                f"without them two workers could both commit the same run. Put the store on a "
                f"local disk (ext4, xfs, apfs …) or in S3."
            ) from error
        raise explained(error, "writing", final) from error
    return True


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return  # removed by another process, so there is no name left to keep
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)
