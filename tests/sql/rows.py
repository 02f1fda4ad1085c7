"""Record rows with what most tests want as defaults, in an in-memory database with all views."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from watchkeeper.store import tables
from watchkeeper.store.history import fetch
from watchkeeper.store.statements import statements

Row = dict[str, Any]
AT = "2026-03-02T02:30:00+00:00"
LATER = "2026-03-02T02:31:00+00:00"


def run(run_id: str = "r1", **given: Any) -> Row:
    """A committed nightly run that planned two trials."""
    return {
        "run_id": run_id,
        "committed_at": LATER,
        "endpoint": "agent",
        "suite": "basic",
        "purpose": "nightly",
        "trigger": "schedule",
        "seed": 7,
        "slot_at": AT,
        "planned_at": AT,
        "confirms": None,
        "suite_hash": "s",
        "endpoint_kind": "scripted",
        "endpoint_owner": "team",
        "suite_owner": "team",
        "env": "production",
        "endpoint_config_hash": "e",
        "requested_model": "alias",
        "resolved_model": "model-v1",
        "harness_revision": None,
        "price_table_version": "p",
        "engine_version": "0.1.0",
        "planned_count": 2,
        **given,
    }


def attempt(trial_id: str = "t1", number: int = 1, **given: Any) -> Row:
    """An attempt that answered in one round without a tool."""
    rounds = given.pop("rounds", [one_round(0)])
    return {
        "run_id": "r1",
        "trial_id": trial_id,
        "attempt": number,
        "endpoint": "agent",
        "suite": "basic",
        "case_id": "case-1",
        "trial_index": 0,
        "category": "facts",
        "cluster_id": "case-1",
        "dimension": None,
        "tags": {},
        "weight": 1.0,
        "execution_hash": "asks",
        "status": "completed",
        "stop_reason": "answered",
        "error_kind": None,
        "error": None,
        "requested_model": "alias",
        "served_model": "model-v1",
        "started_at": AT,
        "ended_at": LATER,
        "latency_ms": 100.0,
        "waited_ms": 0.0,
        "first_token_ms": None,
        "round_count": len(rounds),
        "barren_round_count": sum(one["is_barren"] for one in rounds),
        "tool_call_count": sum(len(one["tool_calls"]) for one in rounds),
        "retry_count": 0,
        "input_tokens": 10,
        "cache_write_5m_tokens": 0,
        "cache_write_1h_tokens": 0,
        "cache_read_tokens": 0,
        "output_tokens": 5,
        "thinking_tokens": 0,
        "cost_usd": 0.5,
        "simulator": None,
        "simulator_round_count": None,
        "simulator_tokens": None,
        "simulator_cost_usd": None,
        "changed_file_count": None,
        "rounds": rounds,
        **given,
    }


def one_round(index: int, *calls: Row, **given: Any) -> Row:
    """One round of an attempt."""
    counting = [one for one in calls if not one["is_silent"]]
    return {
        "round_index": index,
        "stop_reason": "tool_use" if calls else "answered",
        "served_model": "model-v1",
        "latency_ms": 50.0,
        "first_token_ms": None,
        "agent": None,
        "is_barren": bool(counting) and all(one["status"] != "ok" for one in counting),
        "input_tokens": 10,
        "cache_write_5m_tokens": 0,
        "cache_write_1h_tokens": 0,
        "cache_read_tokens": 0,
        "output_tokens": 5,
        "thinking_tokens": 0,
        "tool_calls": list(calls),
        **given,
    }


def call(tool: str, status: str = "ok", *, is_silent: bool = False) -> Row:
    """One tool call."""
    return {"tool": tool, "status": status, "is_silent": is_silent, "latency_ms": 3.0}


def grade(trial_id: str = "t1", number: int = 1, **given: Any) -> Row:
    """A grade that passed."""
    return {
        "run_id": "r1",
        "trial_id": trial_id,
        "attempt": number,
        "case_id": "case-1",
        "category": "facts",
        "grader": "must_mention",
        "grader_version": 1,
        "assertion": "must_mention yes",
        "severity": "normal",
        "evidence": "answer",
        "outcome": "passed",
        "reason": "it does",
        "grading_hash": "demands",
        "grading": "original",
        "graded_at": LATER,
        **given,
    }


def planned(case_id: str = "case-1", **given: Any) -> Row:
    """A case of a run with the trials that were promised for it."""
    return {
        "run_id": "r1",
        "case_id": case_id,
        "category": "facts",
        "cluster_id": case_id,
        "execution_hash": "asks",
        "grading_hash": "demands",
        "trials": 1,
        "source": None,
        **given,
    }


def verdict(**given: Any) -> Row:
    """A finding of a quiet verdict."""
    return {
        "run_id": "r1",
        "endpoint": "agent",
        "suite": "basic",
        "purpose": "nightly",
        "slot_at": AT,
        "decided_at": LATER,
        "verdict": "no_worse",
        "reason": "within_margin",
        "broken": None,
        "exit_code": 0,
        "planned": 2,
        "graded": 2,
        "passed": 2,
        "metric": "rounds",
        "level": "suite",
        "group_name": "suite",
        "state": "no_worse",
        "state_reason": "within_margin",
        "estimate": 1.0,
        "low": 0.9,
        "high": 1.1,
        "p_worse": 0.5,
        "z": 0.0,
        "case_count": 2,
        "smallest_detectable": 0.1,
        "is_confirmed": False,
        **given,
    }


def incident(**given: Any) -> Row:
    """An open incident."""
    return {
        "incident_id": "inc-1",
        "dedup_key": "key",
        "endpoint": "agent",
        "suite": "basic",
        "env": "production",
        "root_kind": "tool",
        "root": "find_files",
        "owner": "team",
        "severity": "page",
        "state": "open",
        "resolution": None,
        "opened_at": AT,
        "resolved_at": None,
        "first_run": "r1",
        "last_run": "r2",
        "night_count": 2,
        "page_count": 1,
        **given,
    }


def database(**rows: Iterable[Mapping[str, Any]]) -> duckdb.DuckDBPyConnection:
    """All tables and views in memory, with these rows by table."""
    connection = tables.connect()
    tables.create_tables(connection)
    with tempfile.TemporaryDirectory() as folder:
        for table, given in rows.items():
            tables.insert_rows(connection, table, given, Path(folder))
    tables.create_views(connection)
    return connection


def seen(connection: duckdb.DuckDBPyConnection, view: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a view, in the order of the columns."""
    listed = ", ".join(columns)
    return connection.execute(f"select {listed} from {view} order by all").fetchall()


def answered(connection: duckdb.DuckDBPyConnection, name: str, **parameters: Any) -> list[Row]:
    """The rows of a named query."""
    return fetch(connection, statements("queries")[name], parameters)


def tripped(connection: duckdb.DuckDBPyConnection, name: str, run_id: str = "r1") -> list[Row]:
    """The faulty rows that a check finds."""
    return fetch(connection, statements("checks")[name], {"run_id": run_id})
