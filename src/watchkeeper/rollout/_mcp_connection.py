"""The connection to one MCP server, from its start to its end.

The SDK's connection has to be left by the task that entered it, whatever happens to the trial:
a task of its own holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchkeeper import __version__
from watchkeeper.domain.endpoint import McpServer
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.redaction import Redactor, whole_text
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.processes import Bounds, Ended, run_bounded, surroundings
from watchkeeper.rollout.toolbox import ToolFailed

if TYPE_CHECKING:
    import ssl

    import httpx2
    from mcp import Client
    from mcp.client.stdio import TransportStreams

MAX_BYTES = 64_000_000  # what a server may write in one trial; of an HTTP answer
MAX_TOOLS = 1000
MAX_PAGES = 100
EXIT_SECONDS = 2.0  # for a server to leave once its input is closed
CLOSE_SECONDS = 15.0
_WEEK_S = 604_800.0
_SHOWN = 300
_REFERENCE = re.compile(r"(?:(?P<scheme>[A-Za-z]+) )?env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)")


class Surroundings:
    """What a server is given of our own environment, and what must never be shown of it.

    Raises:
        UsageError: A variable that the declaration refers to is not set, or cannot be a header.
    """

    def __init__(self, server: McpServer, variables: Mapping[str, str]) -> None:
        self._secrets: dict[str, str] = {}
        given = {name: self._value(server, text, variables) for name, text in _pairs(server)}
        self.headers = {name: given[f"header {name}"] for name in server.headers}
        for name, text in self.headers.items():
            if not text.isascii() or not text.isprintable():
                raise UsageError(
                    f"harness.mcp.{server.name}: the value of the header {name} is not one line of "
                    "printable ASCII"
                )
        own = {name: given[f"variable {name}"] for name in server.variables}
        self.environment = surroundings(variables, server.pass_variables, own)
        self.redactor = Redactor(self._secrets)

    def _value(self, server: McpServer, text: str, variables: Mapping[str, str]) -> str:
        reference = _REFERENCE.fullmatch(text)
        if reference is None:
            return text
        name, scheme = reference["name"], reference["scheme"]
        value = variables.get(name, "").strip()
        if not value:
            raise UsageError(
                f"harness.mcp.{server.name}: the environment variable {name} is not set; export it "
                "first"
            )
        self._secrets[name] = value
        return f"{scheme} {value}" if scheme else value


def secret_names(server: McpServer) -> frozenset[str]:
    """The variables that the declaration of a server refers to."""
    found = (_REFERENCE.fullmatch(text) for _, text in _pairs(server))
    return frozenset(one["name"] for one in found if one is not None)


def _pairs(server: McpServer) -> list[tuple[str, str]]:
    return [
        *((f"header {name}", text) for name, text in server.headers.items()),
        *((f"variable {name}", text) for name, text in server.variables.items()),
    ]


class Connection:
    """One server of one trial; ``folder`` is where it is started."""

    def __init__(self, server: McpServer, variables: Mapping[str, str], folder: Path) -> None:
        self.server = server
        self._surroundings = Surroundings(server, variables)
        self._folder = folder
        self._leave = asyncio.Event()
        self._listed: asyncio.Future[tuple[ToolSpec, ...]] | None = None
        self._holder: asyncio.Task[None] | None = None
        self._program: asyncio.Task[Ended] | None = None
        self._client: Client | None = None
        self._failure: BaseException | None = None
        self._nonsense: str | None = None

    async def open(self) -> tuple[ToolSpec, ...]:
        """Starts or reaches the server; the tools that it offers, those that are left out too.

        Raises:
            EndpointFault: It did not start, or did not answer as it must, in time.
        """
        self._listed = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(self._listed))
        seconds = self.server.start_seconds
        await asyncio.wait(
            {self._listed, self._holder}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if self._listed.done():
            return self._listed.result()
        if not self._holder.done():
            said = f"; it said: {self._nonsense}" if self._nonsense else ""
            raise self._fault(f"gave no list of its tools within {seconds:g} s{said}")
        raise self._fault(self._how_it_ended())

    async def call(self, name: str, arguments: Mapping[str, object]) -> str:
        """What a tool returns, as text.

        Raises:
            ToolFailed: The server says that the call failed.
            EndpointFault: The server died, or did not answer as it must, or not in time.
        """
        import mcp_types  # noqa: PLC0415 - loaded when the connection was opened
        from mcp import MCPError  # noqa: PLC0415

        assert self._client is not None  # noqa: S101 - called after open
        seconds = self.server.call_seconds
        try:
            async with asyncio.timeout(seconds):
                result = await self._client.call_tool(name, dict(arguments))
        except TimeoutError:
            fault = self._fault(f"gave no answer to a call of '{name}' within {seconds:g} s")
        except MCPError as error:
            if error.code in {mcp_types.INVALID_PARAMS, mcp_types.METHOD_NOT_FOUND} or (
                error.code == mcp_types.INTERNAL_ERROR and self.server.url is None
            ):
                raise ToolFailed(whole_text(error.message)) from None
            if error.code == mcp_types.CONNECTION_CLOSED:
                await self._until_ended()
                fault = self._fault(f"{self._how_it_ended()} in the middle of a call of '{name}'")
            else:
                fault = self._fault(f"gave no result of '{name}': {error.message}")
        except Exception as error:  # noqa: BLE001 - whatever the SDK makes of nonsense
            fault = self._fault(f"gave no result of '{name}': {_first_line(error)}")
        else:
            text = as_text(result)
            if result.is_error:
                raise ToolFailed(text)
            return text
        raise fault

    async def close(self) -> None:
        """Ends the connection and the server, and all that it started; never raises."""
        self._leave.set()
        if self._holder is not None:
            await _at_the_end(self._holder, CLOSE_SECONDS)

    async def _hold(self, listed: asyncio.Future[tuple[ToolSpec, ...]]) -> None:
        try:
            # More than half a second, which a run without such servers should not pay.
            from mcp import Client  # noqa: PLC0415
            from mcp_types import Implementation  # noqa: PLC0415

            # Its log repeats what a server said, whatever that was.
            logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
            transport = self._http() if self.server.url is not None else self._pipes()
            us = Implementation(name="watchkeeper", version=__version__)
            async with Client(transport, client_info=us, cache=None) as client:
                specs = await _specs(client, self.server)
                self._client = client
                listed.set_result(specs)
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001 - told by those who wait for it
            self._failure = error

    @asynccontextmanager
    async def _pipes(self) -> AsyncIterator[TransportStreams]:
        """Messages as lines over the pipes of a program."""
        import anyio  # noqa: PLC0415 - loaded with the SDK
        from mcp.shared.message import SessionMessage  # noqa: PLC0415
        from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

        heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        write, said = anyio.create_memory_object_stream[SessionMessage](math.inf)
        stdin: asyncio.Future[asyncio.WriteTransport] = asyncio.get_running_loop().create_future()

        def hear(line: bytes) -> None:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                # Many a server prints its log there; what is no message is left out.
                self._nonsense = self._nonsense or self._shown(line.decode("utf-8", "replace"))
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
                self.server.command,
                cwd=self._folder,
                variables=self._surroundings.environment,
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
            speaker.cancel()
            if stdin.done():
                stdin.result().close()
            for stream in (heard, read, write, said):
                stream.close()
            await _at_the_end(self._program, EXIT_SECONDS)
            await asyncio.gather(speaker, return_exceptions=True)

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[TransportStreams]:
        """Messages over streamable HTTP."""
        import httpx2  # noqa: PLC0415 - loaded with the SDK
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        assert self.server.url is not None  # noqa: S101 - the caller looked
        async with (
            httpx2.AsyncClient(
                headers=self._surroundings.headers,
                verify=_trusted(),
                timeout=httpx2.Timeout(self.server.start_seconds, read=self.server.call_seconds),
                event_hooks={"response": [self._check]},
            ) as client,
            streamable_http_client(
                self.server.url, http_client=client, max_sse_event_size=MAX_BYTES
            ) as streams,
        ):
            yield streams

    async def _check(self, response: httpx2.Response) -> None:
        """Bounds an answer; ends the connection where the server, not a tool, has failed."""
        response.stream = _bounded(response.stream)
        status = response.status_code
        is_outage = status in {401, 403, 429} or status >= 500
        if is_outage and response.request.method == "POST" and self._client is not None:
            raise _Refused(f"answered with HTTP status {status}")

    async def _until_ended(self) -> None:
        """Waits a moment for what says why the connection was lost."""
        waited = {one for one in (self._program, self._holder) if one is not None}
        await asyncio.wait(waited, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)

    def _how_it_ended(self) -> str:
        program = self._program
        if program is None or not program.done():
            return _first_line(self._failure) if self._failure else "closed the connection"
        if program.cancelled():
            # It was ended by us, for what it answered.
            return f"does not answer as it must: {_first_line(self._failure)}"
        error = program.exception()
        if error is not None:
            return f"could not be started: {getattr(error, 'strerror', None) or error}"
        ended = program.result()
        if ended.reason == "output":
            return f"wrote more than {MAX_BYTES:,} bytes"
        how = f"signal {ended.signal}" if ended.exit_code is None else f"exit code {ended.exit_code}"
        # The whole of it is looked through for secrets: half of one is not recognised.
        tail = self._surroundings.redactor.text(ended.stderr.decode("utf-8", "replace"))[-_SHOWN:]
        said = f", saying: {' '.join(tail.split())}" if tail.strip() else ""
        return f"ended with {how}{said}"

    def _fault(self, what: str) -> EndpointFault:
        text = self._shown(f"MCP server '{self.server.name}' {what}", 3 * _SHOWN)
        return EndpointFault(text, kind="mcp_server", is_transient=True)

    def _shown(self, text: str, limit: int = _SHOWN) -> str:
        """One line that may be shown."""
        line = " ".join(self._surroundings.redactor.text(text).split())
        return "".join(one if one.isprintable() else "�" for one in line)[:limit]


class _Refused(Exception):
    """The server answered with a status that says that it is out of order."""


class _TooLong(Exception):
    """An answer beyond every bound."""


def _bounded(stream: Any) -> Any:  # noqa: ANN401 - a class of a lazily loaded library
    import httpx2  # noqa: PLC0415 - loaded with the SDK

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            count = 0
            async for piece in stream:
                count += len(piece)
                if count > MAX_BYTES:
                    raise _TooLong(f"answered with more than {MAX_BYTES:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted, read once."""
    import httpx2  # noqa: PLC0415 - loaded with the SDK

    return httpx2.create_ssl_context()


