"""What an endpoint may not or cannot be asked is refused before anything is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.flows.nights import evaluated
from tests.projects import bench, case, scripted_endpoint, suite, write_project
from watchkeeper.errors import ConfigError, UsageError
from watchkeeper.loading.project import load_project

COMMAND = {"kind": "command", "owner": "team", "command": ["true", "{input}"], "format": "text"}
HTTP = {"kind": "http", "owner": "team", "url": "http://127.0.0.1:9/agent"}
MODEL = {"kind": "anthropic", "owner": "team", "model": "m", "api_key": "env:KEY"}
PICTURE = {"input": ["what is it?", {"image": "a.png"}]}
SCRIPTED_TOOL = {"tools": {"look": {"returns": "x"}}}
USER = {"user": {"simulator": "u", "goal": "g"}}

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "turns of a program": (COMMAND, {"input": None, "turns": ["a", "b"]}, "'resume' does not say"),
    "a simulated user of a program": (COMMAND, USER, "'resume' does not say"),
    "scripted tools of a program": (COMMAND, SCRIPTED_TOOL, "never calls; script them"),
    "files behind a URL": (HTTP, {"files": "files"}, "an agent behind a URL cannot see"),
    "a picture without a place": (HTTP, PICTURE, "holds no {{attachments}}"),
    "scripted tools behind a URL": (HTTP, SCRIPTED_TOOL, "never calls; script them"),
    "a medium that no model is shown": (
        MODEL,
        {"input": ["hear it", {"file": "a.png", "media_type": "audio/mpeg"}]},
        "audio/mpeg",
    ),
}


def project(folder: Path, endpoint: dict[str, Any], more: dict[str, Any], *, named: bool) -> Path:
    """One case that needs more, and one that does not; ``named``: the endpoint runs the suite."""
    (folder / "a.png").write_bytes(b"\x89PNG")
    (folder / "files").mkdir()
    (folder / "files/one").write_text("1")
    (folder / "u.md").write_text("u")
    (folder / "config").mkdir()
    (folder / "config/simulators.yaml").write_text(
        "simulators: {u: {kind: scripted, script: config/scripts/agent.yaml, prompt: u.md}}"
    )
    needy = {key: value for key, value in case("needy", **more).items() if value is not None}
    return write_project(
        folder,
        endpoints={"agent": {**endpoint, "suites": ["basic"] if named else []}},
        suites={"basic": suite([case("plain"), needy])},
    )


@pytest.mark.parametrize("name", REFUSED)
def test_validate_names_the_case_and_the_reason(name: str, tmp_path: Path) -> None:
    """At the line of the suite in the endpoint."""
    endpoint, more, says = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        load_project(project(tmp_path, endpoint, more, named=True))
    (fault,) = caught.value.faults
    assert fault.file == "config/endpoints.yaml"
    start = f"endpoint 'agent' of kind {endpoint['kind']} cannot be asked 1 case 'needy' of 'basic'"
    assert fault.message.startswith(start)
    assert says in fault.message


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_on_demand_is_refused_before_any_call(name: str, tmp_path: Path) -> None:
    """Also where the endpoint does not name the suite."""
    endpoint, more, says = REFUSED[name]
    made = bench(
        project(tmp_path, endpoint, more, named=False), variables={"KEY": "a-key", "PATH": "/bin"}
    )
    with pytest.raises(UsageError) as caught:
        evaluated(made)
    assert says in str(caught.value)
    assert str(caught.value).endswith("nothing was called")


def test_side_effects_beyond_what_is_allowed_are_refused(tmp_path: Path) -> None:
    """Sandbox is less than live, and none is less than both."""
    folder = write_project(
        tmp_path,
        endpoints={"agent": scripted_endpoint(suites=[], allow_side_effects="sandbox")},
        suites={"basic": suite([case(one, side_effects=one) for one in ("sandbox", "live")])},
    )
    with pytest.raises(UsageError, match="1 case 'live' of 'basic' declare more"):
        evaluated(bench(folder))
