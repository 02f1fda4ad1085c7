"""A streamed response, event by event, to the body that it would have been in one piece."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from watchkeeper.adapters._model.json import Json, Unreadable, cleaned, read_object

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx2
    from httpx2 import ServerSentEvent

MAX_EVENT_BYTES = 16_000_000
MAX_STREAM_CHARACTERS = 64_000_000
_DRAIN_SECONDS = 0.1
_EVENTS = "text/event-stream"


class StreamCut(Exception):
    """The stream ended before its end, whatever cut it."""


class Assembly(Protocol):
    """Puts the events of one response together; a new one for every response."""

    @property
    def has_begun(self) -> bool:
        """Whether something that the model wrote has come."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the last event has come."""
        ...

    @property
    def may_end(self) -> bool:
        """Whether nothing is missing although the last event has not come."""
        ...

    def take(self, data: str) -> None:
        """Takes the data of the next event.

        Raises:
            Unreadable: It is not of the API.
            ReportedError: It says that the response failed.
        """
        ...

    def body(self) -> Json:
        """The response as one body."""
        ...


async def read_stream(
    response: httpx2.Response, assembly: Assembly, seconds: Callable[[], float]
) -> tuple[Json, float | None]:
    """The body that a stream makes, and when the model's first piece came; closes the response.

    A server that does not stream has answered in one piece, and no first piece is known.

    Args:
        response: With status 2xx, not read yet.
        assembly: Puts the events together.
        seconds: The clock.

    Raises:
        StreamCut: It ended too early.
        Unreadable: It is not of the API.
        ReportedError: An event says that the response failed.
    """
    import httpx2  # noqa: PLC0415 - more than a command that calls no model should pay

    first: float | None = None
    try:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _EVENTS:
            content = await response.aread()
            return _whole(content), None
        read = 0
        source = aiter(httpx2.EventSource(response, MAX_EVENT_BYTES))
        async with contextlib.aclosing(cast("AsyncGenerator[ServerSentEvent]", source)) as events:
            async for event in events:
                read += len(event.data)
                if read > MAX_STREAM_CHARACTERS:
                    raise Unreadable(f"a stream of more than {MAX_STREAM_CHARACTERS:,} characters")
                if event.data:
                    _take(assembly, event.data)
                if first is None and assembly.has_begun:
                    first = seconds()
                if assembly.is_complete:
                    break
            # Read to its end a connection can be used again.
            with contextlib.suppress(TimeoutError, httpx2.HTTPError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    async for _ in events:
                        pass
    except httpx2.SSEError as error:
        raise Unreadable(str(error)) from error
    except httpx2.HTTPError as error:
        raise StreamCut(f"{type(error).__name__}: {error}") from error
    finally:
        await response.aclose()
    if not (assembly.is_complete or assembly.may_end):
        raise StreamCut("it ended before its last event")
    return cleaned(assembly.body()), first


def _whole(content: bytes) -> Json:
    try:
        return read_object(content)
    except Unreadable as error:
        raise Unreadable(str(error), content) from error


def _take(assembly: Assembly, data: str) -> None:
    try:
        assembly.take(data)
    except Unreadable as error:
        raise Unreadable(str(error), data.encode("utf-8", "replace")) from error
