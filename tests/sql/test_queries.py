"""Every query and every check over a few given rows; a test is named after its file."""

from __future__ import annotations

import sys

import duckdb
import pytest

from tests.sql.rows import (
    answered,
    attempt,
    call,
    database,
    grade,
    one_round,
    planned,
    run,
    tripped,
)
from watchkeeper.store.statements import Folder, statements


@pytest.mark.parametrize("folder", ["queries", "checks"])
def test_every_file_is_tested(folder: Folder) -> None:
    """A query or check without a test of its name fails here."""
    module = sys.modules[__name__]
    untested = [name for name in statements(folder) if not hasattr(module, f"test_{name}")]
    assert untested == []


def _barren_history() -> duckdb.DuckDBPyConnection:
    """A trial with two barren rounds of four, a newer model, one before, one that never ran."""
    silent = call("note", "empty", is_silent=True)
    return database(
        run_records=[run()],
        trial_attempts=[
            attempt(
                "t1",
                rounds=[
                    one_round(0, call("find", "empty"), call("read", "missing_path")),
                    one_round(1, call("find", "empty"), call("find", "error"), silent),
                    one_round(2, call("find"), call("read", "unanswered")),
                    one_round(3, silent),
                    one_round(4),
                ],
            ),
            attempt("t2", 1, status="harness_error", rounds=[one_round(0, call("find", "error"))]),
            attempt("t2", 2, served_model="model-v2", rounds=[one_round(0, call("find"))]),
            attempt("t3", started_at="2026-03-01T23:59:59Z", rounds=[one_round(0, call("old"))]),
            attempt("t4", status="skipped", served_model=None, rounds=[]),
            attempt("t5", served_model="model-v2", rounds=[]),
        ],
    )


def test_barren_rounds() -> None:
    """Of the attempts that count and completed; rounds with silent calls alone could not be."""
    rows = answered(_barren_history(), "barren_rounds", since="2026-03-02T00:00:00+00:00")
    assert [tuple(row.values()) for row in rows] == [
        ("agent", "basic", "model-v1", 1, 5, 3, 2),
        ("agent", "basic", "model-v2", 2, 1, 1, 0),
    ]
    assert answered(_barren_history(), "barren_rounds", since="2026-04-01T00:00:00+00:00") == []


def test_barren_tools() -> None:
    """Calls by what they brought; a barren round counts once for each tool in it."""
    rows = answered(_barren_history(), "barren_tools", since="2026-03-02T00:00:00+00:00")
    assert list(rows[0]) == [
        "tool",
        "call_count",
        "silent_count",
        "empty_count",
        "error_count",
        "missing_path_count",
        "unanswered_count",
        "barren_round_count",
    ]
    assert [tuple(row.values()) for row in rows] == [
        ("find", 5, 0, 2, 1, 0, 0, 2),
        ("note", 2, 2, 0, 0, 0, 0, 0),
        ("read", 2, 0, 0, 0, 1, 1, 1),
    ]


def test_failed_assertions() -> None:
    """What did not pass in the attempt that counts, of one run."""
    connection = database(
        trial_attempts=[
            attempt("t1", 1),
            attempt("t1", 2),
            attempt("t2"),
            attempt("t3", run_id="x"),
        ],
        grade_records=[
            grade("t1", 1, outcome="failed", reason="of an attempt that does not count"),
            grade("t1", 2, assertion="b", outcome="error", reason="no quote"),
            grade("t1", 2, assertion="a", outcome="failed", severity="critical", reason="called"),
            grade("t1", 2, assertion="c"),
            grade("t2", outcome="failed", grading="rescored"),
            grade("t3", run_id="x", outcome="failed"),
        ],
    )
    rows = answered(connection, "failed_assertions", run_id="r1")
    assert [tuple(row.values()) for row in rows] == [
        ("t1", "case-1", "facts", "a", "critical", "failed", "called"),
        ("t1", "case-1", "facts", "b", "normal", "error", "no quote"),
    ]


def test_recent_runs() -> None:
    """The newest complete runs of a pair; confirmations and runs with a gap are no forecast."""
    runs = [
        run("old", planned_at="2026-03-01T00:00:00Z", planned_count=1),
        run("new", planned_at="2026-03-03T00:00:00Z", planned_count=1),
        run("middle", planned_at="2026-03-02T00:00:00Z", planned_count=1),
        run("gap", planned_count=2),
        run("confirm", purpose="confirm", planned_count=1),
        run("other", suite="other", planned_count=1),
    ]
    connection = database(
        run_records=runs,
        trial_attempts=[
            *[attempt(one["run_id"], run_id=one["run_id"]) for one in runs],
            attempt("new", 2, run_id="new", cost_usd=0.25, latency_ms=300.0),
        ],
        grade_records=[
            *[grade(one["run_id"], run_id=one["run_id"]) for one in runs],
            grade("new", 2, run_id="new", outcome="failed"),
        ],
    )
    rows = answered(connection, "recent_runs", endpoint="agent", suite="basic", run_count=2)
    shown = [
        (row["run_id"], row["pass_rate"], row["cost_usd"], row["attempt_count"]) for row in rows
    ]
    assert shown == [("new", 0.0, 0.75, 2), ("middle", 1.0, 0.5, 1)]
    assert rows[0]["mean_latency_ms"] == 200.0


