"""Objects in an S3 bucket, or in anything that speaks S3 and keeps conditional writes."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
)

from watchkeeper.errors import StoreRefused, StoreUnavailable
from watchkeeper.store.objects.port import (
    ObjectInfo,
    ObjectMissing,
    checked_key,
    checked_prefix,
    is_key,
)
from watchkeeper.store.objects.probe import prove
from watchkeeper.store.objects.s3_faults import Place, code_of, explained, retries_of, status_of
from watchkeeper.store.objects.urls import S3Address

_ALREADY_THERE = 412
_CONFLICT = 409
_MISSING = {"NoSuchKey", "NotFound"}
_Style = Literal["auto", "path", "virtual"]
_AMAZON = re.compile(r"\.amazonaws\.com(\.cn)?$")


@dataclass(frozen=True, slots=True)
class S3Limits:
    """How long one call may take, and how often it is tried.

    Args:
        connect_seconds: For one connection.
        read_seconds: Between two packets of an answer.
        attempts: Requests for one call, the first included (transient faults only).
        conflict_attempts: Requests for one conditional write while the server says that another
            one is under way (409).
        conflict_seconds: The first wait between those; it doubles.
        connections: Kept open at once.
        page_size: Keys in one answer of a listing, at most 1,000.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    attempts: int = 4
    conflict_attempts: int = 6
    conflict_seconds: float = 0.1
    connections: int = 32
    page_size: int = 1000


class _Client(Protocol):
    """The part of boto3's client that is used here; the real one is made at run time."""

    meta: Any

    def put_object(self, **request: object) -> Mapping[str, Any]: ...

    def get_object(self, **request: object) -> Mapping[str, Any]: ...

    def delete_object(self, **request: object) -> Mapping[str, Any]: ...

    def list_objects_v2(self, **request: object) -> Mapping[str, Any]: ...

    def close(self) -> None: ...


