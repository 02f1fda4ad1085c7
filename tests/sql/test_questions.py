"""Whatever people ask of history: reading only, within bounds, and helped when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.projects import Bench
from watchkeeper.errors import UsageError
from watchkeeper.store.history import History
from watchkeeper.store.questions import Answer, ask, shown, storable


@pytest.fixture
def history(stored: Bench) -> History:
    """The history of the stored nights."""
    return stored.services.history()


def refused(history: History, statement: str) -> str:
    """Why a statement was refused."""
    with pytest.raises(UsageError) as caught:
        ask(history, statement, {})
    assert caught.value.exit_code == 2
    return str(caught.value)


def command(made: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    """``watchkeeper sql`` in a process of its own."""
    folder = str(made.services.project.root)
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "watchkeeper", "--project", folder, "sql", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class TestReading:
    """What is answered."""

    @pytest.mark.parametrize(
        ("statement", "rows"),
        [
            ("select count(*) from trials", ((24,),)),
            ("from runs select count(*)", ((2,),)),
            ("FROM TRIALS SELECT count(*) where outcome = 'failed'", ((6,),)),
            (
                "with wrong as (from trials where outcome = 'failed') select count(*) from wrong",
                ((6,),),
            ),
            ("select count(*) from query('from tri' || 'als')", ((24,),)),
            ("select tool, count(*) from tool_calls group by all", (("find_files", 36),)),
            ("-- a question\nselect 1;\n", ((1,),)),
            ("values (1), (2)", ((1,), (2,))),
        ],
    )
    def test_selects(self, history: History, statement: str, rows: tuple[object, ...]) -> None:
        """Anything that only reads, over any view, in DuckDB's own dialect."""
        assert ask(history, statement, {}).rows == rows

    def test_parameters(self, history: History) -> None:
        """Values enter as named parameters and never as part of the statement."""
        hostile = "'; drop view trials; --"
        asked = "select count(*) from trials where case_id = $case"
        assert ask(history, asked, {"case": "case-0"}).rows == ((6,),)
        assert ask(history, asked, {"case": hostile}).rows == ((0,),)
        assert "case" in refused(history, asked)

    def test_columns(self, history: History) -> None:
        """The names of the columns come with the rows."""
        found = ask(history, "select case_id as name, 1 as one from trials limit 1", {})
        assert found.columns == ("name", "one")
        assert found.is_cut is False

    def test_more_rows_than_are_shown(self, history: History) -> None:
        """At most as many rows as asked for, and whether there were more."""
        assert ask(history, "from range(10)", {}, max_rows=10).is_cut is False
        found = ask(history, "from range(11)", {}, max_rows=10)
        assert (len(found.rows), found.is_cut) == (10, True)


