"""An S3 server for the tests of this folder, and a bucket for each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import boto3
import pytest

from tests.e2e.buckets import Bucket
from tests.servers.s3 import S3Server, s3_server
from watchkeeper.store.objects.s3 import S3Objects
from watchkeeper.store.objects.urls import s3_address


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server in a process of its own."""
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket of this test's own; boto3 in this process may use it too."""
    name = f"bucket-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}"
    made = Bucket(name, s3)
    for variable, value in made.variables.items():
        monkeypatch.setenv(variable, value)
    client = boto3.client("s3", endpoint_url=s3.endpoint_url)
    client.create_bucket(Bucket=name)
    client.close()
    return made


@pytest.fixture
def objects(bucket: Bucket) -> Iterator[S3Objects]:
    """What is in the bucket, seen past any gateway."""
    store = S3Objects(s3_address(bucket.url()))
    yield store
    store.close()
