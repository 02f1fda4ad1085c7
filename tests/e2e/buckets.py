"""A bucket of a real S3 server, by whatever address it is reached."""

from __future__ import annotations

from dataclasses import dataclass

from tests.servers.s3 import S3Server


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
