"""How many requests a second the model itself can answer, by the plainest client there is."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from urllib.parse import urlsplit

CONNECTIONS = 100
_BODY = b'{"model":"m","max_tokens":1024,"messages":[{"role":"user","content":"question 1"}]}'
_REQUEST = (
    b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class _Client(asyncio.Protocol):
    """Sends its request again as soon as it is answered, so often."""

    def __init__(self, requests: int, done: asyncio.Future[None]) -> None:
        self._left = requests
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._length = 0
        self._seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the first."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP has no other
        self._transport = transport
        transport.write(_REQUEST)

    def data_received(self, data: bytes) -> None:
        """Counts bytes: every answer is as long as the first."""
        if not self._length:
            head, _, _ = data.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            self._length = len(head) + 4 + int(length)
        self._seen += len(data)
        if self._seen < self._length or self._transport is None:
            return
        self._seen -= self._length
        self._left -= 1
        if self._left:
            self._transport.write(_REQUEST)
        elif not self._done.done():
            self._transport.close()
            self._done.set_result(None)


def requests_per_second(url: str, requests: int) -> float:
    """The rate over so many requests; the client may be what bounds it."""

    async def ask() -> float:
        loop = asyncio.get_running_loop()
        address = urlsplit(url)
        host, port = address.hostname or "", address.port or 80
        started = time.monotonic()
        ends = [loop.create_future() for _ in range(CONNECTIONS)]
        each = max(requests // CONNECTIONS, 1)
        for end in ends:
            await loop.create_connection(partial(_Client, each, end), host, port)
        await asyncio.gather(*ends)
        return each * CONNECTIONS / (time.monotonic() - started)

    return asyncio.run(ask())
