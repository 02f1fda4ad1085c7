"""Runs whose agent uses MCP servers: started for every trial, and a dead one is no failed trial."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.nights import evaluated
from tests.projects import Bench, bench, case, script, scripted_endpoint, suite, write_project
from tests.servers.process import ROOT
from watchkeeper.errors import UsageError

PLAIN = str(ROOT / "tests/servers/mcp_programs/plain.py")
ASKS = {"rounds": [{"calls": [{"tool": "look"}]}], "endings": [{"text": "yes"}]}


def project(folder: Path, mode: str) -> Bench:
    """Two cases, three trials each; the server is in order, or not, in one way."""
    server = {"command": [sys.executable, "-I", PLAIN, mode], "call_seconds": 5}
    write_project(
        folder,
        endpoints={"agent": scripted_endpoint(harness={"mcp": {"plain": server}})},
        suites={"basic": suite([case("a"), case("b")])},
        scripts={"agent": script(ASKS)},
    )
    return bench(folder, variables={"PATH": os.environ["PATH"]})


def rows(made: Bench, statement: str) -> list[tuple[Any, ...]]:
    """What a question to the store's history brings."""
    connection = made.services.history().connect()
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_tools_of_a_server_are_called_like_any_other(tmp_path: Path) -> None:
    """With their results in the record; what is offered is part of the endpoint's settings."""
    (tmp_path / "one").mkdir()
    made = project(tmp_path / "one", "garbage_first")
    assert evaluated(made).counts.passed == 6
    assert rows(made, "select distinct tool, status from tool_calls") == [("look", "ok")]
    (one,) = rows(made, "select endpoint_config_hash from runs")
    (tmp_path / "two").mkdir()
    other = project(tmp_path / "two", "pages")
    evaluated(other)
    assert rows(other, "select endpoint_config_hash from runs") != [one]


@pytest.mark.parametrize("mode", ["dies", "wrong"])
def test_a_server_that_fails_is_not_the_agents_failure(mode: str, tmp_path: Path) -> None:
    """Each of its trials gets its second attempt, and then has no outcome."""
    made = project(tmp_path, mode)
    verdict = evaluated(made)
    assert verdict.counts.harness_error == 6
    assert verdict.exit_code == 3
    found = rows(made, "select distinct error_kind, attempt from trials")
    assert found == [("mcp_server", 2)]


def test_a_server_that_does_not_start_ends_the_run_before_its_first_call(tmp_path: Path) -> None:
    """With the line of the endpoint and what the server said."""
    made = project(tmp_path, "nonsense")
    with pytest.raises(UsageError, match=r"config/endpoints.yaml:\d+: endpoint 'agent': .*plain"):
        evaluated(made)
    assert rows(made, "select count(*) from attempts") == [(0,)]
