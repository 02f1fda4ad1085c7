"""Tools of MCP servers: real programs that are spoken to over their pipes and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.servers import process
from tests.servers.loopback import LoopbackServer, Reply, Request
from tests.unit.rollout.stage import answer, call, case, scene, wants
from watchkeeper.domain.case import ScriptedResult, ScriptedTool
from watchkeeper.domain.endpoint import Endpoint, Harness, McpServer
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.rollout import _mcp_transport
from watchkeeper.rollout.mcp_tools import check_mcp, open_mcp_tools, secret_names
from watchkeeper.rollout.toolbox import Toolbox, ToolFailed, endpoint_tool_names

ROOT = process.ROOT
PLAIN = str(ROOT / "tests/servers/mcp_programs/plain.py")
TEAM = (sys.executable, "-m", "tests.servers.mcp_programs.team")
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}


def plain(mode: str = "", *names: str, name: str = "plain", **more: Any) -> McpServer:
    """The program that is out of order in one way."""
    return McpServer(name, command=(sys.executable, "-I", PLAIN, mode, *names), **more)


def team(**more: Any) -> McpServer:
    """The program that is in order."""
    return McpServer("team", command=TEAM, pass_variables=("PYTHONPATH",), **more)


def endpoint(*servers: McpServer, tools: str | None = None) -> Endpoint:
    """An endpoint whose harness has these servers."""
    harness = Harness(tools=tools, mcp=servers)
    location = "config/endpoints.yaml:3"
    return Endpoint(
        "agent", "anthropic", "team", "test", None, (), None, "h", harness, location=location
    )


async def refusal_of(*servers: McpServer, **more: Any) -> str:
    """What is said of servers before the first call of a run."""
    with pytest.raises(UsageError) as caught:
        await check_mcp(endpoint(*servers, **more), ENVIRONMENT, ROOT)
    return str(caught.value)


def is_alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children() -> list[int]:
    """The processes right below this one."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


async def test_an_endpoint_without_servers_costs_nothing(tmp_path: Path) -> None:
    """Neither the SDK nor a folder is touched."""
    before = set(sys.modules)
    async with open_mcp_tools(endpoint(), {}, tmp_path) as tools:
        assert tools == {}
    assert await check_mcp(endpoint(), {}, tmp_path) == "h"
    assert not {one for one in set(sys.modules) - before if one.split(".")[0] == "mcp"}


async def test_a_server_made_with_the_sdk(tmp_path: Path) -> None:
    """Its tools are offered as it describes them, and give the model what they give."""
    async with open_mcp_tools(
        endpoint(team(silent=frozenset({"note"}))), ENVIRONMENT, tmp_path
    ) as (tools):
        add = tools["add"].spec
        assert (add.description, add.is_silent) == ("Adds two numbers.", False)
        assert add.input_schema["required"] == ["first"]
        assert tools["note"].spec.is_silent
        box = Toolbox(case(), tools)
        added, failed, noted, drawn, mixed, unfit, much = await box.answer(
            [
                call("add", first=2, second=3),
                call("fail"),
                call("note", text="x"),
                call("picture"),
                call("mixture"),
                call("add", first="two"),
                call("much", characters=1_200_000),
            ]
        )
        at = await tools["place"].call({})
        await tools["leave"].call({"name": "left.txt"})
    assert (added.result, added.status, added.is_error) == ("5", "ok", False)
    assert (failed.status, failed.is_error) == ("error", True)
    assert failed.result is not None
    assert failed.result.startswith("Error executing tool fail")
    assert (noted.status, noted.is_silent) == ("empty", True)
    assert drawn.result == "[image image/png, 5 bytes]"
    assert mixed.result == "one\n[resource two: file:///two.txt]\nthree inside"
    assert unfit.is_error
    assert "first" in str(unfit.result)
    assert str(much.result).endswith("ü… (+200000 characters)")
    assert at == str(tmp_path)
    assert (tmp_path / "left.txt").read_text() == "left"


async def test_a_command_gets_no_more_of_the_environment_than_it_is_given() -> None:
    """The rest, secrets above all, stays here; a reference is replaced by its value."""
    around = {**ENVIRONMENT, "API_KEY": "abc123456", "OTHER_TOKEN": "t0ken-t0ken", "LANG": "C"}
    server = team(variables={"KEY_OF_TEAM": "env:API_KEY", "COLOUR": "blue"})
    assert secret_names(server) == {"API_KEY"}
    async with open_mcp_tools(endpoint(server), around, None) as tools:
        found = str(await tools["variables"].call({}))
    names = {line.partition("=")[0] for line in found.splitlines()}
    assert {"PATH", "LANG", "PYTHONPATH", "KEY_OF_TEAM", "COLOUR"} <= names
    assert not names & {"API_KEY", "OTHER_TOKEN"}
    assert "KEY_OF_TEAM=abc123456" in found


