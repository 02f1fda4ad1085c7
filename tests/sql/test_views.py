"""Every view over a few given rows; a test is named after its view."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import combinations_with_replacement, product

import pytest

from tests.sql.rows import (
    attempt,
    call,
    database,
    grade,
    incident,
    one_round,
    run,
    seen,
    verdict,
)
from watchkeeper.domain.grade import Grade, GradeOutcome, trial_outcome
from watchkeeper.store.mentions import made_name
from watchkeeper.store.statements import statements

NIGHT = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)


def test_every_view_is_tested() -> None:
    """A view without a test of its name fails here."""
    module = sys.modules[__name__]
    untested = [
        made_name(statement)
        for statement in statements("views").values()
        if not hasattr(module, f"test_{made_name(statement)}")
    ]
    assert untested == []


def test_attempts() -> None:
    """Every attempt with what it counts as: its own grades, and no other grading's."""
    connection = database(
        trial_attempts=[
            attempt("t1"),
            attempt("t2"),
            attempt("t3", status="harness_error", error_kind="overloaded"),
            attempt("t3", 2),
            attempt("t4", status="skipped"),
            attempt("t5"),
            attempt("t6"),
        ],
        grade_records=[
            grade("t1", assertion="a"),
            grade("t1", assertion="b"),
            grade("t2", assertion="a"),
            grade("t2", assertion="b", outcome="failed", severity="critical"),
            grade("t3", 2),
            grade("t5", outcome="error"),
            grade("t6", grading="rescored"),
        ],
    )
    assert seen(connection, "attempts", "trial_id", "attempt", "outcome") == [
        ("t1", 1, "passed"),
        ("t2", 1, "failed"),
        ("t3", 1, "harness_error"),
        ("t3", 2, "passed"),
        ("t4", 1, "skipped"),
        ("t5", 1, "grader_error"),
        ("t6", 1, "grader_error"),
    ]
    assert seen(connection, "attempts", "critical_failure_count", "trial_id")[-1] == (1, "t2")


GRADE_OUTCOMES: tuple[GradeOutcome, ...] = ("passed", "failed", "error", "unresolved")
GRADINGS = [
    chosen for count in range(4) for chosen in combinations_with_replacement(GRADE_OUTCOMES, count)
]


@pytest.mark.parametrize("status", ["completed", "harness_error", "skipped"])
def test_outcome_is_the_domains(status: str) -> None:
    """On every combination of status and up to three grades SQL and Python conclude the same."""
    attempts, grades, expected = [], [], []
    for number, chosen in enumerate(GRADINGS):
        trial = f"t{number:02}"
        attempts.append(attempt(trial, status=status))
        grades += [
            grade(trial, outcome=outcome, assertion=f"a{index}")
            for index, outcome in enumerate(chosen)
        ]
        made = [Grade("g", 1, f"a{index}", outcome, "") for index, outcome in enumerate(chosen)]
        expected.append((trial, trial_outcome(status, made)))
    connection = database(trial_attempts=attempts, grade_records=grades)
    assert seen(connection, "attempts", "trial_id", "outcome") == expected
    assert len({outcome for _, outcome in expected}) == (3 if status == "completed" else 1)


def test_trials() -> None:
    """One row a trial, its last attempt, of committed runs only, with the run's purpose."""
    connection = database(
        run_records=[run(), run("r2", purpose="ci", slot_at=None, harness_revision="abc")],
        trial_attempts=[
            attempt("t1", 1, status="harness_error"),
            attempt("t1", 2),
            attempt("t2", run_id="r2"),
            attempt("t3", run_id="uncommitted"),
        ],
        grade_records=[grade("t1", 2), grade("t2", run_id="r2", outcome="failed")],
    )
    columns = ("trial_id", "attempt", "outcome", "purpose", "slot_at", "harness_revision")
    assert seen(connection, "trials", *columns) == [
        ("t1", 2, "passed", "nightly", NIGHT, None),
        ("t2", 1, "failed", "ci", None, "abc"),
    ]


def test_rounds() -> None:
    """One row a round of the attempt that counts."""
    connection = database(
        trial_attempts=[
            attempt("t1", 1, rounds=[one_round(0)], status="harness_error"),
            attempt("t1", 2, rounds=[one_round(0, call("find", "empty")), one_round(1)]),
            attempt("t2", rounds=[]),
        ]
    )
    columns = ("trial_id", "attempt", "round_index", "is_barren", "tool_call_count", "stop_reason")
    assert seen(connection, "rounds", *columns) == [
        ("t1", 2, 0, True, 1, "tool_use"),
        ("t1", 2, 1, False, 0, "answered"),
    ]


def test_tool_calls() -> None:
    """One row a call in the order in which it was made, with its round."""
    connection = database(
        trial_attempts=[
            attempt(
                "t1",
                rounds=[
                    one_round(0, call("find", "empty"), call("note", is_silent=True)),
                    one_round(1, call("read")),
                    one_round(2),
                ],
            )
        ]
    )
    columns = ("round_index", "call_index", "tool", "status", "is_silent", "is_in_barren_round")
    assert seen(connection, "tool_calls", *columns) == [
        (0, 0, "find", "empty", False, True),
        (0, 1, "note", "ok", True, True),
        (1, 0, "read", "ok", False, False),
    ]


