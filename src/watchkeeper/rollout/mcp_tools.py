"""The tools of an endpoint's MCP servers, which every trial starts for itself."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.domain.endpoint import Endpoint, McpServer
from watchkeeper.domain.identity import content_hash
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.rollout._mcp_connection import Connection, secret_names
from watchkeeper.rollout.toolbox import Tool, load_python_tools

__all__ = ["McpTool", "check_mcp", "open_mcp_tools", "secret_names"]

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server that is connected."""

    spec: ToolSpec
    connection: Connection

    async def call(self, arguments: Mapping[str, object]) -> object:
        """The text that the tool returns.

        Raises:
            ToolFailed: The server says that the call failed.
            EndpointFault: The server died, or did not answer as it must, or not in time.
        """
        return await self.connection.call(self.spec.name, arguments)


async def check_mcp(endpoint: Endpoint, variables: Mapping[str, str], root: Path) -> str:
    """The endpoint's configuration hash with the tools that its servers offer now.

    Every server is started once, asked for its tools and ended, before anything is paid for.

    Raises:
        UsageError: A server does not start or answers nonsense, a variable that it needs is not
            set, or its tools cannot be offered as they are.
    """
    if not endpoint.harness.mcp:
        return endpoint.config_hash
    where = f"{endpoint.location}: endpoint '{endpoint.name}': ".removeprefix(": ")
    python = load_python_tools(endpoint.harness.tools, root)
    try:
        async with open_mcp_tools(endpoint, variables, None) as tools:
            both = sorted(set(tools) & set(python))
            config_hash = _hash(endpoint, tools)
    except (EndpointFault, UsageError) as error:
        raise UsageError(f"{where}{error}") from error
    if both:
        server = tools[both[0]].connection.server.name
        raise UsageError(
            f"{where}harness.mcp.{server}: its tool '{both[0]}' has the name of one of "
            "harness.tools; leave one of them out"
        )
    return config_hash


@asynccontextmanager
async def open_mcp_tools(
    endpoint: Endpoint,
    variables: Mapping[str, str],
    workspace: Path | None,
    config_hash: str | None = None,
) -> AsyncIterator[dict[str, McpTool]]:
    """The tools of every server of an endpoint, by name, as long as the block lasts.

    Afterwards the servers that were started are gone, and all that they started.

    Args:
        endpoint: Whose servers they are.
        variables: The environment that references are looked up in.
        workspace: Where commands are started; a folder that is gone afterwards by default.
        config_hash: What ``check_mcp`` returned for the run: other tools are a fault.

    Raises:
        UsageError: A variable that a declaration refers to is not set.
        EndpointFault: A server does not start or answers nonsense, or what it offers cannot be.
    """
    servers = endpoint.harness.mcp
    if not servers:
        yield {}
        return
    async with AsyncExitStack() as stack:
        if workspace is None:
            scratch = tempfile.TemporaryDirectory(
                prefix="watchkeeper-mcp-", ignore_cleanup_errors=True
            )
            workspace = Path(stack.enter_context(scratch))
        connections = [Connection(server, variables, workspace) for server in servers]
        for connection in connections:
            stack.push_async_callback(connection.close)
        opened = await asyncio.gather(*(one.open() for one in connections), return_exceptions=True)
        tools: dict[str, McpTool] = {}
        for connection, specs in zip(connections, opened, strict=True):
            if isinstance(specs, BaseException):
                raise specs
            for spec in _offered(connection.server, specs):
                other = tools.get(spec.name)
                if other is not None:
                    both = f"'{other.connection.server.name}' and '{connection.server.name}'"
                    raise _misfit(
                        f"the servers {both} both offer a tool '{spec.name}'; name the wanted "
                        "tools of one of them under tools"
                    )
                tools[spec.name] = McpTool(spec, connection)
        if config_hash is not None and _hash(endpoint, tools) != config_hash:
            raise EndpointFault(
                "the MCP servers offer other tools than when the run was planned",
                kind="mcp_changed",
                is_transient=False,
            )
        yield tools


def _offered(server: McpServer, specs: tuple[ToolSpec, ...]) -> list[ToolSpec]:
    """Those tools of a server that are wanted, in its order."""
    names = [spec.name for spec in specs]
    for name in (*(server.tools or ()), *sorted(server.silent)):
        if name not in names:
            known = ", ".join(one for one in names[:10] if _TOOL_NAME.fullmatch(one))
            raise _misfit(f"server '{server.name}' offers no tool '{name}'; it offers: {known}")
    wanted = [spec for spec in specs if server.tools is None or spec.name in server.tools]
    for spec in wanted:
        if not _TOOL_NAME.fullmatch(spec.name):
            raise _misfit(
                f"server '{server.name}' offers a tool {spec.name[:80]!a}, a name that models are "
                "not told; name the wanted ones under tools"
            )
        if names.count(spec.name) > 1:
            raise _misfit(f"server '{server.name}' offers two tools '{spec.name}'")
    return wanted


def _misfit(message: str) -> EndpointFault:
    return EndpointFault(f"harness.mcp: {message}", kind="mcp_server", is_transient=False)


def _hash(endpoint: Endpoint, tools: Mapping[str, Tool]) -> str:
    offered = [
        [tool.spec.name, tool.spec.description, tool.spec.input_schema, tool.spec.is_silent]
        for _, tool in sorted(tools.items())
    ]
    return content_hash([endpoint.config_hash, offered])
