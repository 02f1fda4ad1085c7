"""Rows as they are stored: keys are the columns of sql/schema, values are JSON.

A finished attempt becomes two rows: a thin one for counting and one with what was said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from watchkeeper.domain.grade import Grade
from watchkeeper.domain.run import CaseStamp, Manifest
from watchkeeper.domain.trajectory import (
    ZERO_USAGE,
    CallStatus,
    Round,
    ToolCall,
    Trajectory,
    Usage,
)
from watchkeeper.domain.trial import FileChange, SimulatorUse, StopReason, Trial, TrialStatus

Row = dict[str, Any]
_USAGE_COLUMNS = (
    "input_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "output_tokens",
    "thinking_tokens",
)


def trial_row(trial: Trial, stamp: CaseStamp, manifest: Manifest) -> Row:
    """The thin row of an attempt: what can be counted, without what was said."""
    rounds = trial.trajectory.rounds
    usage = trial.trajectory.usage
    return {
        "run_id": trial.run_id,
        "trial_id": trial.trial_id,
        "attempt": trial.attempt,
        "endpoint": manifest.endpoint,
        "suite": manifest.suite,
        "case_id": trial.case_id,
        "trial_index": trial.index,
        "category": stamp.category,
        "cluster_id": stamp.cluster_id,
        "dimension": stamp.dimension,
        "tags": stamp.tags,
        "weight": stamp.weight,
        "execution_hash": stamp.execution_hash,
        "status": trial.status,
        "stop_reason": trial.stop_reason,
        "error_kind": trial.error_kind,
        "error": trial.error,
        "requested_model": trial.requested_model,
        "served_model": trial.served_model,
        "started_at": trial.started_at.isoformat(),
        "ended_at": trial.ended_at.isoformat(),
        "latency_ms": trial.latency_ms,
        "waited_ms": trial.waited_ms,
        "first_token_ms": trial.first_token_ms,
        "round_count": len(rounds),
        "barren_round_count": trial.trajectory.barren_round_count,
        "tool_call_count": sum(len(one.tool_calls) for one in rounds),
        "retry_count": trial.retry_count,
        **dict(zip(_USAGE_COLUMNS, usage.counts(), strict=True)),
        "cost_usd": trial.cost_usd,
        **_simulator_columns(trial.simulator),
        "changed_file_count": None if trial.changes is None else len(trial.changes),
        "rounds": [_thin_round(index, one) for index, one in enumerate(rounds)],
    }


def transcripts_beside(journal: Path) -> Path:
    """Where what was said lies, apart from the journal's rows for counting."""
    return journal.with_name(f"{journal.stem}.transcripts.jsonl")


def transcript_row(trial: Trial) -> Row:
    """What was said and what tools answered; arguments and state are JSON texts."""
    trajectory = trial.trajectory
    return {
        "run_id": trial.run_id,
        "trial_id": trial.trial_id,
        "attempt": trial.attempt,
        "case_id": trial.case_id,
        "answer": trajectory.answer,
        "action": trajectory.action,
        "state": None if trajectory.state is None else _json(trajectory.state),
        "rounds": [
            {
                "round_index": index,
                "text": one.text,
                "request_id": one.request_id,
                "tool_calls": [
                    {
                        "tool": call.tool,
                        "call_id": call.call_id,
                        "arguments": _json(call.arguments),
                        "result": call.result,
                    }
                    for call in one.tool_calls
                ],
            }
            for index, one in enumerate(trajectory.rounds)
        ],
        "simulator_rounds": _simulator_rounds(trial.simulator),
        "changes": None if trial.changes is None else [asdict(one) for one in trial.changes],
    }


def grade_row(trial: Trial, stamp: CaseStamp, grade: Grade, graded_at: datetime) -> Row:
    """One assertion's grade for one attempt."""
    return {
        "run_id": trial.run_id,
        "trial_id": trial.trial_id,
        "attempt": trial.attempt,
        "case_id": trial.case_id,
        "category": stamp.category,
        "grader": grade.grader,
        "grader_version": grade.grader_version,
        "assertion": grade.assertion,
        "severity": grade.severity,
        "evidence": grade.evidence,
        "outcome": grade.outcome,
        "reason": grade.reason,
        "grading_hash": stamp.grading_hash,
        "grading": "original",
        "graded_at": graded_at.isoformat(),
    }


