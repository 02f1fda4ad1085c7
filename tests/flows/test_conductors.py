"""Both conductors leave the same records, and a night that is done is not done again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.flows.prefect_view import Prefect
from tests.projects import (
    FIRST_SLOT,
    Bench,
    bench,
    case,
    script,
    scripted_endpoint,
    suite,
    write_project,
)
from watchkeeper.flows.nightly import run_nightly
from watchkeeper.pipeline.nightly import nightly
from watchkeeper.store import tables

SLOT = FIRST_SLOT.isoformat()
# What two nights of the same slot may differ in: when, how long, who started it, whose token.
_OF_THE_MOMENT = {
    "started_at",
    "ended_at",
    "latency_ms",
    "graded_at",
    "planned_at",
    "decided_at",
    "queued_at",
    "at",
    "trigger",
    "token",
    "committed_at",
    "sha256",
    "bytes",
    "key",
}


def test_plain_and_prefect_leave_equal_records(tmp_path: Path, prefect: Prefect) -> None:
    """Every row, verdict, incident and message is the same, whoever conducted the night."""
    plain = bench(_troubled(tmp_path / "plain"))
    asyncio.run(nightly(FIRST_SLOT, plain.steps()))
    through = bench(_troubled(tmp_path / "prefect"))
    result = run_nightly(None, SLOT, services=through.services)

    assert {pair.request.endpoint for pair in result.pairs} == {"good", "bad", "down"}
    for table in tables.RECORD_TABLES:
        rows = _rows(through, table)
        assert rows, table
        assert rows == _rows(plain, table), table
    for kind in ("commits", "verdicts", "incidents", "outbox"):
        found = _objects(through, kind)
        assert found, kind
        assert found == _objects(plain, kind), kind
    assert through.sent.getvalue() == plain.sent.getvalue()
    assert through.told == plain.told


def test_same_slot_runs_nothing_again(tmp_path: Path, prefect: Prefect) -> None:
    """A night that is done is read back: no agent is connected, nothing is sent twice."""
    folder = write_project(tmp_path, scripts={"agent": script({"endings": [{"text": "no"}]})})
    first = bench(folder)
    done = run_nightly(None, SLOT, services=first.services)
    before = _files(folder / "store")

    second = bench(folder)
    (folder / "config/scripts/agent.yaml").unlink()  # whoever connects the agent now fails
    again = run_nightly(None, SLOT, services=second.services)

    assert again.pairs == done.pairs
    assert _files(folder / "store") == before
    assert second.sent.getvalue() == ""


def _troubled(folder: Path) -> Path:
    """A project with a good endpoint, one whose answers fail its gate, and one that is down."""
    folder.mkdir()
    cases = [case(f"case-{number}") for number in range(4)]
    gated = suite(cases, categories={"facts": {"gate": 0.9, "action": "page"}})
    scripts = {
        "good": script({"endings": [{"text": "yes"}]}),
        "bad": script(
            {
                "rounds": [{"calls": [{"tool": "find", "result": ""}], "times": 2}],
                "endings": [{"text": "no", "weight": 3}, {"text": "yes"}],
            }
        ),
        "down": script({"faults": [{"kind": "authentication"}]}),
    }
    endpoints = {
        name: scripted_endpoint(script=f"config/scripts/{name}.yaml", concurrency=2)
        for name in scripts
    }
    return write_project(
        folder,
        watchkeeper={"limits": {"confirm_delay_minutes": 0, "shard_trials": 5}},
        endpoints=endpoints,
        suites={"basic": gated},
        scripts=scripts,
    )


def _rows(made: Bench, table: str) -> list[dict[str, Any]]:
    connection = made.services.history().connect()
    found = connection.execute(f"select * from {table}")
    names = [column[0] for column in found.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    connection.close()
    return sorted((_lasting(row) for row in rows), key=repr)


def _objects(made: Bench, kind: str) -> list[Any]:
    folder = made.services.project.root / "store" / kind
    found = [_lasting(json.loads(path.read_text())) for path in folder.rglob("*.json")]
    return sorted(found, key=repr)


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(one) for key, one in value.items() if key not in _OF_THE_MOMENT}
    return [_lasting(one) for one in value] if isinstance(value, list) else value


def _files(folder: Path) -> dict[str, bytes]:
    """Every object of a store; the catalog is derived and written anew."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "catalog.duckdb"
    }
