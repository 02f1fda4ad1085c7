"""The command line as scripts and people meet it when something is wrong: exit codes and words."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command

from tests.e2e.programs import WATCHKEEPER, Ended, finished
from tests.projects import case, script, scripted_endpoint, suite, write_project
from tests.servers import anthropic_replies as api
from tests.servers.anthropic_server import AnthropicServer, anthropic_server
from tests.servers.loopback import Reply
from watchkeeper.cli.main import app

KEY = "sk-ant-api03-e2e0123456789abcdef"
CASES = 2
TRIALS = 2
PLANNED = CASES * TRIALS
BASIC = suite([case(f"case-{number}") for number in range(CASES)], trials=TRIALS)


def watchkeeper(folder: Path, *arguments: str, **variables: str) -> Ended:
    """The command line in a folder; nobody ever sees a traceback."""
    ended = finished(WATCHKEEPER, *arguments, folder=folder, variables=variables)
    assert "Traceback" not in ended.err, ended.err
    assert KEY not in ended.out + ended.err
    return ended


def rows(folder: Path, statement: str) -> list[dict[str, Any]]:
    """What history answers."""
    ended = watchkeeper(folder, "sql", statement, "--format", "json")
    assert ended.exit_code == 0, ended.err
    found: list[dict[str, Any]] = json.loads(ended.out)
    return found


def messages_project(folder: Path, url: str, **more: Any) -> Path:
    """A project whose endpoint is the Messages API at an address; a request is sent once."""
    endpoint = {
        "kind": "anthropic",
        "model": api.DEFAULT_MODEL,
        "api_key": "env:SOME_API_KEY",
        "base_url": url,
        "owner": "team",
        "suites": ["basic"],
        "call_retries": 0,
        "request_seconds": 10,
        **more,
    }
    return write_project(folder, endpoints={"agent": endpoint}, suites={"basic": BASIC})


def everything_written(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below a folder but the configuration, with its bytes."""
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).parts[0] != "config":
            yield path, path.read_bytes()


@pytest.fixture(scope="module")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("starter")
    assert watchkeeper(folder, "init").exit_code == 0
    return folder


@pytest.fixture
def starter(_written: Path, tmp_path: Path) -> Path:
    """What ``watchkeeper init`` writes."""
    shutil.copytree(_written, tmp_path, dirs_exist_ok=True)
    return tmp_path


BAD_USAGE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "no such command": (("rnu",), "No such command 'rnu'"),
    "no such option": (("run", "discovery", "--fast"), "No such option"),
    "an option without its value": (("run", "discovery", "-e"), "requires an argument"),
    "too many arguments": (("validate", "config"), "unexpected extra argument"),
    "a number that is none": (("run", "discovery", "-e", "demo-agent", "-k", "x"), "-k"),
    "no trials": (("run", "discovery", "-e", "demo-agent", "-k", "0"), "-k"),
    "nothing to run": (("run",), "name a suite and an endpoint"),
    "no endpoint": (("run", "discovery"), "name a suite and an endpoint"),
    "unknown suite": (("run", "discvery", "-e", "demo-agent"), "did you mean 'discovery'?"),
    "unknown endpoint": (("run", "discovery", "-e", "demo"), "there is no endpoint 'demo'"),
    "unknown case": (
        ("run", "discovery", "-e", "demo-agent", "--case", "default-prt"),
        "did you mean 'default-port'?",
    ),
    "unknown purpose": (
        ("run", "discovery", "-e", "demo-agent", "--purpose", "fun"),
        "expected one of on_demand, ci",
    ),
    "unknown run to resume": (("run", "--resume", "run-7"), "there is no run 'run-7'"),
    "plan without an endpoint": (("plan", "discovery"), "--endpoint"),
    "plan of an unknown suite": (("plan", "x", "-e", "demo-agent"), "there is no suite 'x'"),
    "diff before the first run": (("diff",), "no run yet"),
    "two statements": (("sql", "select 1; select 2"), "expected one statement, found 2"),
    "a statement that writes": (("sql", "create table x (a int)"), "only statements that read"),
    "a statement that reads files": (("sql", "select * from '/etc/passwd'"), "the query failed"),
    "a statement that is none": (("sql", "selct 1"), "the query cannot be read"),
    "an unknown view": (("sql", "select * from trails"), "views: attempts"),
    "an unknown column": (("sql", "select case_di from trials"), "case_id"),
    "an unknown query": (("sql", "--name", "run_sumary"), "did you mean 'run_summary'?"),
    "two questions": (("sql", "select 1", "--name", "run_summary"), "give one of"),
    "an unknown format": (("sql", "select 1", "--format", "xml"), "expected one of table, csv"),
    "a parameter without a value": (("sql", "select $a", "-p", "a"), "expected name=value"),
    "a parameter that is missing": (("sql", "select $a"), "the query failed"),
    "a file that is missing": (("sql", "--file", "absent.sql"), "absent.sql: cannot be read"),
    "an unknown incident": (("incidents", "show", "inc-7"), "there is no incident 'inc-7'"),
    "no incident at all": (("incidents", "ack"), "Missing argument"),
    "an incident that is none": (("incidents", "ack", "inc-7"), "there is no incident 'inc-7'"),
    "a baseline of nothing": (("baseline", "show", "x", "-e", "demo-agent"), "no suite 'x'"),
}


