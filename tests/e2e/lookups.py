"""An agent that looks something up before it answers, and a model that counts what it is paid for.

One trial a case, so that whoever makes a finished trial again asks the same question again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.programs import run_folder
from tests.projects import case, suite, write_project
from tests.servers.anthropic_server import anthropic_program, read_log
from watchkeeper.store.history import History
from watchkeeper.store.objects import open_objects
from watchkeeper.store.records import RunRecords

CASES = 40
ROUNDS = 2
CONCURRENCY = 4
KEY = {"MODEL_KEY": "a-key"}
FAILING = {"case-3", "case-17"}
RUN = ("run", "basic", "-e", "agent", "--json")
EVERY_CASE_ONCE = Counter(f"case-{number}" for number in range(CASES))
EVERY_CALL_ONCE = Counter(dict.fromkeys(EVERY_CASE_ONCE, ROUNDS))


@dataclass(frozen=True, slots=True)
class Api:
    """The scripted Messages API in a process of its own, and the log of what it was asked."""

    url: str
    log: Path

    def asked(self) -> Counter[str]:
        """How many messages were asked for, by case; a request that a kill cut off is none."""
        return Counter(
            line["body"]["messages"][0]["content"].removeprefix("question ")
            for line in read_log(self.log).received
            if line["path"] == "/v1/messages" and "messages" in line["body"]
        )


@contextmanager
def lookup_api(folder: Path, *, delay_s: float) -> Iterator[Api]:
    """Every trial takes two rounds: the agent looks something up, and answers by what it found."""
    folder.mkdir()
    look_up = {
        "reply": "tool_use",
        "name": "lookup",
        "arguments": {"id": 1},
        "when": "question",
        "delay_s": delay_s,
    }
    wrong = [
        {"reply": "message", "text": "no", "when": f"found {name}.", "delay_s": delay_s}
        for name in sorted(FAILING)
    ]
    right = {"reply": "message", "text": "yes", "delay_s": delay_s}
    with anthropic_program({"rules": [look_up, *wrong], "then": right}, folder) as (url, log):
        yield Api(url, log)


def lookup_project(folder: Path, api: Api, **watchkeeper: Any) -> Path:
    """A project whose one endpoint is that model, with shards of 8 trials."""
    folder.mkdir(exist_ok=True)
    names = [f"case-{number}" for number in range(CASES)]
    cases = [case(name, tools={"lookup": {"returns": f"found {name}."}}) for name in names]
    endpoint = {
        "kind": "anthropic",
        "model": "claude-sonnet-5-5",
        "api_key": "env:MODEL_KEY",
        "base_url": api.url,
        "owner": "team",
        "suites": ["basic"],
        "concurrency": CONCURRENCY,
    }
    return write_project(
        folder,
        watchkeeper={"limits": {"shard_trials": 8, "confirm_delay_minutes": 0}, **watchkeeper},
        endpoints={"agent": endpoint},
        suites={"basic": suite(cases, trials=1)},
    )


def recorded(store: str, root: Path, run_id: str) -> Counter[str]:
    """How often history holds each planned trial of a run, by case, with outcomes checked."""
    history = History(RunRecords(open_objects(store, root=root)), root / "cache-of-test")
    connection = history.connect()
    try:
        rows = connection.execute(
            "select case_id, outcome from trials where run_id = $run_id", {"run_id": run_id}
        ).fetchall()
        attempts = connection.execute("select count(*) from trial_attempts").fetchone()
        grades = connection.execute("select count(*) from grade_records").fetchone()
    finally:
        connection.close()
    assert {name for name, outcome in rows if outcome == "failed"} == FAILING
    assert {outcome for _, outcome in rows} == {"passed", "failed"}
    assert attempts == grades == (CASES,)
    assert [commit.run_id for commit in history.commits] == [run_id]
    return Counter(name for name, _ in rows)


def left_over(folder: Path, records: RunRecords, run_id: str) -> list[str]:
    """What should be gone once a run is committed."""
    staged = [info.key for info in records.objects.list(f"staging/{run_id}/")]
    local = run_folder(folder)
    return [*staged, *([local.name] if local is not None else [])]