def test_run_summary() -> None:
    """One row for one run."""
    connection = database(
        run_records=[run(), run("r2")],
        trial_attempts=[attempt("t1"), attempt("t2", rounds=[one_round(0)] * 3)],
        grade_records=[grade("t1"), grade("t2", outcome="failed")],
    )
    (row,) = answered(connection, "run_summary", run_id="r1")
    assert (row["planned_count"], row["passed"], row["failed"], row["graded"]) == (2, 1, 1, 2)
    assert (row["pass_rate"], row["mean_rounds"], row["cost_usd"]) == (0.5, 2.0, 1.0)
    assert answered(connection, "run_summary", run_id="none") == []


def test_retried_and_not() -> None:
    """A second attempt and a repeated request are both repeats; what has no outcome is no rate."""
    connection = database(
        run_records=[run()],
        trial_attempts=[
            attempt("calm"),
            attempt("calm-2", waited_ms=10.0),
            attempt("asked-again", retry_count=3, waited_ms=500.0),
            attempt("tried-again", status="harness_error"),
            attempt("tried-again", 2, waited_ms=1500.0),
            attempt("lost", retry_count=2, status="harness_error", waited_ms=100.0),
        ],
        grade_records=[
            grade("calm"),
            grade("calm-2", outcome="failed"),
            grade("asked-again"),
            grade("tried-again", 2),
        ],
    )
    calm, repeated = answered(connection, "retried_and_not")
    assert (calm["was_retried"], repeated["was_retried"]) == (False, True)
    assert (calm["trial_count"], calm["graded_count"], calm["pass_rate"]) == (2, 2, 0.5)
    assert (repeated["trial_count"], repeated["graded_count"], repeated["pass_rate"]) == (3, 2, 1)
    assert (calm["mean_waited_ms"], repeated["mean_waited_ms"]) == (5.0, 700.0)
    assert (calm["repeated_request_count"], repeated["repeated_request_count"]) == (0, 5)


def test_spending_of_month() -> None:
    """All attempts that began in a month of UTC, to the last minute and not a minute more."""
    connection = database(
        trial_attempts=[
            attempt("t1", started_at="2026-02-28T23:59:59Z", cost_usd=100.0),
            attempt("t2", started_at="2026-03-01T00:00:00Z", cost_usd=1.0),
            attempt("t3", started_at="2026-04-01T01:30:00+02:00", cost_usd=2.0),
            attempt("t4", status="harness_error", cost_usd=4.0),
            attempt("t5", cost_usd=None),
            attempt("t6", started_at="2026-04-01T00:00:00Z", cost_usd=100.0),
        ]
    )
    assert answered(connection, "spending_of_month", month="2026-03") == [{"cost_usd": 7.0}]
    assert answered(connection, "spending_of_month", month="2026-05") == [{"cost_usd": None}]


def test_spending_of_runs() -> None:
    """Dollars and tokens of all attempts of the runs that are named, of no other."""
    connection = database(
        trial_attempts=[
            attempt("t1", 1, status="harness_error", cost_usd=1.0),
            attempt("t1", 2, cost_usd=2.0, cache_read_tokens=100, cache_write_5m_tokens=None),
            attempt("t2", run_id="r2", cost_usd=4.0, output_tokens=None),
            attempt("t3", run_id="r3", cost_usd=8.0),
        ]
    )
    rows = answered(connection, "spending_of_runs", run_ids=["r1", "r2"])
    assert rows == [{"cost_usd": 7.0, "token_count": 130}]
    nothing = [{"cost_usd": None, "token_count": None}]
    assert answered(connection, "spending_of_runs", run_ids=["none"]) == nothing


def test_tool_calls_by_model() -> None:
    """Calls a trial, over nightly trials that use the tool, by the model that was served."""
    connection = database(
        run_records=[run(), run("r2", purpose="on_demand")],
        trial_attempts=[
            attempt("t1", rounds=[one_round(0, call("find"), call("find", "empty"))]),
            attempt("t2", rounds=[one_round(0, *[call("find", "error")] * 4)]),
            attempt("t3", rounds=[one_round(0, call("note", "empty", is_silent=True))]),
            attempt("t4", served_model="model-v2", rounds=[one_round(0, call("find"))]),
            attempt("t5", run_id="r2", rounds=[one_round(0, *[call("find")] * 9)]),
        ],
    )
    rows = answered(connection, "tool_calls_by_model")
    assert [tuple(row.values())[2:] for row in rows] == [
        ("model-v1", "find", 2, 3.0, 2.5),
        ("model-v2", "find", 1, 1.0, 0.0),
        ("model-v1", "note", 1, 1.0, 0.0),
    ]