@pytest.mark.parametrize("name", BAD_USAGE)
def test_bad_usage_ends_with_2(name: str, starter: Path) -> None:
    """Found before the first call; standard output stays empty for whoever reads it."""
    arguments, says = BAD_USAGE[name]
    ended = watchkeeper(starter, *arguments)
    assert ended.exit_code == 2, ended
    assert says in ended.err
    assert ended.out == ""


def test_no_case_selected_is_no_verdict(starter: Path) -> None:
    """A rate over zero cases is undefined: 3, not 0."""
    ended = watchkeeper(starter, "run", "discovery", "-e", "demo-agent", "--case", "nothing-*")
    assert ended.exit_code == 3
    assert "no case of 'discovery' was selected by nothing-*" in ended.err


COMMANDS_OF_A_PROJECT: tuple[tuple[str, ...], ...] = (
    ("validate",),
    ("run", "basic", "-e", "agent"),
    ("plan", "basic", "-e", "agent"),
    ("endpoints",),
    ("doctor",),
    ("diff",),
    ("baseline", "show", "basic", "-e", "agent"),
    ("incidents", "list"),
    ("nightly",),
)


@pytest.mark.parametrize("arguments", COMMANDS_OF_A_PROJECT, ids=" ".join)
def test_a_broken_configuration_ends_with_2_before_the_first_call(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """Every command that needs the project tells every fault of it, each on its line."""
    with anthropic_server(api_key=KEY) as server:
        messages_project(tmp_path, server.url, suites=["basics"])
        broken = {**BASIC, "owner": "taem", "trials": -1}
        (tmp_path / "config/suites/basic.yaml").write_text(yaml.safe_dump(broken, sort_keys=False))
        (tmp_path / "config/owners.yaml").write_text("team:\n\tx: 1\n")
        ended = watchkeeper(tmp_path, *arguments, SOME_API_KEY=KEY)
        assert server.calls == []
    assert ended.exit_code == 2
    endpoints = (tmp_path / "config/endpoints.yaml").read_text().split("\n")
    assert re.findall(r"config/\S+:\d+: ", ended.err) == [
        f"config/endpoints.yaml:{endpoints.index('    - basics') + 1}: ",
        "config/owners.yaml:2: ",
        "config/suites/basic.yaml:4: ",
    ]
    assert ended.out.replace(f"ok    project {tmp_path}\n", "") == ""


@pytest.mark.parametrize("arguments", COMMANDS_OF_A_PROJECT, ids=" ".join)
def test_without_a_project_every_command_ends_with_2(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """And says how to make one."""
    ended = watchkeeper(tmp_path, *arguments)
    assert ended.exit_code == 2
    assert "watchkeeper init" in ended.err
    assert ended.out == ""


def test_a_missing_secret_ends_with_2_before_the_first_call(tmp_path: Path) -> None:
    """The variable is named."""
    with anthropic_server(api_key=KEY) as server:
        messages_project(tmp_path, server.url)
        ended = watchkeeper(tmp_path, "run", "basic", "-e", "agent")
        assert server.calls == []
    assert ended.exit_code == 2
    assert "taken from the variable SOME_API_KEY, which is not set" in ended.err


def outcome_of(
    folder: Path, server: AnthropicServer, key: str = KEY, **more: Any
) -> tuple[Ended, list[dict[str, Any]]]:
    """A run against a server, and what its trials are recorded as."""
    messages_project(folder, server.url, **more)
    ended = watchkeeper(folder, "run", "basic", "-e", "agent", SOME_API_KEY=key)
    grouped = rows(
        folder,
        "select outcome, error_kind, stop_reason, cost_usd is null as is_unpriced, count(*) as n "
        "from trials group by all",
    )
    return ended, grouped


def test_a_wrong_key_is_recorded_and_shown_nowhere(tmp_path: Path) -> None:
    """The evaluation is broken (3), not the agent; the key is in no output and no file."""
    wrong = "wrong-key-of-no-known-shape-4711"
    with anthropic_server([api.message()], api_key=KEY) as server:
        ended, grouped = outcome_of(tmp_path, server, wrong)
        assert server.message_calls == []
    assert ended.exit_code == 3
    assert grouped == [
        {
            "outcome": "harness_error",
            "error_kind": "authentication",
            "stop_reason": "not_finished",
            "is_unpriced": False,
            "n": PLANNED,
        }
    ]
    assert wrong not in ended.out + ended.err
    for path, content in everything_written(tmp_path):
        assert wrong.encode() not in content, path
    for command in (("diff",), ("diff", "--json"), ("doctor",), ("endpoints", "--json")):
        said = watchkeeper(tmp_path, *command, SOME_API_KEY=wrong)
        assert wrong not in said.out + said.err


def test_a_key_that_the_server_repeats_is_shown_nowhere(tmp_path: Path) -> None:
    """Also where the model itself says it."""
    with anthropic_server(then=api.message(f"yes, your key is {KEY}"), api_key=KEY) as server:
        ended, grouped = outcome_of(tmp_path, server)
    assert ended.exit_code == 0
    assert [one["outcome"] for one in grouped] == ["passed"]
    (said,) = rows(tmp_path, "select distinct answer from transcripts")
    assert said == {"answer": "yes, your key is [secret SOME_API_KEY]"}
    for path, content in everything_written(tmp_path):
        assert KEY.encode() not in content, path


def test_an_unreachable_endpoint_is_recorded_trial_by_trial(tmp_path: Path) -> None:
    """The denominator exists before anything can fail: every planned trial has its record."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        messages_project(tmp_path, f"http://127.0.0.1:{closed.getsockname()[1]}")
        ended = watchkeeper(tmp_path, "run", "basic", "-e", "agent", SOME_API_KEY=KEY)
    assert ended.exit_code == 3
    (found,) = rows(
        tmp_path,
        "select harness_error, planned_count, graded, pass_rate, resolved_model from runs",
    )
    assert found == {
        "harness_error": PLANNED,
        "planned_count": PLANNED,
        "graded": 0,
        "pass_rate": None,
        "resolved_model": None,
    }
    shown = watchkeeper(tmp_path, "diff", "--json")
    assert shown.exit_code == 3
    assert shown.json()["exit_code"] == 3


SERVED: Mapping[str, tuple[Callable[[], Reply], int, str, str | None]] = {
    "HTML in place of JSON": (api.html_page, 3, "harness_error", "bad_response"),
    "JSON that is no message": (api.junk, 3, "harness_error", "bad_response"),
    "no usage": (lambda: api.without_usage("yes"), 0, "passed", None),
    "a refusal": (api.refusal, 0, "failed", None),
    "half an answer": (api.cut_off, 0, "failed", None),
    "a closed connection": (api.dropped, 3, "harness_error", "connection"),
    "an error of the server": (api.server_error, 3, "harness_error", "server_error"),
    "no room": (api.overloaded, 3, "harness_error", "overloaded"),
    "a gateway's page": (lambda: api.html_page(502), 3, "harness_error", "server_error"),
    "nothing at all": (Reply, 3, "harness_error", "bad_response"),
}


@pytest.mark.parametrize("name", SERVED)
def test_whatever_is_served_is_recorded_as_what_it_is(name: str, tmp_path: Path) -> None:
    """The infrastructure's faults are no verdict (3); what the agent did is judged."""
    reply, code, outcome, kind = SERVED[name]
    with anthropic_server(then=reply(), api_key=KEY) as server:
        ended, grouped = outcome_of(tmp_path, server)
    assert [(one["outcome"], one["error_kind"], one["n"]) for one in grouped] == [
        (outcome, kind, PLANNED)
    ]
    assert ended.exit_code == code, ended
    if name == "no usage":
        assert grouped[0]["is_unpriced"]


HOSTILE: Mapping[str, str] = {
    "Slack": "<!channel> <@U123> <https://evil.example|click>",
    "HTML": "<script>alert(1)</script>",
    "terminal": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "NUL": "nul \x00 in the middle",
    "lines": "line\u2028line\u2029line\x85line\x0bline\r\nfake: ok",
    "direction": "\u202etxt.exe\u202c \u2066isolate\u2069 \u200fmark",
    "quotes": "'\"; drop table trials; -- $x \\",
    "long": "x" * 200_000,
}
ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200f\ud800-\udfff]")


def hostile_behaviour(name: str, text: str) -> dict[str, Any]:
    """An agent that says the text wherever it can say anything, in the case of that name."""
    call = {"tool": f"find {text[:200]}", "args": {text[:200]: text}, "result": text}
    ending = {"text": text, "action": text[:80]}
    return {"match": {"cases": [name]}, "rounds": [{"calls": [call]}], "endings": [ending]}


def test_hostile_answers_are_kept_and_harmless(tmp_path: Path) -> None:
    """The run ends as any other; nothing that is shown acts on a terminal, and JSON stays JSON."""
    critical = {"tool": "edit_file", "severity": "critical"}
    expect = {"must_mention": "a word that is not there", "avoids": [critical]}
    write_project(
        tmp_path,
        suites={"basic": suite([case(name, expect=expect) for name in HOSTILE], trials=1)},
        endpoints={"agent": scripted_endpoint(script="config/scripts/hostile.json")},
    )
    behaviours = [hostile_behaviour(name, text) for name, text in HOSTILE.items()]
    # As JSON, which is YAML too: it can hold a NUL.
    (tmp_path / "config/scripts/hostile.json").write_text(
        json.dumps(script(*behaviours, tools=["edit_file"]))
    )
    run = watchkeeper(tmp_path, "run", "basic", "-e", "agent", "--json")
    assert run.exit_code == 0, run
    assert run.json()["counts"]["failed"] == len(HOSTILE)
    transcripts = "select case_id, answer, action, rounds from transcripts"
    calls = "select case_id, tool, status from tool_calls"
    shown = [
        run,
        watchkeeper(tmp_path, "diff"),
        watchkeeper(tmp_path, "diff", "--json"),
        watchkeeper(tmp_path, "sql", transcripts),
        watchkeeper(tmp_path, "sql", calls, "--format", "csv"),
        watchkeeper(tmp_path, "sql", "select * from grades", "--format", "csv"),
        watchkeeper(tmp_path, "sql", transcripts, "--format", "json"),
        watchkeeper(tmp_path, "sql", calls, "--format", "json"),
    ]
    for ended in shown:
        assert ended.exit_code == 0, ended
        assert ACTING.findall(ended.out + ended.err) == []
    said = {one["case_id"]: one["answer"] for one in json.loads(shown[6].out)}
    assert said == HOSTILE
    called = {one["case_id"]: one["tool"] for one in json.loads(shown[7].out)}
    assert called == {name: f"find {text[:200]}" for name, text in HOSTILE.items()}


def test_half_a_character_from_a_server_ends_nothing(tmp_path: Path) -> None:
    """JSON may escape it; UTF-8 cannot hold it."""
    body = api.message("HALF").body.replace(b"HALF", b"yes \\ud83d half, \\u0000 nul")
    reply = Reply(body=body, headers={"content-type": "application/vnd.test+json"})
    with anthropic_server(then=reply, api_key=KEY) as server:
        ended, grouped = outcome_of(tmp_path, server)
    assert ended.exit_code == 0, ended
    assert [(one["outcome"], one["n"]) for one in grouped] == [("passed", PLANNED)]
    (said,) = rows(tmp_path, "select distinct answer from transcripts")
    assert said == {"answer": "yes \ufffd half, \x00 nul"}


def test_the_project_is_found_by_option_variable_or_folder(starter: Path, tmp_path: Path) -> None:
    """The option goes before the variable, the variable before the folder."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    other = tmp_path / "other"
    other.mkdir()
    assert watchkeeper(other, "init").exit_code == 0
    (other / "config/owners.yaml").write_text("")
    deep = starter / "config" / "suites"
    assert watchkeeper(deep, "validate").exit_code == 0
    assert watchkeeper(elsewhere / "deep", "--project", str(starter), "validate").exit_code == 0
    assert watchkeeper(elsewhere, "validate", WATCHKEEPER_PROJECT=str(starter)).exit_code == 0
    assert watchkeeper(starter, "validate", WATCHKEEPER_PROJECT=str(other)).exit_code == 2
    ended = watchkeeper(
        other, "--project", str(starter), "validate", WATCHKEEPER_PROJECT=str(other)
    )
    assert ended.exit_code == 0
    ended = watchkeeper(starter, "--project", str(elsewhere), "validate")
    assert ended.exit_code == 2
    assert f"{elsewhere}: no project here, config/watchkeeper.yaml is missing" in ended.err


def test_the_store_is_overridden_by_its_variable(starter: Path, tmp_path: Path) -> None:
    """For every command, so that a try-out leaves the real history alone."""
    store = f"file:{tmp_path}/try-out"
    run = ("run", "discovery", "-e", "demo-agent", "-k", "1", "--case", "default-port")
    assert watchkeeper(starter, *run, WATCHKEEPER_STORE=store).exit_code == 0
    assert (tmp_path / "try-out/commits").is_dir()
    assert not (starter / "watchkeeper-data").exists()
    count = ("sql", "select count(*) as n from runs", "--format", "json")
    assert json.loads(watchkeeper(starter, *count, WATCHKEEPER_STORE=store).out) == [{"n": 1}]
    assert json.loads(watchkeeper(starter, *count).out) == [{"n": 0}]
    assert watchkeeper(starter, "diff", WATCHKEEPER_STORE=store).exit_code == 0
    assert watchkeeper(starter, "diff").exit_code == 2


@pytest.mark.parametrize("store", ["ftp://x/y", "s3://", "file:", "file://other-machine/x"])
def test_an_address_that_is_no_store_ends_with_2(store: str, starter: Path) -> None:
    """Before anything is called or written."""
    for command in (("doctor",), ("sql", "select 1"), ("run", "discovery", "-e", "demo-agent")):
        ended = watchkeeper(starter, *command, WATCHKEEPER_STORE=store)
        assert ended.exit_code == 2, ended


def test_init_never_overwrites(tmp_path: Path) -> None:
    """The second time is refused; files of a team that stand in the way are kept."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/owners.yaml").write_text("us: {}\n")
    (tmp_path / ".gitignore").write_text("mine\n")
    assert watchkeeper(tmp_path, "init").exit_code == 0
    assert (tmp_path / "config/owners.yaml").read_text() == "us: {}\n"
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    again = watchkeeper(tmp_path, "init")
    assert again.exit_code == 2
    assert "this folder is a project already" in again.err
    taken = tmp_path / "a-file"
    taken.write_text("")
    ended = watchkeeper(tmp_path, "init", str(taken))
    assert ended.exit_code == 2
    assert "cannot write the project" in ended.err


