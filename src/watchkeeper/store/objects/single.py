"""One object by its URL: a file that somebody else keeps in a bucket."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from watchkeeper.errors import UsageError
from watchkeeper.store.objects.port import is_key
from watchkeeper.store.objects.s3 import S3Limits, S3Objects
from watchkeeper.store.objects.urls import s3_address


class SingleObject:
    """``s3://bucket/key``, with the options of a store's URL; nothing is connected yet.

    Raises:
        UsageError: The URL is not one, or names a bucket without a key.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        folder, _, self._key = parts.path.rpartition("/")
        if not is_key(self._key):
            raise UsageError("the URL names no object in the bucket; expected s3://bucket/key")
        self._address = s3_address(urlunsplit(parts._replace(path=folder)))
        self.name = f"s3://{parts.netloc}{parts.path}"

    def read(self, most_bytes: int, seconds: float) -> bytes:
        """The object's bytes; at most two tries.

        Args:
            most_bytes: More than this is an error.
            seconds: Bound of a connection and of the time between two packets.

        Raises:
            ObjectMissing: There is no such object.
            StoreUnavailable: The store did not answer.
            StoreRefused: It may not be read, or is too large.
        """
        limits = S3Limits(connect_seconds=min(seconds, 5.0), read_seconds=seconds, attempts=2)
        objects = S3Objects(self._address, limits=limits)
        try:
            return objects.get(self._key, most_bytes=most_bytes)
        finally:
            objects.close()