async def test_a_trial_has_its_own_server() -> None:
    """Without a workspace each gets a folder of its own, which is gone afterwards."""
    one = endpoint(plain("", "look"))
    async with (
        open_mcp_tools(one, ENVIRONMENT, None) as first,
        open_mcp_tools(one, ENVIRONMENT, None) as second,
    ):
        ours = [tools["look"].connection for tools in (first, second)]
        folders = [connection._wire._folder for connection in ours]  # type: ignore[attr-defined]
        assert folders[0] != folders[1]
        assert await first["look"].call({"a": "ü"}) == '{"a": "\\u00fc"}'
    assert [folder.exists() for folder in folders] == [False, False]


async def test_all_pages_of_tools_are_read() -> None:
    """A server may give its list piece by piece."""
    async with open_mcp_tools(endpoint(plain("pages")), ENVIRONMENT, None) as tools:
        assert list(tools) == [f"look_{page}" for page in range(5)]


async def test_only_the_tools_that_were_named_are_offered() -> None:
    """In the server's order."""
    server = plain("", "edit", "look", "find", tools=("find", "look"))
    async with open_mcp_tools(endpoint(server), ENVIRONMENT, None) as tools:
        assert list(tools) == ["look", "find"]


def test_what_an_endpoint_offers_is_known_only_where_the_tools_are_named() -> None:
    """A grader may name a tool that nobody can have listed without starting the server."""
    assert endpoint_tool_names(endpoint(plain()), ROOT) is None
    assert endpoint_tool_names(endpoint(plain(tools=("look",))), ROOT) == frozenset({"look"})
    assert endpoint_tool_names(endpoint(plain(tools=("look",)), plain()), ROOT) is None


async def test_a_scripted_tool_takes_the_place_of_a_servers() -> None:
    """As it does with every other tool."""
    script = ScriptedTool("look", (ScriptedResult("scripted"),))
    async with open_mcp_tools(endpoint(plain()), ENVIRONMENT, None) as tools:
        box = Toolbox(case(tools=(script,)), tools)
        (done,) = await box.answer([call("look")])
    assert done.result == "scripted"
    assert [spec.name for spec in box.specs] == ["find", "look"]


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (
            plain("does_not_start"),
            "'plain' ended with exit code 1, saying: the licence has expired",
        ),
        (McpServer("x", ("/no/such",)), "'x' could not be started: No such file or directory"),
        (plain("nonsense"), "'plain' does not answer as it must: ValidationError: "),
        (plain("endless"), "has no end"),
        (plain("silent", start_seconds=0.5), "gave no list of its tools within 0.5 s"),
        (
            plain("garbage", start_seconds=0.5),
            "it said what is no message: <html>it works</html>",
        ),
        (plain("", "look", "look"), "server 'plain' offers two tools 'look'"),
        (plain("", "look.up"), "a tool 'look.up', a name that models are not told"),
        (plain(tools=("lok",)), "server 'plain' offers no tool 'lok'; it offers: look, find"),
        (plain(silent=frozenset({"x"})), "server 'plain' offers no tool 'x'"),
        (
            plain(variables={"A": "env:ABSENT_VARIABLE"}),
            "harness.mcp.plain: the environment variable ABSENT_VARIABLE is not set",
        ),
        (
            plain(pass_variables=("ABSENT_TOO",)),
            "harness.mcp.plain: the environment variable ABSENT_TOO is not set",
        ),
        (
            McpServer("web", url="http://127.0.0.1:9/mcp", headers={"X-Key": "env:ABSENT_KEY"}),
            "harness.mcp.web: the environment variable ABSENT_KEY is not set",
        ),
        (McpServer("web", url="http://127.0.0.1:9/mcp"), "'web' does not answer as it must: "),
    ],
    ids=lambda one: one.command[-1] if isinstance(one, McpServer) and one.command else None,
)
async def test_a_server_that_is_no_use_is_found_before_the_first_call(
    server: McpServer, says: str
) -> None:
    """With the endpoint's place in the file, the server's name, and in its own words why."""
    began = time.monotonic()
    said = await refusal_of(server)
    assert said.startswith("config/endpoints.yaml:3: endpoint 'agent': ")
    assert says in said
    assert said.isprintable()
    assert time.monotonic() - began < 15


