"""An S3 server on loopback whose conditional writes hold, and one whose do not.

`s3_server` is a real S3 API in a process of its own; of several writers that PUT one key with
`If-None-Match: *`, exactly one succeeds. `lenient_s3_server` drops that header on the way, as
stores do which have never heard of it.
"""

import asyncio
import http.client
import os
import socket
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

from tests.servers import process
from tests.servers.loopback import LoopbackServer, Reply, Request

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length"}


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server answers and what signs requests to it; buckets are made by the test."""

    endpoint_url: str
    access_key: str = "test"
    secret_key: str = "test"
    region: str = "us-east-1"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which boto3 finds the server by itself."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def s3_server(*, ready_s: float = 30.0) -> Iterator[S3Server]:
    """An empty S3 server in a process of its own, until the block ends."""
    with (
        tempfile.TemporaryDirectory(prefix="s3-") as folder,
        process.module("tests.servers.s3", env={"TMPDIR": folder}, ready_s=ready_s) as program,
    ):
        with urllib.request.urlopen(f"{program.url}/_ministack/health", timeout=ready_s):
            pass
        yield S3Server(program.url)


@contextmanager
def lenient_s3_server(*, ready_s: float = 30.0) -> Iterator[S3Server]:
    """The same, but every conditional PUT succeeds, also the second at one key."""
    with s3_server(ready_s=ready_s) as real, _Lenient(real.endpoint_url).running() as proxy:
        yield S3Server(proxy.url)


class _Lenient(LoopbackServer):
    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target.removeprefix("http://")

    def answer(self, request: Request) -> Reply:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in _HOP_BY_HOP and name != "if-none-match"
        }
        query = f"?{request.raw_query}" if request.raw_query else ""
        connection = http.client.HTTPConnection(self._target, timeout=30)
        try:
            connection.request(request.verb, request.path + query, request.body, headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        kept = {k: v for k, v in response.getheaders() if k.lower() not in _HOP_BY_HOP}
        if request.verb == "HEAD":
            kept["content-length"] = response.getheader("content-length") or "0"
        return Reply(response.status, body, kept)


def main(arguments: Sequence[str]) -> None:
    """Serve S3 on a free port until the process is told to end."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    os.environ.update(
        GATEWAY_PORT=str(port),
        BIND_HOST="127.0.0.1",
        SERVICES="s3",
        SFTP_ENABLED="0",
        IOT_MTLS_ENABLED="0",
        LOG_LEVEL="ERROR",
        DOCKER_HOST="unix:///nonexistent",
    )
    application = import_module("ministack.app").app
    config = import_module("hypercorn.config").Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.keep_alive_timeout = 75
    config.loglevel = "ERROR"
    serve = import_module("hypercorn.asyncio").serve

    async def run() -> None:
        await serve(application, config, shutdown_trigger=asyncio.Event().wait)  # SIGTERM ends us

    if "--until-stdin-closes" in arguments:
        process.leave_when_stdin_closes()
    process.announce(f"http://127.0.0.1:{port}")
    asyncio.run(run())


if __name__ == "__main__":
    main(sys.argv[1:])
