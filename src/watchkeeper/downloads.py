"""What stands behind a URL, within bounds of time, size, tries and place.

Nothing here raises: what could not be had has a reason, on one line and without anything that the
other side chose, so that it may be shown and stored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx2

_MAX_REDIRECTS = 3
_PAUSES_S = (0.5, 2.0)  # between the tries; all of them are within one deadline
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

URL_RULE = (
    "https://host[:port]/path, without a user or a password in it (http only to this machine)"
)


@dataclass(frozen=True, slots=True)
class Download:
    """The content, or the reason why there is none.

    ``may_pass`` says that the same request may succeed later: the other side was not reached, or
    said so itself. Otherwise somebody has to do something.
    """

    content: bytes | None
    reason: str | None = None
    may_pass: bool = False
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class DownloadBounds:
    """What a download may take: ``seconds`` for all its tries together."""

    seconds: float = 10.0
    most_bytes: int = 5_000_000
    tries: int = 3


def is_plain_url(url: str) -> bool:
    """Whether a URL keeps ``URL_RULE``: a name and a password in it would be shown in errors."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return False
    if not parts.hostname or parts.username is not None or parts.password is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def shown_url(url: str) -> str:
    """A URL for people: without its query, which may hold a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


async def download(
    url: str,
    headers: Mapping[str, str] | None = None,
    bounds: DownloadBounds | None = None,
    pauses_s: tuple[float, ...] = _PAUSES_S,
) -> Download:
    """What a URL gives; it is followed to no other host.

    Args:
        url: One that keeps ``URL_RULE``.
        headers: Sent with every request.
        bounds: Time, size and tries.
        pauses_s: Between the tries; the last one is repeated.
    """
    bounds = bounds or DownloadBounds()
    found = Download(None, f"no whole answer within {bounds.seconds:g} s", may_pass=True)
    try:
        async with asyncio.timeout(bounds.seconds):
            for number in range(bounds.tries):
                if number:
                    await asyncio.sleep(pauses_s[min(number, len(pauses_s)) - 1])
                found = await _tried(url, headers or {}, bounds)
                if found.content is not None or not found.may_pass:
                    break
    except TimeoutError:
        pass  # what the last whole try has said says more than that time ran out
    return found


async def _tried(url: str, headers: Mapping[str, str], bounds: DownloadBounds) -> Download:
    import httpx2  # noqa: PLC0415 - only for those who have something behind a URL

    if any(not value.isascii() or not value.isprintable() for value in headers.values()):
        return Download(None, "a header's value can stand in no header")
    sent = {"accept": "application/json, application/yaml, text/*", **headers}
    sent["accept-encoding"] = "identity"  # what is unpacked is bounded by nobody
    try:
        async with httpx2.AsyncClient(timeout=bounds.seconds, follow_redirects=False) as client:
            at = httpx2.URL(url)
            for _ in range(_MAX_REDIRECTS + 1):
                async with client.stream("GET", at, headers=sent) as response:
                    if not response.is_redirect:
                        return await _read(response, bounds.most_bytes)
                    to = at.join(response.headers.get("location", ""))
                if (to.scheme, to.host, to.port) != (at.scheme, at.host, at.port):
                    return Download(None, "it redirects to another host; name that one instead")
                at = to
            return Download(None, f"it redirects more than {_MAX_REDIRECTS} times")
    except httpx2.InvalidURL:
        return Download(None, "it redirects to something that is no URL")
    except httpx2.UnsupportedProtocol:
        return Download(None, f"expected {URL_RULE}")
    except httpx2.HTTPError as error:
        cause = error.__cause__ or error
        return Download(None, f"no connection: {type(cause).__name__}", may_pass=True)


async def _read(response: httpx2.Response, most_bytes: int) -> Download:
    status = response.status_code
    if not 200 <= status < 300:
        return Download(None, f"HTTP {status}", may_pass=status in {408, 425, 429} or status >= 500)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        return Download(None, "the answer is compressed, which was not asked for")
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > most_bytes:
            return Download(None, f"more than {most_bytes:,} bytes")
    type_ = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    media_type = type_ if re.fullmatch(r"[a-z0-9.+-]+/[a-z0-9.+-]+", type_) else ""
    return Download(bytes(content), media_type=media_type)
