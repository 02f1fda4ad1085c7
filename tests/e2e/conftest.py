"""An S3 server for the tests of this folder, and a bucket for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import boto3
import pytest

from tests.servers.s3 import S3Server, s3_server
from watchkeeper.store.objects.s3 import S3Objects
from watchkeeper.store.objects.urls import s3_address


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket of a real S3 server."""

    name: str
    server: S3Server

    @property
    def variables(self) -> dict[str, str]:
        """What boto3 needs in the environment of a program, without an address."""
        found = dict(self.server.environment)
        del found["AWS_ENDPOINT_URL_S3"]
        return found

    def url(self, address: str | None = None) -> str:
        """The store in this bucket, reached at the server's own address or by another one."""
        endpoint = address or self.server.endpoint_url
        return f"s3://{self.name}/records?endpoint_url={endpoint}&region={self.server.region}"


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server in a process of its own."""
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(
    s3: S3Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bucket]:
    """A bucket of this test's own; boto3 in this process may use it too."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:60].strip("-")
    made = Bucket(name, s3)
    for variable, value in made.variables.items():
        monkeypatch.setenv(variable, value)
    client = boto3.client("s3", endpoint_url=s3.endpoint_url)
    client.create_bucket(Bucket=name)
    client.close()
    yield made


@pytest.fixture
def objects(bucket: Bucket) -> Iterator[S3Objects]:
    """What is in the bucket, seen past any gateway."""
    store = S3Objects(s3_address(bucket.url()))
    yield store
    store.close()
