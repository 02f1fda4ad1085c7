"""What every object store does, and which keys name an object in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from watchkeeper.errors import RecordUnreadable

MAX_KEY_BYTES = 900
"""S3 allows 1,024 for prefix and key together."""
MAX_SEGMENT_BYTES = 255
"""The longest file name that common file systems keep."""
TEMPORARY_PREFIX = ".wk-tmp-"
"""How a file that is still being written is called; never the name of an object."""


class ObjectMissing(RecordUnreadable):
    """No object has this key; ``key`` is the one that was asked for."""

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class KeyRefused(RecordUnreadable):
    """This text names no object in any store, so nothing was read or written."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectInfo:
    """One object as a listing shows it; ``bytes`` is its size."""

    key: str
    bytes: int


class ObjectStore(Protocol):
    """A flat set of named, immutable byte strings.

    Keys are relative and use ``/``; no key may be the folder of another (``a`` and ``a/b``),
    because a local folder cannot hold both. Every method may raise StoreRefused (somebody has
    to change something first) or StoreUnavailable (the same call may succeed later).
    """

    @property
    def url(self) -> str:
        """Where this store is, for people; it opens the same store and holds no secret."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """True when this call created the object, False when the key already had one.

        Of any number of writers exactly one gets True. One case cannot be told apart: the
        answer to our write is lost and the repeated write finds an object with the very bytes
        we sent. That counts as ours, so where two writers may send equal bytes and it matters
        who won, the bytes must hold a token of the writer.
        """
        ...

    def put(self, key: str, data: bytes) -> None:
        """Store the object whole, over any other; the last writer wins. Derived objects only."""
        ...

    def get(self, key: str) -> bytes:
        """The object's bytes.

        Raises:
            ObjectMissing: no object has this key.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key starts with ``prefix`` (plain text), sorted by key."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object; a key without one is no error."""
        ...

    def local_path(self, key: str) -> Path | None:
        """The file that is this object, where the store has files; whether it exists is not said.

        The file belongs to the store: read it, never change it.
        """
        ...

    def probe(self) -> None:
        """Prove that a commit is safe here, by writing and deleting one small object.

        Raises:
            StoreRefused: it may not be written, or a second conditional write was accepted.
            StoreUnavailable: it does not answer.
        """
        ...


def checked_key(key: str) -> str:
    """The key unchanged, when it names an object in every store.

    Raises:
        KeyRefused: it does not; the message says why.
    """
    fault = _key_fault(key)
    if fault:
        raise KeyRefused(
            f"{key[:100]!r} is no object key: {fault}. Keys look like 'commits/<run_id>.json'; one "
            f"read from a stored record means that the record is damaged or forged."
        )
    return key


def checked_prefix(prefix: str) -> str:
    """The prefix unchanged, when some key may start with it; empty means every key.

    Raises:
        KeyRefused: no key can start with it.
    """
    if prefix:
        checked_key(prefix + "x" if prefix.endswith("/") else prefix)
    return prefix


def is_key(key: str) -> bool:
    """Whether the key names an object in every store."""
    return _key_fault(key) is None


def _key_fault(key: str) -> str | None:  # noqa: PLR0911  one rule a line reads best
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if not key:
        return "it is empty"
    if len(encoded) > MAX_KEY_BYTES:
        return f"it has {len(encoded)} bytes, at most {MAX_KEY_BYTES} are kept everywhere"
    if "\\" in key or any(ord(letter) < 32 or ord(letter) == 127 for letter in key):
        return "it holds a backslash or a control character"
    segments = key.split("/")
    if "" in segments:
        return "it starts or ends with '/', or has '//' inside"
    if "." in segments or ".." in segments:
        return "'.' and '..' lead out of the store or nowhere"
    if any(segment.startswith(TEMPORARY_PREFIX) for segment in segments):
        return f"names starting with {TEMPORARY_PREFIX!r} are for files still being written"
    if any(len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments):
        return f"a part between slashes is longer than {MAX_SEGMENT_BYTES} bytes"
    return None