def trial_from_rows(trial: Mapping[str, Any], transcript: Mapping[str, Any]) -> Trial:
    """The attempt that two rows describe; the inverse of ``trial_row`` and ``transcript_row``."""
    rounds = tuple(
        _round(thin, said) for thin, said in zip(trial["rounds"], transcript["rounds"], strict=True)
    )
    state = transcript["state"]
    return Trial(
        run_id=trial["run_id"],
        trial_id=trial["trial_id"],
        attempt=trial["attempt"],
        case_id=trial["case_id"],
        index=trial["trial_index"],
        status=cast("TrialStatus", trial["status"]),
        stop_reason=cast("StopReason", trial["stop_reason"]),
        trajectory=Trajectory(
            rounds=rounds,
            answer=transcript["answer"],
            action=transcript["action"],
            state=None if state is None else json.loads(state),
        ),
        requested_model=trial["requested_model"],
        started_at=datetime.fromisoformat(trial["started_at"]),
        ended_at=datetime.fromisoformat(trial["ended_at"]),
        latency_ms=trial["latency_ms"],
        cost_usd=trial["cost_usd"],
        retry_count=trial["retry_count"],
        error_kind=trial["error_kind"],
        error=trial["error"],
        waited_ms=trial["waited_ms"],
        simulator=_simulator(trial, transcript),
        changes=None
        if transcript["changes"] is None
        else tuple(FileChange(**one) for one in transcript["changes"]),
    )


def counted_trial(row: Mapping[str, Any]) -> Trial:
    """The attempt as far as its thin row tells; nothing is known of what was said in it."""
    call = {"call_id": "", "arguments": "{}", "result": None}
    said = [
        {"text": "", "request_id": None, "tool_calls": [call] * len(one["tool_calls"])}
        for one in row["rounds"]
    ]
    unsaid = {
        "answer": "",
        "action": None,
        "state": None,
        "rounds": said,
        "simulator_rounds": [],
        "changes": None,
    }
    return trial_from_rows(row, unsaid)


def _thin_round(index: int, one: Round) -> Row:
    return {
        "round_index": index,
        "stop_reason": one.stop_reason,
        "served_model": one.served_model,
        "latency_ms": one.latency_ms,
        "first_token_ms": one.first_token_ms,
        "agent": one.agent,
        "is_barren": one.is_barren,
        **dict(zip(_USAGE_COLUMNS, one.usage.counts(), strict=True)),
        "tool_calls": [
            {
                "tool": call.tool,
                "status": call.status,
                "is_silent": call.is_silent,
                "latency_ms": call.latency_ms,
            }
            for call in one.tool_calls
        ],
    }


def _round(thin: Mapping[str, Any], said: Mapping[str, Any]) -> Round:
    return Round(
        text=said["text"],
        tool_calls=tuple(
            ToolCall(
                tool=counted["tool"],
                arguments=json.loads(spoken["arguments"]),
                result=spoken["result"],
                status=cast("CallStatus", counted["status"]),
                call_id=spoken["call_id"],
                is_silent=counted["is_silent"],
                latency_ms=counted["latency_ms"],
            )
            for counted, spoken in zip(thin["tool_calls"], said["tool_calls"], strict=True)
        ),
        usage=Usage(*(thin[column] for column in _USAGE_COLUMNS)),
        stop_reason=thin["stop_reason"],
        served_model=thin["served_model"],
        latency_ms=thin["latency_ms"],
        request_id=said["request_id"],
        first_token_ms=thin["first_token_ms"],
        agent=thin["agent"],
    )


def _simulator_columns(use: SimulatorUse | None) -> Row:
    """What can be counted of the model that played the user; all unknown where none did."""
    usage = ZERO_USAGE
    for one in use.rounds if use is not None else ():
        usage = usage.plus(one.usage)
    return {
        "simulator": use.simulator if use is not None else None,
        "simulator_round_count": len(use.rounds) if use is not None else None,
        "simulator_tokens": usage.total_tokens if use is not None else None,
        "simulator_cost_usd": use.cost_usd if use is not None else None,
    }


def _simulator_rounds(use: SimulatorUse | None) -> list[Row] | None:
    if use is None:
        return None
    return [
        {
            "text": one.text,
            "stop_reason": one.stop_reason,
            "served_model": one.served_model,
            "latency_ms": one.latency_ms,
            **dict(zip(_USAGE_COLUMNS, one.usage.counts(), strict=True)),
        }
        for one in use.rounds
    ]


def _simulator(trial: Mapping[str, Any], transcript: Mapping[str, Any]) -> SimulatorUse | None:
    if trial["simulator"] is None:
        return None
    rounds = tuple(
        Round(
            text=said["text"],
            usage=Usage(*(said[column] for column in _USAGE_COLUMNS)),
            stop_reason=said["stop_reason"],
            served_model=said["served_model"],
            latency_ms=said["latency_ms"],
        )
        for said in transcript["simulator_rounds"]
    )
    return SimulatorUse(trial["simulator"], rounds, trial["simulator_cost_usd"])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
