"""One request and its answer, within bounds: of time over everything, of bytes, of redirects.

A redirect is followed to the same scheme, host and port only; nothing is ever sent anywhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.cookiejar
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx2

from watchkeeper.adapters._http.faults import Faults
from watchkeeper.domain.ports import Clock

CONNECT_SECONDS = 10.0
MAX_REDIRECTS = 5
MAX_QUOTED_BYTES = 8_192
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_INFLATED = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with status 2xx; header names in lower case, ``content`` whole and unpacked.

    ``content`` is empty where the answer was a stream, whose pieces were handed on.
    """

    headers: Mapping[str, str]
    content: bytes
    was_streamed: bool = False

    @property
    def media_type(self) -> str:
        """The kind of content, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds of one request from its first byte to its answer's last; bytes of the answer."""

    seconds: float
    max_bytes: int


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port, as the client that connects reads them.

    Raises:
        ValueError: It is no address.
    """
    parts = _url(url)
    return parts.scheme, parts.host, parts.port or _PORTS.get(parts.scheme)


def joined(url: str, reference: str) -> str:
    """The address that a reference means, seen from ``url``.

    Raises:
        ValueError: It is no address.
    """
    try:
        return str(_url(url).join(reference))
    except httpx2.InvalidURL as error:
        raise ValueError(str(error)) from error


def _url(text: str) -> httpx2.URL:
    try:
        return httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise ValueError(str(error)) from error


class Exchange:
    """The connections to one endpoint; ``headers`` are sent to the origin of ``home`` only."""

    def __init__(
        self, home: str, headers: Mapping[str, str], bounds: Bounds, faults: Faults, clock: Clock
    ) -> None:
        self._home = origin(home)
        self._headers = headers
        self._bounds = bounds
        self._faults = faults
        self._clock = clock
        # Cookies would tie trials to each other.
        no_cookies = http.cookiejar.CookieJar(
            http.cookiejar.DefaultCookiePolicy(allowed_domains=[])
        )
        self._client = httpx2.AsyncClient(
            cookies=no_cookies,
            headers={"user-agent": "watchkeeper", "accept-encoding": "identity"},
            timeout=httpx2.Timeout(
                bounds.seconds, connect=min(CONNECT_SECONDS, bounds.seconds), pool=None
            ),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        )

    async def close(self) -> None:
        """Closes the connections; never raises."""
        with contextlib.suppress(Exception):
            await self._client.aclose()

    async def ask(
        self,
        verb: str,
        url: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        take: Callable[[bytes], bool] | None = None,
    ) -> Answer:
        """The answer to one request.

        Args:
            verb: The HTTP method.
            url: Where to; the endpoint's own headers go along only to its own origin.
            content: A JSON body.
            headers: Further headers.
            take: Receives the pieces of a stream and says when it has seen enough; an answer
                of media type JSON or HTML is read whole all the same.

        Raises:
            EndpointFault: There was no answer with status 2xx within the bounds.
        """
        sent = {**(self._headers if origin(url) == self._home else {}), **(headers or {})}
        if content is not None:
            sent["content-type"] = "application/json"
        seconds = self._bounds.seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._followed(verb, url, content, sent, take)
        except (TimeoutError, httpx2.TimeoutException) as error:
            kind = "connection" if isinstance(error, httpx2.ConnectTimeout) else "timeout"
            fault = self._faults.unreachable(kind, f"no whole answer within {seconds:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            what = f"the connection failed: {type(error).__name__}: {error}"
            fault = self._faults.unreachable("connection", what)
        # Not within the handlers: the library's errors hold the request with its headers.
        raise fault

    async def _followed(
        self,
        verb: str,
        url: str,
        content: bytes | None,
        headers: Mapping[str, str],
        take: Callable[[bytes], bool] | None,
    ) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            request = self._client.build_request(verb, url, content=content, headers=headers)
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code not in _REDIRECTS or "location" not in response.headers:
                    return await self._read(response, take)
                url = self._target(url, response.headers["location"])
                if response.status_code == 303:
                    verb, content = "GET", None
                    headers = {key: one for key, one in headers.items() if key != "content-type"}
            finally:
                await response.aclose()
        raise self._faults.refused("redirect", f"more than {MAX_REDIRECTS} redirects")

    def _target(self, url: str, location: str) -> str:
        try:
            target = joined(url, location)
            is_same = origin(target) == origin(url)
        except ValueError:
            target, is_same = location, False
        if not is_same:
            what = (
                f"it redirects to {target[:200]}, which is another host, scheme or port; nothing "
                "was sent there. Where that is right, write that address into 'url'"
            )
            raise self._faults.refused("redirect", what)
        return target

    async def _read(
        self, response: httpx2.Response, take: Callable[[bytes], bool] | None
    ) -> Answer:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if not 200 <= response.status_code < 300:
            content = await self._content(response, headers, MAX_QUOTED_BYTES, is_cut=True)
            now = self._clock.now()
            raise self._faults.of_status(response.status_code, headers, content, now)
        answer = Answer(headers, b"")
        is_whole = answer.media_type in {"application/json", "text/html"}
        if take is None or is_whole:
            content = await self._content(response, headers, self._bounds.max_bytes)
            return Answer(headers, content)
        await self._content(response, headers, self._bounds.max_bytes, take=take)
        return Answer(headers, b"", was_streamed=True)

    async def _content(
        self,
        response: httpx2.Response,
        headers: Mapping[str, str],
        most: int,
        *,
        is_cut: bool = False,
        take: Callable[[bytes], bool] | None = None,
    ) -> bytes:
        """The unpacked body; of one that is too large the beginning, or a fault."""
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {*_INFLATED, "identity", ""}:
            what = f"the body is packed as {encoding[:60]}, which was not asked for"
            raise self._faults.unreachable("bad_response", what, is_transient=False)
        bits = _INFLATED.get(encoding)
        unpacker = zlib.decompressobj(bits) if bits is not None else None
        kept, count = bytearray(), 0
        async for raw in response.aiter_raw():
            piece = raw
            if unpacker is not None:
                try:
                    piece = unpacker.decompress(raw, most - count + 1)
                except zlib.error as error:
                    what = f"the body is not {encoding}: {error}"
                    raise self._faults.unreachable("bad_response", what) from error
            count += len(piece)
            if count > most and not is_cut:
                what = f"the body is larger than {most:,} bytes (max_response_bytes)"
                raise self._faults.refused("response_too_large", what)
            if take is None:
                kept += piece
            elif take(piece):
                break
            if count > most:
                break
        return bytes(kept[:most])
