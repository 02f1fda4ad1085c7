"""Proof that a store keeps the one promise a commit stands on: a key is created once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from watchkeeper.errors import StoreRefused, WatchkeeperError
from watchkeeper.store.objects.port import ObjectInfo, ObjectMissing, ObjectStore

PROBE_PREFIX = "probe/"

_LOST_COMMIT = (
    "Two workers that finish the same run would both believe that they committed it, and the "
    "records of one would silently be lost"
)


def prove(objects: ObjectStore, token: Callable[[int], str]) -> None:
    """Write one small object twice, read it back and delete it.

    Args:
        objects: The store to try.
        token: Gives n random bytes as hex; the key must be new, so it must not repeat.

    Raises:
        StoreRefused: the store broke a promise, or may not be written.
        StoreUnavailable: the store did not answer.
    """
    key = f"{PROBE_PREFIX}{token(16)}"
    try:
        _prove(objects, key, first=token(16).encode(), second=token(16).encode())
    except WatchkeeperError:
        with contextlib.suppress(WatchkeeperError):
            objects.delete(key)
        raise
    objects.delete(key)


def _prove(objects: ObjectStore, key: str, *, first: bytes, second: bytes) -> None:
    if not objects.put_if_absent(key, first):
        raise _refusal(
            objects, f"said that the new key {key!r} already had an object", "No run can commit"
        )
    if _content(objects, key) != first:
        raise _refusal(
            objects,
            f"did not give back what had just been written to {key!r}",
            "A reader would see a commit without its records, or none at all",
        )
    if list(objects.list(key)) != [ObjectInfo(key, len(first))]:
        raise _refusal(
            objects,
            f"did not list {key!r} just after it was written",
            "Finished runs would be missing from comparisons",
        )
    if objects.put_if_absent(key, second):
        raise _refusal(
            objects,
            f"accepted a second write to {key!r} that was to succeed only on a new key",
            _LOST_COMMIT,
        )
    if _content(objects, key) != first:
        raise _refusal(
            objects,
            f"refused a second write to {key!r} but stored it all the same",
            _LOST_COMMIT,
        )


def _content(objects: ObjectStore, key: str) -> bytes | None:
    try:
        return objects.get(key)
    except ObjectMissing:
        return None


def _refusal(objects: ObjectStore, deed: str, loss: str) -> StoreRefused:
    return StoreRefused(
        f"{objects.url} cannot hold records: it {deed}. {loss}. Use a store that answers a second "
        f"PUT with 'If-None-Match: *' with 412 (Amazon S3 does; update an S3 look-alike, or ask "
        f"its maker for conditional writes), or a folder on a local disk (file:./watchkeeper-data)."
    )
