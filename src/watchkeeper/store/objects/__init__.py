"""Named byte strings in a local folder or in S3, behind one port."""

from __future__ import annotations

from pathlib import Path

from watchkeeper.store.objects.local import LocalObjects
from watchkeeper.store.objects.port import ObjectStore
from watchkeeper.store.objects.urls import folder_of, s3_address, scheme_of


def open_objects(url: str, *, root: Path) -> ObjectStore:
    """The store that a URL means; nothing is read, written or connected yet.

    Args:
        url: ``file:./folder``, ``file:///folder``, a plain path, or
            ``s3://bucket/prefix?endpoint_url=…&region=…&path_style=true`` (all options may be
            left out; what is not said comes from the environment as boto3 reads it).
        root: The folder that relative paths start from.

    Raises:
        UsageError: the URL is none of these; the message says what is known.
        StoreRefused: the environment's AWS settings contradict themselves.
    """
    if scheme_of(url) == "file":
        return LocalObjects(folder_of(url, root))
    from watchkeeper.store.objects.s3 import S3Objects  # noqa: PLC0415  boto3 costs 0.3 s

    return S3Objects(s3_address(url))
