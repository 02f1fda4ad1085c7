"""A team's MCP server, made with the SDK; over stdio, or on loopback with ``http``."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import ContentBlock, EmbeddedResource, ResourceLink, TextContent
from mcp_types import TextResourceContents as Written

from tests.servers.process import announce, leave_when_stdin_closes

server = MCPServer("team", log_level="CRITICAL")


@server.tool()
def add(first: int, second: int = 1) -> int:
    """Adds two numbers."""
    return first + second


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("the register is closed")


@server.tool()
def note(text: str) -> None:
    """Keeps a note."""


@server.tool()
def picture() -> Image:
    """Draws."""
    return Image(data=b"12345", format="png")


@server.tool(structured_output=False)
def mixture() -> list[ContentBlock]:
    """Finds texts and other things."""
    return [
        TextContent(type="text", text="one"),
        ResourceLink(type="resource_link", name="two", uri="file:///two.txt"),
        EmbeddedResource(
            type="resource", resource=Written(uri="file:///three.txt", text="three inside")
        ),
    ]


@server.tool()
def much(characters: int) -> str:
    """Finds much."""
    return "ü" * characters


@server.tool()
def place() -> str:
    """Tells where it is."""
    return str(Path.cwd())


@server.tool()
def leave(name: str) -> str:
    """Leaves a file."""
    Path(name).write_text("left")
    return "left"


@server.tool()
def variables() -> list[str]:
    """Tells what it is given."""
    return [f"{name}={value}" for name, value in sorted(os.environ.items())]


def main() -> None:
    """Serves."""
    if "http" not in sys.argv:
        server.run("stdio")
        return
    leave_when_stdin_closes()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    announce(f"http://127.0.0.1:{port}/mcp")
    server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
