"""A question reads what it mentions and nothing else of the store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.projects import bench, write_project
from watchkeeper.domain.run import RunRequest
from watchkeeper.errors import RecordUnreadable, UsageError
from watchkeeper.pipeline.evaluate import evaluate
from watchkeeper.store.history import History
from watchkeeper.store.mentions import made_name, needed_names
from watchkeeper.store.objects import open_objects
from watchkeeper.store.questions import ask
from watchkeeper.store.records import RunRecords
from watchkeeper.store.statements import statements

TABLES = {made_name(one) for one in statements("schema").values()}
VIEWS = {made_name(one) for one in statements("views").values()}
OF_TRIALS = {"trials", "attempts", "trial_attempts", "grade_records", "run_records"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one run of twelve trials."""
    folder = write_project(tmp_path_factory.mktemp("mentions"))
    request = RunRequest("run-1", "agent", "basic", "on_demand", "test", 1)
    asyncio.run(evaluate(request, bench(folder).steps()))
    return folder


def history(folder: Path) -> History:
    """The history of a project's store."""
    objects = open_objects("file:./store", root=folder)
    return History(RunRecords(objects), folder / "cache")


@pytest.mark.parametrize(
    ("statement", "needed"),
    [
        ("select 1", set()),
        ("select * from run_records", {"run_records"}),
        ("select count(*) from trials", OF_TRIALS),
        ("SELECT count(*) FROM Trials", OF_TRIALS),
        ('select * from "trials"', OF_TRIALS),
        ("with x as (select * from trials) select * from x", OF_TRIALS),
        ("select (select count(*) from verdicts)", {"verdicts", "verdict_records"}),
        ("select 'trials'", OF_TRIALS),
        ("-- trials\nselect 1", OF_TRIALS),
        ("select * from mytrials", set()),
        ("select * from runs", {"runs", *OF_TRIALS}),
        (
            "select * from tool_calls",
            {"tool_calls", "rounds", *OF_TRIALS} - {"trials", "run_records"},
        ),
    ],
)
def test_what_is_mentioned_is_needed_with_all_below_it(statement: str, needed: set[str]) -> None:
    """Rather a name too many than one too few."""
    assert needed_names([statement]) == needed


@pytest.mark.parametrize(
    "statement",
    [
        "show tables",
        "SHOW ALL TABLES",
        "select * from information_schema.tables",
        "select view_name from duckdb_views()",
        "select * from pg_catalog.pg_tables",
        "select * from query_table('tri' || 'als')",
        "select * from query('select 1')",
        "describe trials",
    ],
)
def test_a_question_about_the_tables_needs_them_all(statement: str) -> None:
    """Also one that puts a name together."""
    assert needed_names([statement]) == TABLES | VIEWS


def test_statements_that_are_asked_together_need_what_each_needs() -> None:
    """The checks of a run share a connection."""
    both = needed_names(["select * from trials", "select * from verdicts"])
    assert both == OF_TRIALS | {"verdicts", "verdict_records"}


@pytest.mark.parametrize("name", sorted(TABLES | VIEWS))
def test_everything_can_be_asked_alone(name: str, store: Path) -> None:
    """What a view reads is made with it."""
    assert ask(history(store), f"select count(*) from {name}", {}).columns == ("count_star()",)


@pytest.mark.parametrize("folder", ["queries", "checks"])
def test_every_statement_of_ours_finds_what_it_reads(folder: str, store: Path) -> None:
    """Each on a connection that was made for it alone."""
    for statement in statements(folder).values():
        connection = history(store).connect(asked=[statement])
        (found,) = connection.extract_statements(statement)
        given = {name: 1 if name.endswith("_count") else "" for name in found.named_parameters}
        given.update({name: [""] for name in given if name.endswith("s")})  # type: ignore[misc]
        given.update({name: "2026-01-01" for name in given if name == "since"})
        connection.execute(statement, given)
        connection.close()


def test_a_table_that_is_made_up_is_told_with_all_that_exist(store: Path) -> None:
    """The advice does not depend on what the statement mentioned."""
    with pytest.raises(UsageError, match=r'Did you mean "trials"\?') as caught:
        ask(history(store), "select * from trial", {})
    for view in VIEWS:
        assert view in str(caught.value)


def test_a_damaged_file_hurts_only_those_who_ask_for_it(tmp_path: Path, store: Path) -> None:
    """Transcripts are the largest files; counting trials does not even look at them."""
    objects = store / "store"
    copy = tmp_path / "store"
    for path in objects.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(objects)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (transcripts,) = (copy / "transcripts").rglob("*.parquet")
    transcripts.write_bytes(b"damaged")
    assert ask(history(tmp_path), "select count(*) from trials", {}).rows == ((12,),)
    with pytest.raises(RecordUnreadable, match="is damaged"):
        ask(history(tmp_path), "select count(*) from transcripts", {})


@pytest.mark.parametrize("folder", ["schema", "views"])
def test_a_file_makes_one_thing(folder: str) -> None:
    """Its name is found in every one, and no two are the same."""
    files = statements(folder)
    assert len({made_name(one) for one in files.values()}) == len(files)
