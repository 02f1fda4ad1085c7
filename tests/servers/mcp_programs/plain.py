"""An MCP server of the standard library alone, out of order as its arguments say.

It runs by its path, wherever it is started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
NAMES = sys.argv[2:] or ["look", "find"]


def say(message: object) -> None:
    """One line."""
    sys.stdout.write(f"{message if isinstance(message, str) else json.dumps(message)}\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], result: object) -> None:
    """The answer to a request."""
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request: dict[str, Any], code: int, message: str) -> None:
    """An error in place of an answer."""
    say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})


def tool(name: str) -> dict[str, Any]:
    """A tool as it is listed."""
    description = f"Does {name}." if MODE != "changes" else f"Does {name} at {time.time()}."
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


def listed(request: dict[str, Any]) -> None:
    """The list of tools."""
    cursor = (request.get("params") or {}).get("cursor")
    if MODE == "nonsense":
        answer(request, {"tools": 5})
    elif MODE == "endless":
        answer(request, {"tools": [], "nextCursor": f"{cursor}x"})
    elif MODE == "pages":
        page = int(cursor or 0)
        more = {"nextCursor": str(page + 1)} if page < 4 else {}
        answer(request, {"tools": [tool(f"look_{page}")], **more})
    else:
        answer(request, {"tools": [tool(name) for name in NAMES]})


def called(request: dict[str, Any]) -> None:
    """What comes of a call."""
    if MODE == "dies":
        sys.stderr.write(f"out of memory with {os.environ.get('API_KEY')}\n")
        sys.stderr.flush()
        os._exit(3)
    if MODE == "killed":
        os.kill(os.getpid(), 9)
    if MODE == "hangs":
        time.sleep(60)
    if MODE == "empty":
        answer(request, {"content": []})
    elif MODE == "wrong":
        answer(request, {"content": "text"})
    elif MODE == "refuses":
        refuse(request, -32602, "no path was given")
    elif MODE == "bursts":
        sys.stdout.write("x" * 70_000_000)
        sys.stdout.flush()
    elif MODE == "garbage_first":
        say("looking…")
        say("{")
        answer(request, {"content": [{"type": "text", "text": "found"}]})
    elif MODE == "promises":
        answer(request, {"content": [{"type": "text", "text": "{}"}], "structuredContent": {}})
    else:
        text = json.dumps(request["params"]["arguments"])
        answer(request, {"content": [{"type": "text", "text": text}]})


def main() -> None:
    """Serves."""
    if MODE == "garbage":
        say("<html>it works</html>")
    if MODE in {"garbage", "silent"}:
        time.sleep(60)
    if MODE == "does_not_start":
        sys.exit("the licence has expired")
    if MODE == "forks":
        # A child that has left the group and the session, and does not care about signals.
        words = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", words], start_new_session=True)
        NAMES.append(f"child_{child.pid}")
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            about = {"name": "plain", "version": "1"}
            answer(
                request,
                {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about},
            )
        elif method == "tools/list":
            listed(request)
        elif method == "tools/call":
            called(request)
        elif "id" in request:
            refuse(request, -32601, f"no method {method}")
    if MODE == "stays":
        time.sleep(60)


if __name__ == "__main__":
    main()
