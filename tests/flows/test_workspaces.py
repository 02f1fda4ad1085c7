"""Trials with files, setup and tools that work on them: each alone, and what changed is stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.flows.nights import evaluated
from tests.projects import Bench, bench, case, script, scripted_endpoint, suite, write_project

TOOLS = '''
from watchkeeper.place import current


def read_file(path: str) -> str:
    """Reads a file of the workspace."""
    return (current().workspace / path).read_text()


def append(path: str, text: str) -> str:
    """Appends to a file of the workspace."""
    with (current().workspace / path).open("a") as file:
        file.write(text)
    return "done"


TOOLS = [read_file, append]
'''
SETUP = """#!/bin/sh
set -e
test ! -e seeded
echo "$WATCHKEEPER_CASE_ID" > seeded
"""


def call(tool: str, **args: str) -> dict[str, Any]:
    """A call that waits for the trial's own tool."""
    return {"calls": [{"tool": tool, "args": args}]}


AGENT = {
    "rounds": [
        call("read_file", path="notes.txt"),
        call("append", path="notes.txt", text="seen\n"),
        call("read_file", path="notes.txt"),
        call("read_file", path="seeded"),
    ],
    "endings": [{"text": "yes"}],
}


def project(folder: Path, **more: Any) -> Path:
    """Two cases: one with files and setup, one with neither; five trials each."""
    tools_name = f"tools_of_{folder.name.replace('-', '_')}"
    (folder / f"{tools_name}.py").write_text(TOOLS)
    (folder / "repo").mkdir()
    (folder / "repo/notes.txt").write_text("one\n")
    (folder / "seed.sh").write_text(SETUP)
    (folder / "seed.sh").chmod(0o755)
    filed = case("filed", files="repo", setup=["./seed.sh"], **more)
    plain = {**AGENT, "rounds": [], "match": {"cases": ["plain"]}}
    return write_project(
        folder,
        suites={"basic": suite([filed, case("plain")], trials=5)},
        endpoints={"agent": scripted_endpoint(harness={"tools": f"{tools_name}:TOOLS"})},
        scripts={"agent": script(plain, AGENT)},
    )


def rows(made: Bench, statement: str) -> list[tuple[Any, ...]]:
    """What a question to the store's history brings."""
    connection = made.services.history().connect()
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_every_trial_begins_as_the_first_one_did(tmp_path: Path) -> None:
    """Five trials at the same time, each in its own copy; the case's files stay as they are."""
    made = bench(project(tmp_path), variables={"PATH": os.environ["PATH"]})
    verdict = evaluated(made)
    assert verdict.counts.passed == 10, made.told
    said = rows(
        made,
        "select distinct [call.result for call in flatten([one.tool_calls for one in rounds])] "
        "from transcripts where case_id = 'filed'",
    )
    assert said == [(["one\n", "done", "one\nseen\n", "filed\n"],)]
    assert (tmp_path / "repo/notes.txt").read_text() == "one\n"
    assert not (tmp_path / "repo/seeded").exists()


def test_what_changed_is_part_of_the_record(tmp_path: Path) -> None:
    """What setup made is where the trial begins; a case without a workspace has no changes."""
    made = bench(project(tmp_path), variables={"PATH": os.environ["PATH"]})
    evaluated(made)
    counts = rows(made, "select distinct case_id, changed_file_count from trials order by 1")
    assert counts == [("filed", 1), ("plain", None)]
    (changes,) = rows(made, "select distinct changes from transcripts where case_id = 'filed'")
    ((change,),) = changes
    assert (change["path"], change["change"], change["byte_count"]) == ("notes.txt", "changed", 9)
    assert "+seen" in change["diff"]


def test_a_setup_that_fails_for_one_case_breaks_that_case_only(tmp_path: Path) -> None:
    """Its trials never ran, so the agent has not failed; the reason is in the record."""
    folder = project(tmp_path)
    (folder / "seed.sh").write_text("#!/bin/sh\necho cannot reach the database >&2\nexit 3\n")
    made = bench(folder, variables={"PATH": os.environ["PATH"]})
    verdict = evaluated(made)
    assert (verdict.counts.passed, verdict.counts.harness_error) == (5, 5)
    assert verdict.exit_code == 3
    found = rows(
        made, "select distinct error_kind, error, attempt, cost_usd from trials where cost_usd = 0"
    )
    ((kind, error, attempt, _),) = [row for row in found if row[0]]
    assert (kind, attempt) == ("setup_failed", 2)
    assert "case 'filed'" in error
    assert "cannot reach the database" in error


def test_reset_runs_after_every_trial(tmp_path: Path) -> None:
    """Whatever became of it; what it could not do is told and changes no outcome."""
    seen = tmp_path / "seen"
    reset = [["sh", "-c", f"echo $WATCHKEEPER_TRIAL_ID >> {seen}; echo gone >&2; exit 1"]]
    made = bench(project(tmp_path, reset=reset), variables={"PATH": os.environ["PATH"]})
    verdict = evaluated(made)
    assert verdict.counts.passed == 10
    trials = rows(made, "select trial_id from trials where case_id = 'filed'")
    assert sorted(seen.read_text().split()) == sorted(one for (one,) in trials)
    assert any("reset" in line and "gone" in line for line in made.told)
