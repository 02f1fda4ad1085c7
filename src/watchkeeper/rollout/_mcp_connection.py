"""The connection to one MCP server, from its start to its end.

The SDK's connection has to be left by the task that entered it, whatever happens to the trial:
a task of its own holds it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchkeeper import __version__
from watchkeeper.domain.endpoint import McpServer
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.redaction import Redactor, whole_text
from watchkeeper.domain.references import NotSet, referred_variable, value_of
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.processes import surroundings
from watchkeeper.rollout._mcp_transport import Address, Pipes, Refused, Wire, at_the_end
from watchkeeper.rollout.toolbox import ToolFailed

if TYPE_CHECKING:
    from mcp import Client, MCPError

MAX_TOOLS = 1000
MAX_PAGES = 100
CLOSE_SECONDS = 15.0
_SHOWN = 300


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
        for name in server.pass_variables:
            self._value(server, f"env:{name}", variables)
        self.environment = surroundings(variables, server.pass_variables, own)
        self.redactor = Redactor(self._secrets)

    def _value(self, server: McpServer, text: str, variables: Mapping[str, str]) -> str:
        try:
            value = value_of(text, variables)
        except NotSet as error:
            raise UsageError(
                f"harness.mcp.{server.name}: the environment variable {error.args[0]} is not set; "
                "export it first"
            ) from error
        name = referred_variable(text)
        if name is not None:
            self._secrets[name] = variables[name]
        return value


def secret_names(server: McpServer) -> frozenset[str]:
    """The variables that the declaration of a server refers to."""
    found = (referred_variable(text) for _, text in _pairs(server))
    return frozenset(name for name in found if name is not None)


def _pairs(server: McpServer) -> list[tuple[str, str]]:
    return [
        *((f"header {name}", text) for name, text in server.headers.items()),
        *((f"variable {name}", text) for name, text in server.variables.items()),
    ]


class Connection:
    """One server of one trial; ``folder`` is where a command is started."""

    def __init__(self, server: McpServer, variables: Mapping[str, str], folder: Path) -> None:
        self.server = server
        self._own = Surroundings(server, variables)
        self._wire: Wire = (
            Pipes(server, self._own.environment, folder)
            if server.url is None
            else Address(server, self._own.headers)
        )
        self._leave = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._failure: BaseException | None = None

    async def open(self) -> tuple[ToolSpec, ...]:
        """Starts or reaches the server; all tools that it has.

        Raises:
            EndpointFault: It did not start, or did not answer as it must, in time.
        """
        listed: asyncio.Future[tuple[ToolSpec, ...]] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(listed))
        seconds = self.server.start_seconds
        either: set[asyncio.Future[Any]] = {listed, self._holder}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if listed.done():
            self._wire.begin()
            return listed.result()
        if self._holder.done():
            raise self._fault(await self._how_it_ended())
        said = self._wire.nonsense
        what = f"; it said what is no message: {said}" if said else ""
        raise self._fault(f"gave no list of its tools within {seconds:g} s{what}")

    async def call(self, name: str, arguments: Mapping[str, object]) -> str:
        """What a tool returns, as text.

        Raises:
            ToolFailed: The server says that the call failed.
            EndpointFault: The server died, or did not answer as it must, or not in time.
        """
        from mcp import MCPError  # noqa: PLC0415 - loaded when the connection was opened

        assert self._client is not None  # noqa: S101 - called after open
        seconds = self.server.call_seconds
        try:
            async with asyncio.timeout(seconds):
                result = await self._client.call_tool(name, dict(arguments))
        except TimeoutError:
            fault = self._fault(f"gave no answer to a call of '{name}' within {seconds:g} s")
        except MCPError as error:
            if self._is_answer(error.code):
                raise ToolFailed(whole_text(error.message)) from None
            what = f"gave no result of '{name}': {error.message}"
            fault = await self._lost(name) if _is_lost(error) else self._fault(what)
        except Exception as error:  # noqa: BLE001 - whatever the SDK makes of nonsense
            fault = self._fault(f"gave no result of '{name}': {_in_short(error)}")
        else:
            text = as_text(result)
            if result.is_error:
                raise ToolFailed(text)
            return text
        raise fault

    async def close(self) -> None:
        """Ends the connection and the server, and all that it started."""
        self._leave.set()
        if self._holder is not None:
            if self._client is None:
                self._holder.cancel()
            await at_the_end(self._holder, CLOSE_SECONDS)

    async def _hold(self, listed: asyncio.Future[tuple[ToolSpec, ...]]) -> None:
        try:
            # More than half a second, which a run without such servers should not pay.
            from mcp import Client  # noqa: PLC0415
            from mcp.types import Implementation  # noqa: PLC0415

            # Its log repeats what a server said, whatever that was.
            logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
            us = Implementation(name="watchkeeper", version=__version__)
            async with Client(self._wire.streams(), client_info=us, cache=None) as client:
                specs = await _specs(client, self.server)
                self._client = client
                listed.set_result(specs)
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001 - told by those who wait for it
            self._failure = error

    def _is_answer(self, code: int) -> bool:
        """Whether an error was said by a server that is in order, for the agent to deal with."""
        from mcp import types  # noqa: PLC0415 - loaded when the connection was opened

        if code == types.INTERNAL_ERROR:
            # Over HTTP the SDK makes this one of any status that it does not know.
            return self.server.url is None
        return code in {types.INVALID_PARAMS, types.METHOD_NOT_FOUND}

    async def _lost(self, name: str) -> EndpointFault:
        """The fault of a call that the connection did not outlive."""
        if self._holder is not None and self.server.url is not None:
            await asyncio.wait({self._holder}, timeout=1.0)
        return self._fault(f"{await self._how_it_ended()} (in a call of '{name}')")

    async def _how_it_ended(self) -> str:
        why = await self._wire.how_it_ended()
        if why is not None:
            # Looked through for secrets before it is cut: half of one is not recognised.
            head, colon, tail = self._own.redactor.text(why).partition(": ")
            return f"{head}{colon}{tail[-_SHOWN:]}"
        return f"does not answer as it must: {_in_short(self._failure)}"

    def _fault(self, what: str) -> EndpointFault:
        text = f"MCP server '{self.server.name}' {self._shown(what, 2 * _SHOWN)}"
        return EndpointFault(text, kind="mcp_server", is_transient=True)

    def _shown(self, text: str, limit: int = _SHOWN) -> str:
        """One line that may be shown."""
        line = " ".join(self._own.redactor.text(text).split())
        return "".join(one if one.isprintable() else "�" for one in line)[:limit]


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


def as_text(result: Any) -> str:  # noqa: ANN401 - types.CallToolResult, lazily loaded
    """A result as a model is shown it: its texts, and of everything else what it is."""
    parts = [_part(one) for one in result.content]
    structured = result.structured_content
    if not parts and any(one is not None for one in (structured or {}).values()):
        return whole_text(json.dumps(structured, ensure_ascii=False))
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


def _in_short(error: BaseException | None) -> str:
    """The first fault in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return "it closed the connection"
    if isinstance(error, Refused):
        return str(error)
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"


def _is_lost(error: MCPError) -> bool:
    from mcp import types  # noqa: PLC0415 - loaded when the connection was opened

    return error.code == types.CONNECTION_CLOSED