async def test_two_tools_of_one_name_are_refused() -> None:
    """Of two servers, or of a server and the harness's own module; tools tells them apart."""
    said = await refusal_of(plain(), plain(name="other"))
    assert "the servers 'plain' and 'other' both offer a tool 'look'" in said
    own = "tests.unit.rollout.team_tools:TOOLS"
    said = await refusal_of(plain("", "add"), tools=own)
    assert "harness.mcp.plain: its tool 'add' has the name of one of harness.tools" in said
    fitting = endpoint(plain(tools=("find",)), plain(name="other", tools=("look",)))
    assert await check_mcp(fitting, ENVIRONMENT, ROOT) != "h"


async def test_what_is_offered_is_part_of_what_the_run_was_made_with() -> None:
    """The same tools give the same hash; a description that changes is another endpoint."""
    one = endpoint(plain())
    first, again = [await check_mcp(one, ENVIRONMENT, ROOT) for _ in range(2)]
    assert first == again != "h"
    assert await check_mcp(endpoint(plain("", "look")), ENVIRONMENT, ROOT) != first
    quiet = endpoint(plain(silent=frozenset({"look"})))
    assert await check_mcp(quiet, ENVIRONMENT, ROOT) != first
    async with open_mcp_tools(one, ENVIRONMENT, None, first) as tools:
        assert len(tools) == 2
    moving = endpoint(plain("changes"))
    planned = await check_mcp(moving, ENVIRONMENT, ROOT)
    with pytest.raises(EndpointFault, match="offer other tools than when") as caught:
        async with open_mcp_tools(moving, ENVIRONMENT, None, planned):
            pass
    assert (caught.value.kind, caught.value.is_transient) == ("mcp_changed", False)


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (
            plain("dies", variables={"API_KEY": "env:SOME_KEY"}),
            "ended with exit code 3, saying: out of memory with [secret SOME_KEY] "
            "(in a call of 'look')",
        ),
        (plain("killed"), "ended with signal 9 (in a call of 'look')"),
        (plain("hangs", call_seconds=0.3), "gave no answer to a call of 'look' within 0.3 s"),
        (plain("wrong"), "gave no result of 'look': ValidationError: "),
        (plain("bursts"), "wrote more than 64,000,000 bytes (in a call of 'look')"),
    ],
    ids=["dies", "killed", "hangs", "wrong", "bursts"],
)
async def test_a_server_that_fails_in_a_call_is_no_failure_of_the_agent(
    server: McpServer, says: str
) -> None:
    """The trial is a harness error, which may pass; it never hangs."""
    around = {**ENVIRONMENT, "SOME_KEY": "s3cret-s3cret"}
    async with open_mcp_tools(endpoint(server), around, None) as tools:
        stage = scene(wants(call("look"), call("find")), answer(), python_tools=tools)  # type: ignore[arg-type]
        with pytest.raises(EndpointFault) as caught:
            await asyncio.wait_for(stage.talk.play(), 20)
    assert says in str(caught.value)
    assert (caught.value.kind, caught.value.is_transient) == ("mcp_server", True)
    assert str(caught.value).isprintable()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "result", "is_error"),
    [
        ("empty", "", False),
        ("refuses", "no path was given", True),
        ("garbage_first", "found", False),
    ],
)
async def test_what_a_server_in_order_says_is_for_the_agent(
    mode: str, result: str, is_error: bool
) -> None:
    """Also that it refuses the arguments; lines between its messages are a log."""
    async with open_mcp_tools(endpoint(plain(mode)), ENVIRONMENT, None) as tools:
        (done,) = await Toolbox(case(), tools).answer([call("look")])
    assert (done.result, done.is_error) == (result, is_error)


async def test_nothing_of_a_server_is_left() -> None:
    """Not even a child in a session of its own that ignores signals."""
    async with open_mcp_tools(endpoint(plain("forks")), ENVIRONMENT, None) as tools:
        (child,) = [int(name.removeprefix("child_")) for name in tools if "child" in name]
        assert is_alive(child)
    assert not is_alive(child)


async def test_a_server_that_does_not_leave_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the moment that it gets to leave by itself."""
    monkeypatch.setattr(_mcp_transport, "EXIT_SECONDS", 0.1)
    began = time.monotonic()
    async with open_mcp_tools(endpoint(plain("stays")), ENVIRONMENT, None) as tools:
        assert await tools["look"].call({}) == "{}"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("moment", ["start", "call", "end"])
async def test_a_trial_that_is_cut_off_leaves_nothing(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever moment it is cancelled, and however often."""
    monkeypatch.setattr(_mcp_transport, "EXIT_SECONDS", 0.2)
    mode = {"start": "silent", "call": "hangs", "end": "stays"}[moment]
    running: list[Any] = []
    reached = asyncio.Event()

    async def trial() -> None:
        if moment == "start":
            reached.set()
        async with open_mcp_tools(endpoint(plain(mode)), ENVIRONMENT, None) as tools:
            running.append(tools["look"].connection)
            reached.set()
            if moment == "call":
                await tools["look"].call({})

    task = asyncio.create_task(trial())
    await asyncio.wait_for(reached.wait(), 10)
    await asyncio.sleep(0.1)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.02)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(task), 10)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not {one for one in others if not one.done()}
    assert not [pid for pid in children() if is_alive(pid)]