def test_grades() -> None:
    """Every grade of every attempt with the run's endpoint, suite and slot."""
    connection = database(
        run_records=[run()],
        grade_records=[grade("t1"), grade("t1", 2, outcome="failed"), grade("t9", run_id="gone")],
    )
    columns = ("trial_id", "attempt", "outcome", "endpoint", "suite", "purpose", "slot_at")
    assert seen(connection, "grades", *columns) == [
        ("t1", 1, "passed", "agent", "basic", "nightly", NIGHT),
        ("t1", 2, "failed", "agent", "basic", "nightly", NIGHT),
    ]


def test_costs() -> None:
    """Every attempt is paid for, lost ones included; what has no price is said to have none."""
    connection = database(
        run_records=[run(endpoint_owner="payer")],
        trial_attempts=[
            attempt("t1", 1, status="harness_error", cost_usd=0.25),
            attempt("t1", 2),
            attempt("t2", cost_usd=None),
        ],
        grade_records=[grade("t1", 2)],
    )
    columns = ("trial_id", "attempt", "owner", "outcome", "cost_usd", "is_unpriced")
    assert seen(connection, "costs", *columns) == [
        ("t1", 1, "payer", "harness_error", 0.25, False),
        ("t1", 2, "payer", "passed", 0.5, False),
        ("t2", 1, "payer", "grader_error", None, True),
    ]


def test_runs() -> None:
    """Every committed run with how its planned trials ended; no denominator is no rate."""
    connection = database(
        run_records=[
            run("r1", planned_count=5),
            run("r2", planned_count=2),
            run("r3", planned_count=0),
            run("r4", planned_count=2),
        ],
        trial_attempts=[
            attempt("t1", rounds=[one_round(0), one_round(1)]),
            attempt("t2", served_model="model-v2"),
            attempt("t3", status="harness_error", cost_usd=0.25, rounds=[]),
            attempt("t4", status="skipped", cost_usd=0.0, served_model=None, rounds=[]),
            attempt("t5", run_id="r4", cost_usd=None),
            attempt("t6", run_id="r4"),
        ],
        grade_records=[
            grade("t1"),
            grade("t2", outcome="failed"),
            grade("t5", run_id="r4", outcome="unresolved"),
        ],
    )
    counts = ("run_id", "passed", "failed", "harness_error", "grader_error", "skipped", "graded")
    assert seen(connection, "runs", *counts) == [
        ("r1", 1, 1, 1, 0, 1, 2),
        ("r2", 0, 0, 0, 0, 0, 0),
        ("r3", 0, 0, 0, 0, 0, 0),
        ("r4", 0, 0, 0, 2, 0, 0),
    ]
    rates = ("run_id", "pass_rate", "coverage", "mean_rounds", "served_model", "cost_usd")
    assert seen(connection, "runs", *rates) == [
        ("r1", 0.5, 0.4, 1.5, "model-v1+model-v2", 1.25),
        ("r2", None, 0.0, None, None, None),
        ("r3", None, None, None, None, None),
        ("r4", None, 0.0, None, "model-v1", None),
    ]


def test_verdicts() -> None:
    """A finding is a row as it was stored."""
    connection = database(verdict_records=[verdict(), verdict(level="case", group_name="c")])
    columns = ("run_id", "verdict", "level", "group_name", "state", "exit_code")
    assert seen(connection, "verdicts", *columns) == [
        ("r1", "no_worse", "case", "c", "no_worse", 0),
        ("r1", "no_worse", "suite", "suite", "no_worse", 0),
    ]


def test_incidents() -> None:
    """An incident is a row as its events leave it."""
    ended = incident(incident_id="inc-2", state="resolved", resolution="recovered")
    connection = database(incident_records=[incident(), ended])
    columns = ("incident_id", "root_kind", "root", "state", "resolution", "night_count")
    assert seen(connection, "incidents", *columns) == [
        ("inc-1", "tool", "find_files", "open", None, 2),
        ("inc-2", "tool", "find_files", "resolved", "recovered", 2),
    ]


def test_views_agree_with_each_other() -> None:
    """Trials, rounds and calls of a view add up to the numbers of the trial itself."""
    kinds = list(product(["ok", "empty", "error"], [False, True]))
    connection = database(
        run_records=[run()],
        trial_attempts=[
            attempt(
                f"t{number}",
                rounds=[
                    one_round(0, *[call("find", status, is_silent=silent)] * (number + 1)),
                    one_round(1),
                ],
            )
            for number, (status, silent) in enumerate(kinds)
        ],
    )
    totals = "sum(round_count), sum(barren_round_count), sum(tool_call_count)"
    assert (
        connection.execute(f"select {totals} from trials").fetchall()
        == connection.execute(
            "select count(*), count(*) filter (where is_barren), sum(tool_call_count) from rounds"
        ).fetchall()
    )
    assert seen(connection, "tool_calls", "count(*)") == [(21,)]