class S3Objects:
    """An object store in a bucket, under a prefix, safe for any number of writers.

    Credentials, region, endpoint, proxies and certificates come from boto3's own chain where
    the address does not say. One client is shared by all threads.
    """

    def __init__(
        self,
        address: S3Address,
        *,
        limits: S3Limits | None = None,
        token: Callable[[int], str] = secrets.token_hex,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address = address
        self._limits = limits or S3Limits()
        self._token = token
        self._sleep = sleep
        self._folder = f"{address.prefix}/" if address.prefix else ""
        self._client = _connected(address, self._limits)
        self._place = _place(address, str(self._client.meta.endpoint_url))

    @property
    def url(self) -> str:
        """The bucket and prefix as an ``s3:`` URL."""
        return str(self._address)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """True when this call created the object, False when the key already had one."""
        request = self._write(key, data) | {"IfNoneMatch": "*"}
        unsure = False
        for attempt in range(self._limits.conflict_attempts):
            try:
                self._client.put_object(**request)
            except ClientError as error:
                # A request before the last one may have been stored and its answer lost.
                unsure = unsure or retries_of(error) > 0
                status = status_of(error)
                if status == _ALREADY_THERE:
                    return unsure and self.get(key) == data
                if status != _CONFLICT:
                    raise explained(error, f"writing {key!r}", self._place) from error
                self._sleep(self._limits.conflict_seconds * 2**attempt)
            except BotoCoreError as error:
                raise explained(error, f"writing {key!r}", self._place) from error
            else:
                return True
        raise StoreUnavailable(
            f"{self._place}: writing {key!r} failed: the server answered "
            f"{self._limits.conflict_attempts} times that another conditional write of this key "
            f"is under way (HTTP 409). Nothing is lost: the same command can be run again."
        )

    def put(self, key: str, data: bytes) -> None:
        """Store the object whole, over any other; the last writer wins."""
        self._call(f"writing {key!r}", self._client.put_object, self._write(key, data))

    def get(self, key: str, *, most_bytes: int | None = None) -> bytes:
        """The object's bytes; one that has more than ``most_bytes`` is refused."""
        request = self._object(key)
        for attempt in range(1, self._limits.attempts + 1):
            answer = self._call(f"reading {key!r}", self._client.get_object, request, key=key)
            try:
                with closing(answer["Body"]) as body:
                    if most_bytes is not None and int(answer["ContentLength"]) > most_bytes:
                        raise StoreRefused(
                            f"{self._place}: {key!r} has more than {most_bytes:,} bytes"
                        )
                    return bytes(body.read())
            except (HTTPClientError, IncompleteReadError) as error:
                # boto3 repeats a request, but not an answer that breaks off half-way.
                if attempt == self._limits.attempts:
                    raise explained(error, f"reading {key!r}", self._place) from error
        raise AssertionError

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key starts with ``prefix``, sorted; foreign names are left out."""
        return self._pages(checked_prefix(prefix))

    def delete(self, key: str) -> None:
        """Remove the object; a key without one is no error."""
        with suppress(ObjectMissing):
            doing = f"deleting {key!r}"
            self._call(doing, self._client.delete_object, self._object(key), key=key)

    def local_path(self, key: str) -> Path | None:
        """None: these objects are no files of this machine."""
        checked_key(key)
        return None

    def probe(self) -> None:
        """Prove that a commit is safe here."""
        prove(self, self._token)

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._client.close()

    def _object(self, key: str) -> dict[str, object]:
        return {"Bucket": self._address.bucket, "Key": self._folder + checked_key(key)}

    def _write(self, key: str, data: bytes) -> dict[str, object]:
        # Every server checks this digest of what arrived; the newer checksums, not every one.
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        return self._object(key) | {"Body": data, "ContentMD5": digest}

    def _pages(self, prefix: str) -> Iterator[ObjectInfo]:
        request: dict[str, object] = {
            "Bucket": self._address.bucket,
            "Prefix": self._folder + prefix,
            "MaxKeys": self._limits.page_size,
        }
        last = ""
        while True:
            page = self._call(f"listing {prefix!r}", self._client.list_objects_v2, request)
            for item in page.get("Contents", ()):
                full = str(item["Key"])
                if full <= last:
                    raise self._unlistable("out of order")
                last = full
                key = full.removeprefix(self._folder)
                if is_key(key):
                    yield ObjectInfo(key, int(item["Size"]))
            if not page.get("IsTruncated"):
                return
            following = page.get("NextContinuationToken")
            if not following or following == request.get("ContinuationToken"):
                raise self._unlistable("without a way to the next page")
            request["ContinuationToken"] = following

    def _unlistable(self, how: str) -> StoreRefused:
        return StoreRefused(
            f"{self._place}: the server lists objects {how}, so records could be missed unseen. "
            f"Use a general-purpose bucket of Amazon S3, an up to date S3 look-alike, or a local "
            f"folder (file:./watchkeeper-data)."
        )

    def _call(
        self,
        doing: str,
        send: Callable[..., Mapping[str, Any]],
        request: Mapping[str, object],
        *,
        key: str = "",
    ) -> Mapping[str, Any]:
        try:
            return send(**request)
        except ClientError as error:
            if key and code_of(error) in _MISSING:
                raise ObjectMissing(
                    f"{self._place}: there is no object {key!r}. If a record names it, restore it "
                    f"from a backup or remove that record.",
                    key=key,
                ) from error
            raise explained(error, doing, self._place) from error
        except BotoCoreError as error:
            raise explained(error, doing, self._place) from error


def _connected(address: S3Address, limits: S3Limits) -> _Client:
    """A client; the bucket goes into the path wherever the server is not Amazon's."""
    place = Place(str(address), address.bucket, address.endpoint_url or "the default endpoint")
    try:
        session = boto3.session.Session()
        if address.path_style is not None:
            return _client(session, address, limits, "path" if address.path_style else "virtual")
        client = _client(session, address, limits, "auto")
        if _AMAZON.search(urlsplit(client.meta.endpoint_url).hostname or ""):
            return client
        client.close()
        return _client(session, address, limits, "path")
    except BotoCoreError as error:
        raise explained(error, "opening the store", place) from error
    except ValueError as error:
        raise StoreRefused(
            f"{address}: the endpoint or region is not valid. Correct endpoint_url and region in "
            f"the store's URL, or AWS_ENDPOINT_URL and AWS_REGION."
        ) from error


def _client(session: Any, address: S3Address, limits: S3Limits, style: _Style) -> _Client:  # noqa: ANN401
    client: _Client = session.client(
        "s3",
        endpoint_url=address.endpoint_url,
        region_name=address.region,
        config=Config(
            connect_timeout=limits.connect_seconds,
            read_timeout=limits.read_seconds,
            retries={"mode": "standard", "total_max_attempts": limits.attempts},
            max_pool_connections=limits.connections,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": style},
        ),
    )
    return client


def _place(address: S3Address, endpoint: str) -> Place:
    if "@" in urlsplit(endpoint).netloc:
        raise StoreRefused(
            f"{address}: the endpoint in the environment (AWS_ENDPOINT_URL) holds a user or a "
            f"password. Remove them; credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    return Place(str(address), address.bucket, endpoint)
