"""Endpoints as scripts and people meet them: what is served, what has retired, where they stand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.programs import WATCHKEEPER, Ended, finished
from tests.projects import scripted_endpoint, write_project
from tests.servers import anthropic_replies as api
from tests.servers.anthropic_server import AnthropicServer, anthropic_server
from tests.servers.loopback import LoopbackServer, Reply, Request

SOON = (datetime.now(UTC) + timedelta(days=9)).replace(hour=0, minute=0, second=0, microsecond=0)


def watchkeeper(folder: Path, *arguments: str) -> Ended:
    """The command line in a folder; nobody ever sees a traceback."""
    ended = finished(
        WATCHKEEPER, *arguments, folder=folder, variables={"SOME_API_KEY": "key-for-tests"}
    )
    assert "Traceback" not in ended.err, ended.err
    return ended


@pytest.fixture
def provider() -> Iterator[AnthropicServer]:
    """A provider that lists one model, which answers yes."""
    card = api.model_card(api.DEFAULT_MODEL)
    with anthropic_server(
        then=api.message("yes"), models={"alias": card, api.DEFAULT_MODEL: card}
    ) as server:
        yield server


def project(folder: Path, url: str, **more: Any) -> Path:
    """A project whose only endpoint is behind that provider."""
    endpoint = {
        "kind": "anthropic",
        "model": "alias",
        "api_key": "env:SOME_API_KEY",
        "base_url": url,
        "owner": "team",
        "suites": ["basic"],
        "call_retries": 0,
        **more,
    }
    return write_project(folder, endpoints={"agent": endpoint})


def retiring(provider: AnthropicServer, **card: Any) -> None:
    """The provider lists its model with another life cycle from now on."""
    provider.models["alias"] = api.model_card(api.DEFAULT_MODEL, **card)


def checked(folder: Path) -> tuple[int, Mapping[str, Any]]:
    """The exit code of a check, and what it says of the endpoint."""
    ended = watchkeeper(folder, "endpoints", "--check", "--json")
    (row,) = json.loads(ended.out)
    return ended.exit_code, row


def test_check_tells_a_change_once(tmp_path: Path, provider: AnthropicServer) -> None:
    """0 for the first sight and the same, 4 for a change, 3 where nobody could be asked."""
    folder = project(tmp_path, provider.url)
    assert checked(folder)[0] == 0
    assert checked(folder)[0] == 0
    retiring(provider, lifecycle="deprecated", retires_at=SOON.isoformat())
    code, row = checked(folder)
    assert (code, row["is_changed"]) == (4, True)
    assert row["changes"] == [
        {"what": "lifecycle", "before": "active", "after": "deprecated"},
        {"what": "retirement", "before": "unknown", "after": f"{SOON:%Y-%m-%d}"},
    ]
    code, row = checked(folder)
    assert (code, row["is_changed"], row["changes"]) == (0, False, [])
    shown = watchkeeper(folder, "endpoints")
    assert shown.exit_code == 0
    assert f"agent: alias → {api.DEFAULT_MODEL}" in shown.out
    assert f"retires at: {SOON:%Y-%m-%d}" in shown.out
    provider.models = {}
    provider.models["alias"] = {}
    code, row = checked(folder)
    assert (code, row["resolved_model"]) == (0, None)
    assert "unverifiable" in row["note"]


def test_provider_that_is_down_is_3(tmp_path: Path) -> None:
    """A check that could not look is no word on whether anything changed."""
    folder = project(tmp_path, "http://127.0.0.1:1")
    ended = watchkeeper(folder, "endpoints", "--check")
    assert ended.exit_code == 3
    assert "no connection" in ended.out


def test_retired_model_is_refused_before_the_first_call(
    tmp_path: Path, provider: AnthropicServer
) -> None:
    """It is bad configuration, and ``doctor`` says so too."""
    folder = project(tmp_path, provider.url)
    retiring(provider, lifecycle="retired", retires_at="2026-01-31T00:00:00Z")

    asked = watchkeeper(folder, "run", "basic", "-e", "agent")
    looked = watchkeeper(folder, "doctor")

    said = f"endpoint 'agent': model '{api.DEFAULT_MODEL}' has retired on 2026-01-31"
    assert (asked.exit_code, looked.exit_code) == (2, 2)
    assert said in asked.err
    assert provider.message_calls == []
    assert "has retired; runs are refused" in looked.out


class Registry(LoopbackServer):
    """A registry that may be down."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.text = json.dumps({"endpoints": {"agent": scripted_endpoint()}})

    def answer(self, request: Request) -> Reply:
        """What it offers."""
        return Reply(status=404) if self.is_down else Reply(body=self.text.encode())


def test_registry_that_is_down_costs_no_run_and_is_told(tmp_path: Path) -> None:
    """The copy is used, said, and part of the record; ``validate`` says what is wrong."""
    registry = Registry()
    with registry.running():
        folder = write_project(tmp_path)
        url = f"{registry.url}/agents.json"
        file = folder / "config/endpoints.yaml"
        file.write_text(yaml.safe_dump({"sources": [url]}))
        assert watchkeeper(folder, "validate").exit_code == 0
        registry.is_down = True

        ended = watchkeeper(folder, "run", "basic", "-e", "agent")
        honest = watchkeeper(folder, "validate")
        offline = watchkeeper(folder, "validate", "--offline")
        shown = watchkeeper(folder, "diff")

    told = f"{url}: not readable since "
    assert ended.exit_code == 0
    assert told in ended.err
    assert told in " ".join(ended.out.split())
    assert honest.exit_code == 2
    assert f"config/endpoints.yaml:2: {url}: HTTP 404" in honest.err
    assert (offline.exit_code, offline.out.startswith("ok: 1 endpoint")) == (0, True)
    assert (shown.exit_code, told in shown.err) == (0, False)


def test_change_in_mid_run_is_told_before_the_scores(tmp_path: Path) -> None:
    """The run is recorded by trial, and its first line says who answered instead."""
    folder = write_project(tmp_path)
    with anthropic_server(
        script=lambda call: api.message(
            "yes", model="fallback-1" if "case-0" in call.last_text else api.ECHO
        ),
        models={"m-1": api.model_card("m-1")},
    ) as server:
        endpoint = {
            "kind": "anthropic",
            "model": "m-1",
            "api_key": "env:SOME_API_KEY",
            "base_url": server.url,
            "owner": "team",
            "suites": ["basic"],
        }
        text = yaml.safe_dump({"endpoints": {"agent": endpoint}})
        (folder / "config/endpoints.yaml").write_text(text)
        ended = watchkeeper(folder, "run", "basic", "-e", "agent")
        rows = watchkeeper(
            folder,
            "sql",
            "select served_model, count(*) as n from trials group by all order by all",
            "--format",
            "json",
        )
    first = ended.out.splitlines()[0]
    assert first.startswith("NO BASELINE YET: 3 of 12 trials were answered by fallback-1 instead")
    assert json.loads(rows.out) == [
        {"served_model": "fallback-1", "n": 3},
        {"served_model": "m-1", "n": 9},
    ]
