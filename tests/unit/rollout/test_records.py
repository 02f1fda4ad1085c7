"""An attempt as two rows, and back: nothing is lost on the way."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.rollout.stage import START
from tests.unit.rollout.stored import MANIFEST, STAMP, stored_trials
from watchkeeper.domain.records import transcript_row, trial_from_rows, trial_row
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.trajectory import CallStatus, Round, ToolCall, Trajectory, Usage
from watchkeeper.domain.trial import StopReason, Trial, TrialStatus
from watchkeeper.rollout.journal import Journal
from watchkeeper.store.objects import open_objects
from watchkeeper.store.records import RunRecords

HOSTILE = st.sampled_from(
    [
        "\x00 NUL \x1b[31m\x07",
        "<!channel> <script>alert(1)</script>",
        "line\nline\r\n\u2028\u2029\u0085",
        "\U0001f600 \u202etxt.exe \ufeff",
        "'; drop table trials; --",
        '{"json": "inside"}',
        "x" * 5_000,
    ]
)
TEXT = HOSTILE | st.text(st.characters(codec="utf-8"), max_size=30)
COUNT = st.none() | st.integers(0, 10**12)
NUMBER = st.none() | st.floats(0, 1e9)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
CALL = st.builds(
    ToolCall,
    tool=TEXT,
    arguments=OBJECT,
    result=st.none() | TEXT,
    status=st.sampled_from(get_args(CallStatus)),
    call_id=TEXT,
    is_silent=st.booleans(),
    latency_ms=NUMBER,
)
ROUND = st.builds(
    Round,
    text=TEXT,
    tool_calls=st.lists(CALL, max_size=3).map(tuple),
    usage=st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT),
    stop_reason=TEXT,
    served_model=st.none() | TEXT,
    latency_ms=NUMBER,
    request_id=st.none() | TEXT,
)
MOMENT = st.integers(-(10**15), 10**15).map(lambda us: START + timedelta(microseconds=us))
TRIAL = st.builds(
    Trial,
    run_id=TEXT,
    trial_id=TEXT,
    attempt=st.integers(1, 2),
    case_id=TEXT,
    index=st.integers(0, 100),
    status=st.sampled_from(get_args(TrialStatus)),
    stop_reason=st.sampled_from(get_args(StopReason)),
    trajectory=st.builds(
        Trajectory,
        rounds=st.lists(ROUND, max_size=3).map(tuple),
        answer=TEXT,
        action=st.none() | TEXT,
        state=st.none() | OBJECT,
    ),
    requested_model=st.none() | TEXT,
    started_at=MOMENT,
    ended_at=MOMENT,
    latency_ms=NUMBER,
    cost_usd=NUMBER,
    retry_count=st.integers(0, 10),
    error_kind=st.none() | TEXT,
    error=st.none() | TEXT,
)


def through_json(row: dict[str, Any]) -> dict[str, Any]:
    """The row as the journal and the store hold it."""
    found: dict[str, Any] = json.loads(json.dumps(row, ensure_ascii=False).encode())
    return found


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trial=TRIAL)
def test_a_trial_comes_back_from_its_rows(trial: Trial) -> None:
    """Field by field, whatever an agent or a tool said."""
    row, said = trial_row(trial, STAMP, MANIFEST), transcript_row(trial)
    assert trial_from_rows(through_json(row), through_json(said)) == trial


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trial=TRIAL)
def test_what_is_harmless_passes_the_redactor_unchanged(trial: Trial) -> None:
    """A record without secrets is stored as it is."""
    redactor = Redactor({"KEY": "not in any of these texts"})
    for row in (trial_row(trial, STAMP, MANIFEST), transcript_row(trial)):
        assert redactor.value(row) == through_json(row)


@given(trial=TRIAL)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_thin_row_counts_what_the_trajectory_holds(trial: Trial) -> None:
    """Rounds, barren rounds, calls and tokens; what one round does not know stays unknown."""
    row = trial_row(trial, STAMP, MANIFEST)
    rounds = trial.trajectory.rounds
    assert row["round_count"] == len(rounds) == len(row["rounds"])
    assert row["tool_call_count"] == sum(len(one.tool_calls) for one in rounds)
    assert row["barren_round_count"] == sum(one["is_barren"] for one in row["rounds"])
    counts = [one.usage.input_tokens for one in rounds]
    known = [count for count in counts if count is not None]
    assert row["input_tokens"] == (sum(known) if len(known) == len(counts) else None)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(trials=st.lists(TRIAL, min_size=1, max_size=5))
def test_a_trial_comes_back_from_the_store(tmp_path: Path, trials: list[Trial]) -> None:
    """Through the journal, DuckDB and Parquet, with every character that was said."""
    numbered = [
        replace(trial, run_id="run", trial_id=f"trial-{number}")
        for number, trial in enumerate(trials)
    ]
    folder = tmp_path / secrets.token_hex(8)
    with Journal(folder / "trials.jsonl") as journal:
        for trial in numbered:
            row, said = trial_row(trial, STAMP, MANIFEST), transcript_row(trial)
            journal.append({"trial": row, "transcript": said})
    assert stored_trials(folder, folder / "trials.jsonl", MANIFEST) == numbered


def test_what_is_put_aside_comes_back(tmp_path: Path) -> None:
    """Whatever breaks lines elsewhere: the staging area is read by a restart."""
    records = RunRecords(open_objects("file:./store", root=tmp_path))
    lines = [{"text": "one\u2028two\u0085three\x0bfour"}, {"text": "five\nsix"}]
    records.stage("run", lines)
    assert list(records.staged("run")) == lines


def test_a_thin_row_holds_nothing_that_was_said() -> None:
    """Transcripts lie apart: whoever may count may not have to read."""
    call = ToolCall("find", {"secret": "ARGUMENT"}, "RESULT", "ok")
    one = Round("SAID", (call,), served_model="model-v1")
    trajectory = Trajectory((one,), "ANSWER", None, {"x": "STATE"})
    trial = Trial(
        run_id="run",
        trial_id="t",
        attempt=1,
        case_id="case",
        index=0,
        status="completed",
        stop_reason="answered",
        trajectory=trajectory,
        requested_model="alias",
        started_at=START,
        ended_at=START + timedelta(seconds=1),
        latency_ms=1.0,
        cost_usd=None,
    )
    thin, said = json.dumps(trial_row(trial, STAMP, MANIFEST)), json.dumps(transcript_row(trial))
    for text in ("ARGUMENT", "RESULT", "SAID", "ANSWER", "STATE"):
        assert text not in thin
        assert text in said
