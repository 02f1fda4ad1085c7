"""How messages get to an MCP server and back: over the pipes of a program, or over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from watchkeeper.domain.endpoint import McpServer
from watchkeeper.processes import Bounds, Ended, run_bounded

if TYPE_CHECKING:
    import ssl

    import httpx2
    from mcp.client import Transport

MAX_BYTES = 64_000_000  # what a program may write in one trial; of one HTTP answer
EXIT_SECONDS = 2.0  # for a program to leave once its input is closed
_WEEK_S = 604_800.0
_KEPT_BYTES = 10_000
_OUT_OF_ORDER = frozenset({401, 403, 404, 429})


class Wire(Protocol):
    """One way to a server."""

    def streams(self) -> Transport:
        """The two streams of messages, as long as the block lasts."""
        ...

    def begin(self) -> None:
        """The server has answered as it must: from now on a failure is one of the trial."""
        ...

    async def how_it_ended(self) -> str | None:
        """Why no further message comes, where the wire knows it; waits a moment for it."""
        ...

    @property
    def nonsense(self) -> str:
        """What the server said that was no message, its beginning; not fit to be shown yet."""
        ...


class Pipes:
    """Messages as lines over standard input and output of a program."""

    def __init__(self, server: McpServer, environment: Mapping[str, str], folder: Path) -> None:
        self.nonsense = ""
        self._command = server.command
        self._environment = environment
        self._folder = folder
        self._program: asyncio.Task[Ended] | None = None
        self._has_begun = False
        self._is_ours_to_end = False

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """Starts the program; afterwards it is gone, and all that it started."""
        import anyio  # noqa: PLC0415 - loaded with the SDK
        from mcp.shared.message import SessionMessage  # noqa: PLC0415
        from mcp.types import jsonrpc_message_adapter  # noqa: PLC0415

        heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        write, said = anyio.create_memory_object_stream[SessionMessage](math.inf)
        stdin: asyncio.Future[asyncio.WriteTransport] = asyncio.get_running_loop().create_future()

        def hear(line: bytes) -> None:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                # Many a server prints its log there; what is no message is left out.
                self.nonsense = self.nonsense or line[:_KEPT_BYTES].decode("utf-8", "replace")
                return
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                heard.send_nowait(SessionMessage(message))

        async def speak() -> None:
            pipe = await stdin
            async for one in said:
                if not pipe.is_closing():
                    text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                    pipe.write(f"{text}\n".encode())

        self._program = asyncio.create_task(
            run_bounded(
                self._command,
                cwd=self._folder,
                variables=self._environment,
                bounds=Bounds(_WEEK_S, output_bytes=MAX_BYTES, grace_s=1.0),
                stdin=stdin.set_result,
                on_line=hear,
            )
        )
        self._program.add_done_callback(lambda _: heard.close())
        speaker = asyncio.create_task(speak())
        try:
            yield read, write
        finally:
            self._is_ours_to_end = not self._program.done()
            speaker.cancel()
            if stdin.done():
                stdin.result().close()
            for stream in (heard, read, write, said):
                stream.close()
            try:
                await at_the_end(self._program, EXIT_SECONDS if self._has_begun else 0)
            finally:
                await asyncio.gather(speaker, return_exceptions=True)

    def begin(self) -> None:
        """From now on the program may take a moment to leave."""
        self._has_begun = True

    async def how_it_ended(self) -> str | None:
        """How the program ended, and the last that it said; secrets not removed."""
        program = self._program
        if program is None:
            return None
        await asyncio.wait({program}, timeout=1.0)
        if not program.done() or self._is_ours_to_end:
            return None
        error = program.exception()
        if error is not None:
            return f"could not be started: {getattr(error, 'strerror', None) or error}"
        ended = program.result()
        if ended.reason == "output":
            return f"wrote more than {MAX_BYTES:,} bytes"
        code = ended.exit_code
        how = f"signal {ended.signal}" if code is None else f"exit code {code}"
        tail = " ".join(ended.stderr.decode("utf-8", "replace").split())
        return f"ended with {how}" + (f", saying: {tail}" if tail else "")


class Refused(Exception):
    """The server answered with a status, or a length, that no message has."""


class Address:
    """Messages over streamable HTTP."""

    nonsense = ""

    def __init__(self, server: McpServer, headers: Mapping[str, str]) -> None:
        self._server = server
        self._headers = headers
        self._has_begun = False

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """Connects; a session that the server keeps is ended afterwards."""
        import httpx2  # noqa: PLC0415 - loaded with the SDK
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        async with (
            httpx2.AsyncClient(
                headers=dict(self._headers),
                verify=_trusted(),
                timeout=httpx2.Timeout(self._server.start_seconds, read=self._server.call_seconds),
                event_hooks={"response": [self._check]},
            ) as client,
            streamable_http_client(
                str(self._server.url), http_client=client, max_sse_event_size=MAX_BYTES
            ) as streams,
        ):
            yield streams

    def begin(self) -> None:
        """From now on a status that says that the server is out of order ends the connection."""
        self._has_begun = True

    async def how_it_ended(self) -> str | None:
        """Nothing: what failed is raised where the streams are."""
        return None

    async def _check(self, response: httpx2.Response) -> None:
        response.stream = _bounded(response.stream)
        status = response.status_code
        if not self._has_begun or response.request.method != "POST":
            return
        # Before, the SDK tries by such answers which version of the protocol it is.
        if status in _OUT_OF_ORDER or status >= 500:
            raise Refused(f"answered with HTTP status {status}")


def _bounded(stream: Any) -> Any:  # noqa: ANN401 - a class of a lazily loaded library
    import httpx2  # noqa: PLC0415 - loaded with the SDK

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            count = 0
            async for piece in stream:
                count += len(piece)
                if count > MAX_BYTES:
                    raise Refused(f"answered with more than {MAX_BYTES:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted, read once."""
    import httpx2  # noqa: PLC0415 - loaded with the SDK

    return httpx2.create_ssl_context()


async def at_the_end(task: asyncio.Task[Any], patience_s: float) -> None:
    """Waits for a task to end, cancels it when that takes long, and lets nothing cut that short."""
    is_cancelled = False
    until = time.monotonic() + patience_s
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=max(until - time.monotonic(), 0.01))
        except asyncio.CancelledError:
            is_cancelled = True
            continue
        if not task.done() and time.monotonic() >= until:
            task.cancel()
            until = time.monotonic() + patience_s
    if not task.cancelled():
        task.exception()
    if is_cancelled:
        raise asyncio.CancelledError