async def _specs(client: Client, server: McpServer) -> tuple[ToolSpec, ...]:
    """Every tool that a server lists, page by page.

    Raises:
        ValueError: There is no end of them.
    """
    found: list[ToolSpec] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += (
            ToolSpec(
                name=tool.name,
                description=whole_text(tool.description or ""),
                input_schema=tool.input_schema,
                is_silent=tool.name in server.silent,
            )
            for tool in page.tools
        )
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)
        if len(found) > MAX_TOOLS:
            break
    raise ValueError(f"its list of tools has no end: {len(found)} and more")


def as_text(result: Any) -> str:  # noqa: ANN401 - mcp_types.CallToolResult, lazily loaded
    """A result as a model is shown it: its texts, and of everything else what it is."""
    parts = [_part(one) for one in result.content]
    if not parts and result.structured_content is not None:
        import json  # noqa: PLC0415

        return json.dumps(result.structured_content, ensure_ascii=False)
    return whole_text("\n".join(parts))


def _part(part: Any) -> str:  # noqa: ANN401 - a content block of the SDK
    if part.type == "text":
        return str(part.text)
    if part.type in {"image", "audio"}:
        return f"[{part.type} {part.mime_type}, {_byte_count(part.data)} bytes]"
    if part.type == "resource_link":
        return f"[resource {part.name}: {part.uri}]"
    inside = getattr(part, "resource", None)
    if inside is None:
        return f"[{part.type}]"
    text = getattr(inside, "text", None)
    if text is not None:
        return str(text)
    kind = inside.mime_type or "file"
    return f"[{kind} {inside.uri}, {_byte_count(inside.blob)} bytes]"


def _byte_count(base64_text: str) -> int:
    return len(base64_text.rstrip("=")) * 3 // 4


def _first_line(error: BaseException | None) -> str:
    """The first fault in a group of them, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return "no reason is known"
    if isinstance(error, _Refused | _TooLong):
        return str(error)
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"


async def _at_the_end(task: asyncio.Task[Any], patience_s: float) -> None:
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


