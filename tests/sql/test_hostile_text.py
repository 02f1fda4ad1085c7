"""Text that an agent or a tool may say to harm: it is kept, and acts nowhere."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.flows.nights import evaluated
from tests.projects import Bench, bench, case, script, scripted_endpoint, suite, write_project
from watchkeeper.pipeline.steps import committing
from watchkeeper.pipeline.steps.work import Workshop

HOSTILE = {
    "mention": "<!channel> <@U123> yes",
    "script": "<script>alert('x')</script> yes",
    "c1": "\x9b31mred\x7f yes",
    "ansi": "\x1b[31mred\x1b[0m \x1b]0;title\x07 yes",
    "nul": "before\x00after yes",
    "bidi": "abc\u202edcba yes",
    "newline": "one\r\ntwo\nthree yes",
    "formula": "=cmd|' /C calc'!A0 yes",
    "sql": "'; drop table trials; -- yes",
    "long": "x" * 5000 + " yes",
    "zero-width": "a\u200bb yes",
    "emoji": "👩‍👩‍👧 yes",
}
# What cannot be stored as UTF-8 is stored as the sign for a broken character. YAML cannot hold it
# either, so it comes from a tool of the team's own.
KEPT = {**HOSTILE, "surrogate": "half \ufffd yes"}
TOOLS = """
def half() -> str:
    return "half \\ud83d yes"

TOOLS = [half]
"""
NEVER_SHOWN = ["\x1b", "\x9b", "\x7f", "\x00", "\x07", "\u202e", "\u200b"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A run in which the agent and its tool say all of it."""
    behaviours = [
        {
            "match": {"cases": [name]},
            "rounds": [{"calls": [{"tool": "look", "args": {"path": text}, "result": text}]}],
            "endings": [{"text": text}],
        }
        for name, text in HOSTILE.items()
    ]
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile_half.py").write_text(TOOLS)
    write_project(
        folder,
        endpoints={"agent": scripted_endpoint(harness={"tools": "hostile_half:TOOLS"})},
        suites={"basic": suite([case(name) for name in KEPT], trials=1)},
        scripts={
            "agent": script(
                *behaviours,
                {
                    "rounds": [{"calls": [{"tool": "half"}]}],
                    "endings": [{"text": KEPT["surrogate"]}],
                },
            )
        },
    )
    made = bench(folder)
    assert evaluated(made).counts.passed == len(KEPT)
    return made


def asked(made: Bench, statement: str, output: str) -> str:
    """What the command line prints, byte for byte."""
    folder = str(made.services.project.root)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "watchkeeper", "--project", folder),
            *("sql", statement, "--format", output),
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode("utf-8")


def test_it_survives_storing(made: Bench) -> None:
    """Answers, arguments and results come back as they were said, half characters apart."""
    connection = made.services.history().connect()
    rows = connection.execute(
        "select case_id, answer, rounds[1].tool_calls[1].arguments, rounds[1].tool_calls[1].result"
        " from transcripts"
    ).fetchall()
    connection.close()
    assert {row[0]: row[1] for row in rows} == KEPT
    assert {row[0]: json.loads(row[2]).get("path") for row in rows} == {
        **HOSTILE,
        "surrogate": None,
    }
    assert {row[0]: row[3] for row in rows} == KEPT


ASKED = "select case_id, answer from transcripts order by case_id"


def test_a_table_shows_it_escaped(made: Bench) -> None:
    """One line a row whatever a cell holds, no control character, long texts cut and said so."""
    printed = asked(made, ASKED, "table")
    for text in NEVER_SHOWN:
        assert text not in printed
    lines = printed.splitlines()
    assert len(lines) == len(KEPT) + 3
    assert all(line.isprintable() or "\u200d" in line for line in lines)
    assert "\\x1b[31mred" in printed
    assert "\\x00after" in printed
    assert "\\u202e" in printed
    assert "characters)" in printed
    assert "<!channel>" in printed


def test_csv_holds_it_in_its_fields(made: Bench) -> None:
    """Every row parses back to its fields; nothing in them acts on a terminal."""
    printed = asked(made, ASKED, "csv")
    for text in NEVER_SHOWN:
        assert text not in printed
    rows = dict(csv.reader(io.StringIO(printed)))
    assert rows.keys() == {*KEPT, "case_id"}
    assert rows["sql"] == HOSTILE["sql"]
    assert rows["long"] == HOSTILE["long"]
    assert rows["newline"] == "one\ntwo\nthree yes"


def test_json_holds_it_whole(made: Bench) -> None:
    """JSON gives every text back exactly as it is stored, and is plain to any terminal."""
    printed = asked(made, ASKED, "json")
    assert {row["case_id"]: row["answer"] for row in json.loads(printed)} == KEPT
    for text in NEVER_SHOWN:
        assert text not in printed


def test_a_name_of_a_column(made: Bench) -> None:
    """A column may be named by the asker; its name is made harmless like a value."""
    for output in ("table", "csv"):
        assert "\x1b" not in asked(made, 'select 1 as "\x1b[31m"', output)


def test_the_catalog_reads_it_too(made: Bench) -> None:
    """A plain client finds the same texts."""
    path = committing.refresh_catalog(Workshop(made.services))
    assert isinstance(path, Path)
    with duckdb.connect(str(path), read_only=True) as plain:
        rows = plain.execute("select case_id, answer from transcripts").fetchall()
    assert dict(rows) == KEPT