def test_trial_facts() -> None:
    """One row a trial of the runs that are named, with every call and whether it was in vain."""
    connection = database(
        planned_cases=[planned(), planned("case-1", run_id="r2", grading_hash="other")],
        trial_attempts=[
            attempt("t1", 1, status="harness_error"),
            attempt(
                "t1",
                2,
                rounds=[
                    one_round(0, call("find", "empty"), call("note", "empty", is_silent=True)),
                    one_round(1, call("read")),
                    one_round(2),
                ],
            ),
            attempt("t2", trial_index=1, rounds=[], status="skipped", error_kind="run_budget"),
            attempt("t3", run_id="r2"),
            attempt("t4", run_id="r3"),
        ],
        grade_records=[
            grade("t1", 2, outcome="failed", severity="critical"),
            grade("t3", run_id="r2"),
        ],
    )
    rows = answered(connection, "trial_facts", run_ids=["r1", "r2"])
    columns = ("trial_id", "outcome", "critical_failure_count", "round_count", "grading_hash")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("t1", "failed", 1, 3, "demands"),
        ("t2", "skipped", 0, 0, "demands"),
        ("t3", "passed", 0, 1, "other"),
    ]
    assert rows[0]["tools"] == ["find", "note", "read"]
    assert rows[0]["fruitless"] == [True, False, False]
    assert (rows[1]["tools"], rows[1]["error_kind"]) == ([], "run_budget")


SOUND = {
    "run_records": [run()],
    "planned_cases": [planned("case-1", trials=2)],
    "trial_attempts": [
        attempt("t1", 1, status="harness_error"),
        attempt("t1", 2),
        attempt("t2", trial_index=1, latency_ms=None, cost_usd=None),
    ],
    "grade_records": [
        grade("t1", 2, assertion="a"),
        grade("t1", 2, assertion="b"),
        grade("t1", 2, assertion="a", grading="rescored"),
        grade("t2", assertion="a"),
    ],
}


@pytest.mark.parametrize("name", statements("checks"))
def test_sound_records(name: str) -> None:
    """A sound run trips no check, and a run that does not exist neither."""
    connection = database(**SOUND)
    assert tripped(connection, name) == []
    assert tripped(connection, name, "none") == []


def test_attempt_doubled() -> None:
    """The same attempt recorded twice, as two writers might."""
    connection = database(trial_attempts=[attempt("t1"), attempt("t1"), attempt("t1", 2)])
    assert tripped(connection, "attempt_doubled") == [
        {"trial_id": "t1", "attempt": 1, "records": 2}
    ]


def test_grade_doubled() -> None:
    """An assertion that was graded twice; a rescoring is another grading."""
    connection = database(
        grade_records=[grade("t1"), grade("t1"), grade("t1", grading="rescored"), grade("t1", 2)]
    )
    assert tripped(connection, "grade_doubled") == [
        {"trial_id": "t1", "attempt": 1, "assertion": "must_mention yes", "records": 2}
    ]


def test_grade_without_attempt() -> None:
    """A grade of an attempt that nobody recorded."""
    connection = database(
        trial_attempts=[attempt("t1")], grade_records=[grade("t1"), grade("t1", 2)]
    )
    assert tripped(connection, "grade_without_attempt") == [
        {"trial_id": "t1", "attempt": 2, "assertion": "must_mention yes"}
    ]


def test_number_impossible() -> None:
    """Negative money or time, an end before its beginning, more barren rounds than rounds."""
    connection = database(
        trial_attempts=[
            attempt("a", cost_usd=-0.01),
            attempt("b", latency_ms=-1.0),
            attempt("c", ended_at="2026-03-02T02:29:59Z"),
            attempt("d", barren_round_count=2),
            attempt("e", round_count=3),
            attempt("fine"),
        ]
    )
    found = tripped(connection, "number_impossible")
    assert [row["trial_id"] for row in found] == ["a", "b", "c", "d", "e"]


def test_trial_missing() -> None:
    """A case with fewer or more trials than were promised, one without any included."""
    connection = database(
        planned_cases=[
            planned("case-1", trials=2),
            planned("case-2", trials=1),
            planned("case-3", trials=1),
            planned("case-4", trials=1, run_id="r2"),
        ],
        trial_attempts=[
            attempt("t1", case_id="case-1"),
            attempt("t1", 2, case_id="case-1"),
            attempt("t3", case_id="case-3"),
            attempt("t4", case_id="case-3"),
        ],
    )
    assert tripped(connection, "trial_missing") == [
        {"case_id": "case-1", "planned": 2, "recorded": 1},
        {"case_id": "case-2", "planned": 1, "recorded": 0},
        {"case_id": "case-3", "planned": 1, "recorded": 2},
    ]