class TestRefused:
    """What is not."""

    @pytest.mark.parametrize(
        "statement",
        [
            "delete from trial_attempts",
            "update run_records set seed = 1",
            "insert into run_records select * from run_records",
            "drop view trials",
            "create table mine as select 1",
            "create macro f(x) as x",
            "copy trials to 'out.csv'",
            "copy run_records from 'in.csv'",
            "export database 'out'",
            "import database 'in'",
            "attach 'other.db'",
            "detach memory",
            "pragma threads = 8",
            "pragma enable_profiling",
            "set memory_limit = '100GB'",
            "set enable_external_access = true",
            "reset memory_limit",
            "install httpfs",
            "load httpfs",
            "call pragma_version()",
            "begin",
            "checkpoint",
            "vacuum",
            "prepare x as select 1",
            "explain analyze select 1",
        ],
    )
    def test_what_does_more_than_read(
        self, history: History, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is written, loaded, attached or set, here or anywhere."""
        monkeypatch.chdir(tmp_path)
        message = refused(history, statement)
        assert "only statements that read" in message or "cannot be read" in message
        assert list(tmp_path.iterdir()) == []
        assert ask(history, "select count(*) from trials", {}).rows == ((24,),)

    @pytest.mark.parametrize(
        "source",
        [
            "read_csv('/etc/passwd')",
            "read_text('/etc/passwd')",
            "read_blob('/proc/self/environ')",
            "read_json('/etc/passwd')",
            "read_parquet('/etc/passwd')",
            "parquet_metadata('/etc/passwd')",
            "sniff_csv('/etc/passwd')",
            "glob('/etc/*')",
            "'/etc/passwd'",
            "'/etc/passwd.csv'",
            "read_csv('http://127.0.0.1:9/x')",
            "read_csv('s3://bucket/key')",
            "query('select * from read_text(''/etc/passwd'')')",
        ],
    )
    def test_files_and_network(self, history: History, source: str) -> None:
        """No file beside the store's, and no address, can be read by a query."""
        assert "root:" not in refused(history, f"select * from {source}")

    def test_the_projects_own_files(self, history: History, stored: Bench) -> None:
        """Configuration beside the store, and what points out of it, stay out of reach."""
        root = stored.services.project.root
        for path in (root / "config/owners.yaml", root / "store/../config/owners.yaml"):
            assert "no files" in refused(history, f"select * from read_text('{path}')")

    def test_what_python_holds(self, history: History) -> None:
        """A name of this program is no table: DuckDB would look for frames in its callers."""
        for name in ("history", "statement", "parameters", "connection", "self"):
            assert "does not exist" in refused(history, f"select * from {name}")

    @pytest.mark.parametrize("statement", ["select 1; select 2", "select 1; drop view trials", ""])
    def test_not_one_statement(self, history: History, statement: str) -> None:
        """DuckDB would run two and return the last; none is not one either."""
        assert "expected one statement" in refused(history, statement)

    def test_settings_are_locked(self, history: History) -> None:
        """A query cannot undo what keeps it in."""
        asked = "select value from duckdb_settings() where name = $name"
        for name, value in (("enable_external_access", "false"), ("lock_configuration", "true")):
            assert ask(history, asked, {"name": name}).rows == ((value,),)


class TestHelp:
    """What a refused question is answered with."""

    def test_a_missing_column(self, history: History) -> None:
        """The column that was probably meant is named."""
        assert "round_count" in refused(history, "select roundcount from trials")
        assert "cost_usd" in refused(history, "select max(trials.cost) from trials")

    def test_a_missing_view(self, history: History) -> None:
        """The view that was probably meant is named, and all that there are."""
        message = refused(history, "select * from trails")
        assert 'Did you mean "trials"' in message
        for view in ("runs", "tool_calls", "incidents"):
            assert view in message

    def test_no_sql_at_all(self, history: History) -> None:
        """What cannot be parsed is told with DuckDB's words, on one line."""
        message = refused(history, "selekt 1")
        assert "cannot be read" in message
        assert "\n" not in message

    def test_time_is_bounded(self, history: History) -> None:
        """A query without an end is ended, and the message says after how long."""
        started = time.monotonic()
        with pytest.raises(UsageError, match=r"ended after 0\.5 s"):
            ask(
                history,
                "select count(*) from range(10000000000) t1, range(1000) t2",
                {},
                timeout_s=0.5,
            )
        assert time.monotonic() - started < 20
        assert ask(history, "select 1", {}).rows == ((1,),)


class TestShown:
    """Values on their way out."""

    def test_for_people(self) -> None:
        """Nothing known is empty, times are short, numbers have the digits that matter."""
        at = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
        assert [shown(one) for one in (None, True, 0.1 + 0.2, at, 3, "x", Decimal("1.50"))] == [
            "",
            "true",
            "0.3",
            "2026-03-02 02:30:00+00:00",
            "3",
            "x",
            "1.50",
        ]

    def test_for_json(self) -> None:
        """Every value becomes strict JSON, at any depth; what is no number is null."""
        value = {
            "at": datetime(2026, 3, 2, tzinfo=UTC),
            "day": date(2026, 3, 2),
            "list": [Decimal("1.5"), float("nan"), None, True, {"deep": (1, 2)}],
            "raw": b"\x00",
        }
        text = json.dumps(storable(value), allow_nan=False)
        assert json.loads(text) == {
            "at": "2026-03-02T00:00:00+00:00",
            "day": "2026-03-02",
            "list": [1.5, None, None, True, {"deep": [1, 2]}],
            "raw": "b'\\x00'",
        }

    @pytest.mark.parametrize("value", [float("inf"), float("-inf"), Decimal("NaN")])
    def test_infinite_is_no_json(self, value: object) -> None:
        """JSON has no word for an infinite number; it is null like anything unknown."""
        assert storable(value) is None


class TestCommand:
    """``watchkeeper sql``."""

    def test_named_queries_are_listed(self, stored: Bench) -> None:
        """Without a question the named ones are shown with what their rows are."""
        done = command(stored)
        assert done.returncode == 0
        assert "recent_runs: One row per run" in done.stdout

    def test_a_named_query(self, stored: Bench) -> None:
        """By name, with parameters, numbers and lists as texts."""
        done = command(
            stored,
            *("--name", "recent_runs", "--format", "json"),
            *("-p", "endpoint=agent", "-p", "suite=basic", "-p", "run_count=1"),
        )
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)
        assert row["pass_rate"] == 0.75

    def test_every_named_query_can_be_asked(self, stored: Bench) -> None:
        """Each query of sql/queries answers on the command line, lists of runs included."""
        run_id = stored.services.history().commits[0].run_id
        values = {
            "run_id": run_id,
            "run_ids": f"[{run_id}]",
            "endpoint": "agent",
            "suite": "basic",
            "run_count": "5",
            "month": "2026-03",
            "since": "2026-01-01",
        }
        listed = command(stored).stdout.splitlines()[1:]
        for line in listed:
            name, _, rest = line.strip().partition(": ")
            wanted = [one.strip(" $") for one in rest.rpartition("Params: ")[2].split(",")]
            given = [f"-p{one}={values[one]}" for one in wanted if one != "none"]
            done = command(stored, "--name", name, "--format", "json", *given)
            assert done.returncode == 0, (name, done.stderr)
            assert json.loads(done.stdout), name

    def test_a_table(self, stored: Bench) -> None:
        """Columns, a line, rows, and how many."""
        asked = "select case_id, count(*) as n from trials group by all order by all limit 2"
        assert command(stored, asked).stdout == (
            "case_id  n\n-------  -\ncase-0   6\ncase-1   6\n(2 rows)\n"
        )

    def test_csv(self, stored: Bench) -> None:
        """A comma and a quote stay in their field."""
        done = command(stored, "select 'a,\"b\"' as one, null as two", "--format", "csv")
        assert done.stdout == 'one,two\n"a,""b""",\n'

    def test_a_refusal(self, stored: Bench) -> None:
        """Exit 2, the reason on standard error, nothing on standard output."""
        done = command(stored, "drop view trials")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: only statements that read are run")


def test_an_answer_is_a_value() -> None:
    """Two equal answers are equal, so that tests can compare them."""
    assert Answer(("a",), ((1,),), False) == Answer(("a",), ((1,),), False)