def test_the_demo_never_takes_a_foreign_folder(tmp_path: Path) -> None:
    """It makes its own anew each time, so it may only have its own."""
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "work.txt").write_text("mine")
    ended = watchkeeper(tmp_path, "demo", str(foreign))
    assert ended.exit_code == 2
    assert "exists and is not the demo's" in ended.err
    assert [path.name for path in foreign.iterdir()] == ["work.txt"]
    ended = watchkeeper(tmp_path, "demo", str(foreign / "work.txt"))
    assert ended.exit_code == 2
    assert (foreign / "work.txt").read_text() == "mine"


def test_the_starter_is_sound(starter: Path) -> None:
    """What a team sees first has no fault and no warning."""
    ended = watchkeeper(starter, "validate")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out == "ok: 1 endpoint, 1 suite, 12 cases, 2 owners\n"
    assert watchkeeper(starter, "doctor").exit_code == 0


def commands(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command of the command line, groups included."""
    yield above
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, (*above, name))


@pytest.mark.parametrize("words", list(commands(get_command(app))), ids=" ".join)
def test_every_command_has_help(words: tuple[str, ...], tmp_path: Path) -> None:
    """Without a project, and without importing what the command would need."""
    ended = watchkeeper(tmp_path, *words, "--help")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: {' '.join(('python -m watchkeeper', *words))}")


@pytest.mark.parametrize("words", [(), ("incidents",), ("baseline",)], ids=" ".join)
def test_a_command_that_is_missing_shows_help(words: tuple[str, ...], tmp_path: Path) -> None:
    """And ends with 2: nothing was done."""
    ended = watchkeeper(tmp_path, *words)
    assert ended.exit_code == 2
    assert "Usage: " in ended.out + ended.err


def test_json_is_one_document_on_standard_output(starter: Path) -> None:
    """Whatever is said besides goes to standard error."""
    run = ("run", "discovery", "-e", "demo-agent", "-k", "1")
    objects: tuple[tuple[str, ...], ...] = (
        run,
        ("diff",),
        ("plan", "discovery", "-e", "demo-agent"),
    )
    for arguments in objects:
        ended = watchkeeper(starter, *arguments, "--json")
        assert ended.exit_code == 0, ended
        assert ended.out.count("\n") == 1
        assert isinstance(ended.json(), dict)
    lists: tuple[tuple[str, ...], ...] = (("endpoints",), ("incidents", "list", "--all"))
    for arguments in lists:
        ended = watchkeeper(starter, *arguments, "--json")
        assert ended.exit_code == 0, ended
        assert ended.out.count("\n") == 1
        assert isinstance(json.loads(ended.out), list)


def test_an_error_leaves_standard_output_to_its_reader(starter: Path) -> None:
    """A script that parses standard output gets nothing, and the exit code tells why."""
    ended = watchkeeper(starter, "run", "absent", "-e", "demo-agent", "--json")
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err.startswith("error: there is no suite 'absent'")


def test_a_reader_that_leaves_early_is_no_error(starter: Path) -> None:
    """``watchkeeper sql … | head`` ends quietly."""
    program = subprocess.Popen(
        [sys.executable, "-m", WATCHKEEPER, "sql", "select range from range(100000)"],
        cwd=starter,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.readline()
    program.stdout.close()
    assert program.wait(60) == 0
    assert program.stderr.read() == b""
    program.stderr.close()


def test_typer_is_the_one_that_is_tested() -> None:
    """The list of commands above comes from the real command line."""
    assert isinstance(app, typer.Typer)
    assert len(list(commands(get_command(app)))) > 15