async def test_a_deadline_of_the_trial_holds_in_a_call() -> None:
    """The trial ends by its own limit, and so is what the agent asked for."""
    async with open_mcp_tools(endpoint(plain("hangs")), ENVIRONMENT, None) as tools:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await Toolbox(case(), tools).answer([call("look")])


async def test_a_server_behind_an_address() -> None:
    """The SDK's own server over streamable HTTP."""
    with process.module("tests.servers.mcp_programs.team", "http") as program:
        await _until_it_listens(program.url)
        server = McpServer("web", url=program.url)
        async with open_mcp_tools(endpoint(server), {}, None) as tools:
            assert await tools["add"].call({"first": 2}) == "3"
            with pytest.raises(ToolFailed, match="Error executing tool fail"):
                await tools["fail"].call({})


async def _until_it_listens(url: str) -> None:
    port = urlsplit(url).port
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


class Web(LoopbackServer):
    """Speaks MCP over HTTP until a call comes; then it does what the test says."""

    def __init__(self, last: Reply) -> None:
        super().__init__()
        self.last = last
        self.seen: list[Mapping[str, str]] = []

    def answer(self, request: Request) -> Reply:
        """The handshake, the list of tools, and the reply of the test to anything more."""
        self.seen.append(request.headers)
        if request.verb != "POST":
            return Reply(status=405)
        message = json.loads(request.body)
        if "id" not in message:
            return Reply(status=202)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
        }
        found = results.get(message["method"])
        if found is not None:
            return Reply.json({"jsonrpc": "2.0", "id": message["id"], "result": found})
        if message["method"] == "tools/call":
            body = self.last.body.replace(b"ID", str(message["id"]).encode())
            return replace(self.last, body=body)
        return Reply(status=404)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(status=502, body=b"<html>bad gateway</html>"), "answered with HTTP status 502"),
        (Reply(status=401), "answered with HTTP status 401"),
        (Reply(status=404), "answered with HTTP status 404"),
        (Reply(body=b"<html>", headers={"content-type": "text/html"}), "text/html"),
        (Reply.json({"error": "none"}), "gave no result of 'look'"),
        (Reply(status=307, headers={"location": "http://127.0.0.2:9/"}), "Redirect to http"),
        (Reply(drop=True), "does not answer as it must: "),
        (Reply(delay_s=30), "gave no answer to a call of 'look' within 0.5 s"),
        (
            Reply(body=b" " * 3000, headers={"content-type": "application/json"}),
            "answered with more than 2,000 bytes",
        ),
    ],
    ids=["502", "401", "404", "html", "nonsense", "redirect", "hangs up", "hangs", "huge"],
)
async def test_an_address_that_is_out_of_order_is_no_failure_of_the_agent(
    reply: Reply, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outages, gateways and floods alike; the key that it was asked with is never shown."""
    monkeypatch.setattr(_mcp_transport, "MAX_BYTES", 2000)
    with Web(reply).running() as web:
        server = McpServer(
            "web",
            url=f"{web.url}/mcp",
            headers={"Authorization": "Bearer env:WEB_KEY"},
            call_seconds=0.5 if reply.delay_s else 10,
        )
        around = {"WEB_KEY": "w3b-key-w3b-key"}
        async with open_mcp_tools(endpoint(server), around, None) as tools:
            with pytest.raises(EndpointFault) as caught:
                await asyncio.wait_for(tools["look"].call({}), 15)
        assert {one.get("authorization") for one in web.seen} == {"Bearer w3b-key-w3b-key"}
    assert says in str(caught.value)
    assert (caught.value.kind, caught.value.is_transient) == ("mcp_server", True)
    assert str(caught.value).isprintable()
    assert "w3b-key" not in str(caught.value)


async def test_an_address_refuses_arguments_to_the_agent() -> None:
    """An error of the protocol that says so is a result."""
    error = b'{"jsonrpc": "2.0", "id": ID, "error": {"code": -32602, "message": "which path?"}}'
    reply = Reply(status=400, body=error, headers={"content-type": "application/json"})
    with Web(reply).running() as web:
        server = McpServer("web", url=f"{web.url}/mcp")
        async with open_mcp_tools(endpoint(server), {}, None) as tools:
            (done,) = await Toolbox(case(), tools).answer([call("look")])
    assert (done.result, done.is_error) == ("which path?", True)
