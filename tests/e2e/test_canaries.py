"""Secrets planted wherever a night can meet one are in nothing that it stores, logs or sends."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.packed import texts_below
from tests.e2e.programs import WATCHKEEPER, finished
from tests.projects import case, suite, write_project
from tests.servers.anthropic_replies import failed, message, tool_use
from tests.servers.anthropic_server import Call, anthropic_server
from tests.servers.loopback import Reply
from tests.servers.slack_server import slack_server

KEY = "canary-one/of+the=key"
SLACK = "canary-two-of-slack"
PASSWORD = "canary-three-of-a-tool"
PASTED = "sk-ant-api03-canary0four0pasted0by0somebody"
TOKEN_SHAPED = "ghp_canary0five0in0a0header0of0a0tool"
CANARIES = {
    "the key": KEY,
    "the key in an address": quote(KEY, safe=""),
    "the key in a header": b64encode(f"user:{KEY}".encode()).decode()[8:-4],
    "the token": SLACK,
    "the password": PASSWORD,
    "the pasted key": PASTED,
    "the other shape": TOKEN_SHAPED,
}
TOOLS = """
import os
import sys

from watchkeeper.place import current


def show_environment() -> str:
    \"\"\"What a careless tool returns.\"\"\"
    print("on standard output:", os.environ["TOOL_PASSWORD"])
    print("on standard error:", os.environ["TOOL_PASSWORD"], file=sys.stderr)
    return f"{dict(os.environ)} and {PASTED}"


def write_it(name: str) -> dict[str, str]:
    \"\"\"Leaves it in the workspace, also as a name.\"\"\"
    (current().workspace / name).write_text(os.environ["TOOL_PASSWORD"] + "\\n")
    return {os.environ["TOOL_PASSWORD"]: "a key of a result"}


def fail() -> None:
    \"\"\"Raises with it.\"\"\"
    word = os.environ["TOOL_PASSWORD"]
    raise RuntimeError(f"401 for Authorization: Bearer {TOKEN_SHAPED}, {word}")


TOOLS = [show_environment, write_it, fail]
"""
SETUP = """#!/bin/sh
echo "connecting with {pasted}" >&2
exit 1
"""


def answer(call: Call) -> Reply:
    """What the server says to each case; every error repeats what it was sent."""
    asked = json.dumps(call.body["messages"][0])
    header = b64encode(f"user:{KEY}".encode()).decode()
    if "quoted by the server" in asked:
        what = f"bad key {KEY}, see https://h/?key={quote(KEY, safe='')}, Basic {header}"
        return failed(400, "invalid_request_error", what)
    if len(call.body["messages"]) == 1 and "tool" in asked:
        name = asked.split("tool ")[1].split()[0].strip('"}],')
        given = {"name": f"{PASSWORD}.txt"} if name == "write_it" else {}
        return tool_use(name, given)
    return message(f"no: {KEY} {PASSWORD} {PASTED}", model=KEY if "model" in asked else "claude-x")


def project(folder: Path, address: str) -> Path:
    """A night with a case for every place where a secret can come from."""
    (folder / "canary_tools.py").write_text(
        f"PASTED, TOKEN_SHAPED = {PASTED!r}, {TOKEN_SHAPED!r}\n{TOOLS}"
    )
    (folder / "files").mkdir()
    (folder / "files/readme").write_text("x")
    (folder / "seed.sh").write_text(SETUP.format(pasted=PASTED))
    (folder / "seed.sh").chmod(0o755)
    asked: dict[str, dict[str, Any]] = {
        "environment": {"input": "use the tool show_environment"},
        "workspace": {"input": "use the tool write_it", "files": "files"},
        "raising": {"input": "use the tool fail"},
        "server": {"input": "this is quoted by the server"},
        "setup": {"input": "never said", "setup": ["./seed.sh"]},
        "model": {"input": "which model are you?"},
    }
    endpoint = {
        "kind": "anthropic",
        "model": "claude-x",
        "api_key": "env:AGENT_WORD",
        "base_url": address,
        "owner": "team",
        "suites": ["basic"],
        "harness": {"tools": "canary_tools:TOOLS"},
    }
    gated = {"categories": {"facts": {"gate": 1.0, "action": "page"}}}
    return write_project(
        folder,
        watchkeeper={"slack": {"token": "env:PAGER"}, "statistics": {"minimum_coverage": 0.5}},
        owners={"team": {"slack_channel": "C0TEAM"}, "platform": {"slack_channel": "C0PLATFORM"}},
        endpoints={"agent": endpoint},
        suites={"basic": suite([case(name, **more) for name, more in asked.items()], **gated)},
    )


@pytest.mark.slow
def test_no_canary_is_found_after_a_night(tmp_path: Path) -> None:
    """Store, catalog, journal, Prefect's database, logs, output and Slack hold names, no values."""
    with (
        anthropic_server(answer, api_key=KEY) as api,
        slack_server(token=SLACK, channels={"C0TEAM": "t", "C0PLATFORM": "p"}) as slack,
    ):
        folder = project(tmp_path, api.url)
        variables: dict[str, str] = {
            "AGENT_WORD": KEY,
            "PAGER": SLACK,
            "TOOL_PASSWORD": PASSWORD,
            "WATCHKEEPER_SLACK_URL": slack.base_url,
            "PREFECT_HOME": str(folder / "prefect"),
            "DO_NOT_TRACK": "1",
        }
        night = finished(WATCHKEEPER, "nightly", folder=folder, variables=variables)
        assert api.calls
        (shown, *_) = _runs(folder, variables)
        report = finished(WATCHKEEPER, "diff", shown, folder=folder, variables=variables)
        asked = finished(
            WATCHKEEPER, "sql", "select * from transcripts", folder=folder, variables=variables
        )
    assert night.exit_code in {1, 3}, night.out
    assert slack.messages["C0TEAM"] or slack.messages["C0PLATFORM"], night.err

    planted = {"config", "seed.sh", "canary_tools.py", "__pycache__"}
    found = {
        where: text
        for where, text in texts_below(folder).items()
        if not planted & set(Path(where).parts) and not where.endswith(".pyc")
    }
    found["standard output"] = night.out + report.out + asked.out
    found["standard error"] = night.err + report.err + asked.err
    found["slack"] = json.dumps([[call.method, call.body] for call in slack.calls])
    assert any(where.startswith("prefect/") for where in found)
    stored = "".join(text for where, text in found.items() if where.startswith("store/"))
    for name in ("AGENT_WORD", "TOOL_PASSWORD"):
        assert f"[secret {name}]" in stored, "the canary was not there to be found"
    leaks = [
        (where, what)
        for where, text in found.items()
        for what, one in CANARIES.items()
        if one in text
    ]
    assert leaks == []
    assert "on standard output: [secret TOOL_PASSWORD]" in night.err
    assert "on standard error: [secret TOOL_PASSWORD]" in night.err
    assert "on standard output" not in night.out


def _runs(folder: Path, variables: dict[str, str]) -> list[str]:
    asked = finished(
        WATCHKEEPER,
        "sql",
        "select run_id from runs where purpose = 'nightly'",
        "--format",
        "json",
        folder=folder,
        variables=variables,
    )
    rows: list[dict[str, Any]] = json.loads(asked.out)
    return [row["run_id"] for row in rows]
