"""``watchkeeper barren`` as people and scripts meet it, and what a run says of unknown cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import WATCHKEEPER, Ended, finished
from tests.projects import case, script, suite, write_project
from tests.unit.importers.samples import OPENAI, asks, call, result, small_files, write
from watchkeeper.cli.barren_table import MAX_ROWS, report
from watchkeeper.domain.tallies import RoundTally, ToolTally


def watchkeeper(folder: Path, *arguments: str) -> Ended:
    """The command line in a folder; nobody ever sees a traceback."""
    ended = finished(WATCHKEEPER, *arguments, folder=folder, variables={})
    assert "Traceback" not in ended.err, ended.err
    return ended


def test_files_of_all_formats_in_one_table(tmp_path: Path) -> None:
    """A folder is searched; totals, tools with their denominators, and a line for each file."""
    files = small_files(tmp_path)
    count = sum(map(len, files.values()))
    ended = watchkeeper(tmp_path, "barren", ".")
    assert (ended.exit_code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == (
        f"{count} of {2 * count} rounds with tool calls are barren (50%); "
        f"{3 * count} rounds in {count} trials"
    )
    assert lines[2].split("  ")[0] == "tool"
    assert lines[3].split() == f"read {count} - - {count} - {count} of {count} 100% {count}".split()
    assert lines[4].split() == f"look {count} - - - - 0 of {count} 0% -".split()
    assert len(lines) == 5 + 2 + count
    line = next(one for one in lines if one.startswith("one.traj"))
    assert line.split() == ["one.traj", "swe_agent", "1", "3", "1", "of", "2", "50%"]


def test_json_has_everything(tmp_path: Path) -> None:
    """One object, of ASCII alone."""
    write(tmp_path / "a.json", [*OPENAI, asks(call("c9", "\x1b[31mred")), result("c9", "")])
    ended = watchkeeper(tmp_path, "barren", "a.json", "--json")
    assert ended.out.isascii()
    found = ended.json()
    counts = {
        "trial_count": 1,
        "round_count": 4,
        "calling_round_count": 3,
        "barren_round_count": 2,
        "barren_of_calling_share": 2 / 3,
    }
    assert found["parts"] == [{"file": "a.json", "format": "messages", **counts}]
    assert {key: found[key] for key in counts} == counts
    assert [one["tool"] for one in found["tools"]] == ["\x1b[31mred", "read", "look"]
    assert found["tools"][1] == {
        "tool": "read",
        "call_count": 1,
        "silent_count": 0,
        "empty_count": 0,
        "error_count": 0,
        "missing_path_count": 1,
        "unanswered_count": 0,
        "barren_round_count": 1,
        "fruitless_count": 1,
        "fruitless_share": 1.0,
    }
    assert found["errors"] == []
    shown = watchkeeper(tmp_path, "barren", "a.json").out
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown


def test_a_tool_may_be_declared_silent(tmp_path: Path) -> None:
    """Then it never counts, and the round with it alone is not barren."""
    write(tmp_path / "a.json", OPENAI)
    found = watchkeeper(tmp_path, "barren", "a.json", "--silent", "read", "--json").json()
    assert (found["barren_round_count"], found["calling_round_count"]) == (0, 1)
    shown = watchkeeper(tmp_path, "barren", "a.json", "--silent", "read").out
    assert shown.splitlines()[4].split() == ["read", "1", "silent"]


def test_a_bad_file_among_good_ones(tmp_path: Path) -> None:
    """The good ones are shown, the bad one is told with its place, and the exit code says so."""
    write(tmp_path / "a.json", OPENAI)
    write(tmp_path / "b.json", [{"messages": [*OPENAI, {"role": "robot", "content": ""}]}])
    ended = watchkeeper(tmp_path, "barren", "a.json", "b.json", "c.json")
    assert ended.exit_code == 2
    assert ended.out.startswith("1 of 2 rounds with tool calls are barren (50%); 3 rounds in 1 tr")
    told = ended.err.splitlines()
    assert told[0].startswith("error: b.json: [0].messages[6].role: found the text 'robot'; expec")
    assert told[1:] == ["error: c.json: cannot be read: No such file or directory"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name files or folders with transcripts, or --since 30d"),
        (["a.json", "--since", "3d"], "name files or folders with transcripts, or --since 30d"),
        (["a.json", "--format", "swe"], "there is no format 'swe'; "),
        (["--since", "3d", "--silent", "x"], "--format and --silent are for files"),
        (["--since", "soon"], "--since soon: expected 30d, 12h, 4w, or 2026-03-01"),
        (["--since", "3d"], "no project here or above"),
        (["notes.txt"], "notes.txt:1:1: no JSON: Expecting value; formats: inspect ("),
        (["a.json", "--format", "tau_bench"], "a.json: [0]: key 'task_id' is missing"),
        (["empty"], "empty: no file in it ends in .json, .jsonl"),
    ],
)
def test_what_cannot_be_asked(arguments: list[str], says: str, tmp_path: Path) -> None:
    """Exit code 2 and one line that says what to do."""
    write(tmp_path / "a.json", OPENAI)
    (tmp_path / "notes.txt").write_text("# Notes\n")
    (tmp_path / "empty").mkdir()
    ended = watchkeeper(tmp_path, "barren", *arguments)
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {says}"), ended.err
    assert ended.err.count("\n") == 1


def guessing(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """An agent that makes these calls in one round and answers."""
    return script({"rounds": [{"calls": calls}], "endings": [{"text": "yes"}]})


def test_history_and_a_cost_that_nobody_knows(tmp_path: Path) -> None:
    """The store's rounds by endpoint; and a run without prices says it once, in text and JSON."""
    calls = [{"tool": "find", "result": "[]"}, {"tool": "read", "result": "no such file"}]
    write_project(
        tmp_path,
        suites={"basic": suite([case("one")], trials=2)},
        scripts={"agent": guessing(calls)},
    )
    ran = watchkeeper(tmp_path, "run", "basic", "-e", "agent")
    said = "cost unknown in 2 of 2 trials (model-v1): no price in config/prices.yaml"
    assert " ".join(ran.out.split()).count(said) == 1
    again = watchkeeper(tmp_path, "run", "basic", "-e", "agent", "--json").json()
    assert sum(said in note for note in again["notes"]) == 1
    found = watchkeeper(tmp_path, "barren", "--since", "1h", "--json").json()
    assert found["parts"] == [
        {
            "endpoint": "agent",
            "suite": "basic",
            "served_model": "model-v1",
            "trial_count": 4,
            "round_count": 8,
            "calling_round_count": 4,
            "barren_round_count": 4,
            "barren_of_calling_share": 1.0,
        }
    ]
    statuses = [
        (one["tool"], one["empty_count"], one["missing_path_count"]) for one in found["tools"]
    ]
    assert statuses == [("find", 4, 0), ("read", 0, 4)]
    ended = watchkeeper(tmp_path, "barren", "--since", "2100-01-01")
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err == "error: no trial in the store since 2100-01-01 00:00 UTC\n"


def test_a_priced_run_says_nothing_of_unknown_cost(tmp_path: Path) -> None:
    """What is known needs no note."""
    price = {"valid_from": "2026-01-01", "input": 1, "output": 1}
    write_project(
        tmp_path,
        suites={"basic": suite([case("one")], trials=1)},
        prices={"source": "a test", "models": {"model-v1": [price]}},
    )
    ran = watchkeeper(tmp_path, "run", "basic", "-e", "agent")
    assert "cost unknown" not in ran.out


def test_long_tables_are_cut_and_say_so() -> None:
    """A shell has many tools; --json has them all."""
    tools = [ToolTally(f"tool-{number}", 2, error_count=1) for number in range(MAX_ROWS + 3)]
    parts: list[tuple[dict[str, object], RoundTally]] = [
        ({"file": "x" * 100}, RoundTally(1, 2, 0, 0))
    ]
    lines = report(tools, parts)
    assert "and 3 more tools; --json has all" in lines
    assert lines[0] == "no tool was called; 2 rounds in 1 trial"
    assert lines[-1].startswith(f"…{'x' * 59} ")
    assert max(map(len, lines)) < 130
