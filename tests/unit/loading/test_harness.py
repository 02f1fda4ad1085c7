"""Servers of tools in a harness: what may be declared, and what it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.loading.example import ENDPOINTS, FILES, faults_of, write
from watchkeeper.domain.endpoint import Endpoint, McpServer
from watchkeeper.loading.project import load_project
from watchkeeper.settings import Settings
from watchkeeper.wiring import build_services

SECRET = "hunter2-hunter2-hunter2"
OWNED = "    base_url: http://127.0.0.1:1\n"


def project(folder: Path, mcp: str) -> Path:
    """The example, whose endpoint ``support`` has these servers."""
    text = FILES[ENDPOINTS]
    assert text.count(OWNED) == 1
    added = f"{OWNED}    harness:\n      mcp:\n        tools-of-team: {mcp}\n"
    return write(folder, {**FILES, ENDPOINTS: text.replace(OWNED, added)})


def loaded(folder: Path, mcp: str) -> Endpoint:
    """The endpoint with these servers."""
    return load_project(project(folder, mcp)).endpoints["support"]


def test_a_command_is_read_with_all_that_it_is_given(tmp_path: Path) -> None:
    """Words that begin with ./ are files of the project, wherever it is started."""
    endpoint = loaded(
        tmp_path,
        "{command: [python, ./srv.py, --quick], pass_variables: [LANG], silent: [note], "
        "tools: [look, note], variables: {API_KEY: env:KEY, MODE: test}, start_seconds: 5}",
    )
    assert endpoint.harness.mcp == (
        McpServer(
            "tools-of-team",
            command=("python", str(tmp_path.resolve() / "srv.py"), "--quick"),
            pass_variables=("LANG",),
            variables={"API_KEY": "env:KEY", "MODE": "test"},
            tools=("look", "note"),
            silent=frozenset({"note"}),
            start_seconds=5,
        ),
    )


def test_an_address_is_read_with_its_headers(tmp_path: Path) -> None:
    """A scheme may stand before the reference."""
    endpoint = loaded(
        tmp_path,
        "{url: 'https://tools.internal/mcp?area=1', headers: {Authorization: Bearer env:KEY}}",
    )
    (server,) = endpoint.harness.mcp
    assert server.url == "https://tools.internal/mcp?area=1"
    assert server.headers == {"Authorization": "Bearer env:KEY"}
    assert (server.start_seconds, server.call_seconds) == (30, 60)


def test_the_declaration_is_part_of_what_the_endpoint_is(tmp_path: Path) -> None:
    """An endpoint without servers is what it was before there were any."""
    declared = ["{command: [a]}", "{command: [a]}", "{command: [b]}", "{command: [a], tools: [x]}"]
    hashes = [
        loaded(tmp_path / str(number), mcp).config_hash for number, mcp in enumerate(declared)
    ]
    assert len(set(hashes)) == 3
    assert hashes[0] == hashes[1]
    plain = load_project(write(tmp_path / "plain", FILES)).endpoints["support"]
    assert plain.config_hash not in hashes


@pytest.mark.parametrize(
    ("mcp", "says"),
    [
        ("{}", "expected either command or url"),
        ("{command: [a], url: http://x/mcp}", "expected either command or url"),
        ("{command: []}", "at least 1 entries"),
        ("{comand: [a]}", "unknown key 'comand'"),
        ("{command: [a], headers: {X-Key: env:KEY}}", "headers only beside url"),
        ("{url: http://x/mcp, variables: {A: b}}", "pass_variables and variables only beside"),
        ("{url: ftp://x/mcp}", "expected http(s)://host"),
        ("{url: 'http://x:99999/mcp'}", "expected http(s)://host"),
        ("{command: [a], tools: [x], silent: [y]}", "silent to name some of tools; 'y' is not"),
        ("{command: [a], call_seconds: 0}", "call_seconds: found 0; expected more than 0"),
        ("{command: [a], pass_variables: [A-B]}", "pass_variables.0: found the text 'A-B'"),
    ],
)
def test_what_cannot_be_is_refused(mcp: str, says: str, tmp_path: Path) -> None:
    """With file and line."""
    (fault,) = faults_of(project(tmp_path, mcp))
    assert fault.file == ENDPOINTS
    assert FILES[ENDPOINTS].splitlines()[0] != ""
    assert says in fault.message


@pytest.mark.parametrize(
    "mcp",
    [
        f"{{command: [a], variables: {{API_KEY: {SECRET}}}}}",
        "{command: [a], variables: {API_KEY: 123456789012345}}",
        f"{{url: http://x/mcp, headers: {{X-Anything: {SECRET}}}}}",
        f"{{url: http://x/mcp, headers: {{Authorization: 'Bearer {SECRET}'}}}}",
        f"{{url: 'http://me:{SECRET}@x/mcp'}}",
        f"{{url: 'http://x/mcp?api_key={SECRET}'}}",
    ],
)
def test_an_open_secret_is_refused_and_not_repeated(mcp: str, tmp_path: Path) -> None:
    """It belongs in a variable."""
    faults = faults_of(project(tmp_path, mcp))
    told = "\n".join(map(str, faults))
    assert faults
    assert SECRET[4:] not in told
    assert "123456789012345" not in told


def test_the_secrets_of_servers_are_kept_out_of_records(tmp_path: Path) -> None:
    """Whatever the variables that hold them are called."""
    root = project(tmp_path, "{url: http://x/mcp, headers: {X-Who: Bearer env:PLAIN_NAME}}")
    variables = {"PLAIN_NAME": SECRET, "SLACK_BOT_TOKEN": "x", "ANTHROPIC_API_KEY": "y"}
    services = build_services(load_project(root), Settings(root, None, variables))
    assert services.redactor.text(f"it said {SECRET}") == "it said [secret PLAIN_NAME]"


@pytest.mark.parametrize(
    "key", ["system: prompts/agent.md", "tools: a:B", "mcp: {x: {command: [a]}}"]
)
def test_an_agent_with_its_own_loop_has_its_own_harness(key: str, tmp_path: Path) -> None:
    """A key that would mean nothing is refused, with its line."""
    own = f"kind: python\n    callable: a:run\n    owner: team\n    harness:\n      {key}\n"
    added = f"  own:\n    {own}"
    faults = faults_of(write(tmp_path, {**FILES, ENDPOINTS: FILES[ENDPOINTS] + added}))
    name = key.partition(":")[0]
    message = f"harness.{name}: an agent of kind python has a prompt and tools of its own"
    assert [fault.message for fault in faults] == [f"{message}; leave the key out"]
    assert faults[0].line == len(FILES[ENDPOINTS].splitlines()) + 6
