"""Evaluation logs of Inspect, as ``.eval`` (a zip file) and ``.json``.

Rounds are the model events of a sample, without those of its scorers: the messages that a sample
ends with may lack what was trimmed or what a sub-agent did. Where a log has no events, its
messages are all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.domain.trajectory import Round, Trajectory
from watchkeeper.domain.trial import StopReason
from watchkeeper.errors import UsageError
from watchkeeper.importers._inspect_events import Events, resolved
from watchkeeper.importers._inspect_parts import ChatMessage, Output
from watchkeeper.importers._once import each_once
from watchkeeper.importers._source import Foreign, Place, Source, items, parsed

TITLE = "Inspect logs, .eval or .json"
_LIMITS: Mapping[str, StopReason] = {
    "message": "round_limit",
    "turn": "round_limit",
    "time": "time_limit",
    "working": "time_limit",
    "token": "token_limit",
    "cost": "cost_limit",
    "context": "truncated",
}
_STOPS: Mapping[str, StopReason] = {
    "max_tokens": "truncated",
    "model_length": "truncated",
    "content_filter": "refused",
}


class Failure(Foreign):
    """What ended a sample before its time."""

    message: str = ""


class Limit(Foreign):
    """Which limit ended a sample."""

    type: str


class Score(Foreign):
    """What a scorer gave, as data."""

    value: Any = None


class Sample(Foreign):
    """One sample in one epoch."""

    id: int | str
    epoch: int = Field(ge=1)
    messages: list[ChatMessage] = Field([])
    output: Output = Output()
    scores: dict[str, Score] | None = None
    error: Failure | None = None
    limit: Limit | None = None
    events: list[dict[str, Any]] = Field([])
    attachments: dict[str, str] = Field({})


class Spec(Foreign):
    """What was evaluated."""

    model: str | None = None
    created: str | None = None


class Header(Foreign):
    """What a log says of the whole evaluation."""

    eval: Spec


def recognises(source: Source) -> bool:
    """Whether it is a zip file with a header or a journal, or an object with ``eval``."""
    entries = source.entries()
    if entries:
        return "header.json" in entries or "_journal/start.json" in entries
    if source.is_lines:
        return False
    found = source.document()
    return isinstance(found, dict) and isinstance(found.get("eval"), dict) and "version" in found


def read(path: Path) -> Iterator[ImportedTrial]:
    """The samples of the log, one trial an epoch.

    Raises:
        UsageError: The file cannot be read; the message says where and why.
    """
    yield from each_once(_trials(path))


def _trials(path: Path) -> Iterator[ImportedTrial]:
    source = Source(path)
    entries = source.entries()
    if not entries:
        found, whole = source.document(), Place(str(path))
        spec = parsed(Header, found, whole).eval
        for place, value in items(found.get("samples") or [], whole.below(".samples")):
            yield _trial(parsed(Sample, value, place), spec, place)
        return
    name = "header.json" if "header.json" in entries else "_journal/start.json"
    spec = parsed(Header, source.entry(name), Place(f"{path}: {name}")).eval
    for name in sorted(entry for entry in entries if entry.startswith("samples/")):
        if name.endswith(".json"):
            place = Place(f"{path}: {name}")
            yield _trial(parsed(Sample, source.entry(name), place), spec, place)


def _trial(sample: Sample, spec: Spec, place: Place) -> ImportedTrial:
    events = Events(sample.attachments)
    events.take(sample.events, place.below(".events"))
    rounds = events.rounds(sample.messages)
    answer = resolved(sample.output.text, sample.attachments)
    is_broken = sample.error is not None
    return ImportedTrial(
        source=str(place),
        case_id=str(sample.id),
        index=sample.epoch - 1,
        trajectory=Trajectory(rounds, answer),
        stop_reason="not_finished" if is_broken else _stop(sample, rounds, answer),
        status="harness_error" if is_broken else "completed",
        scores={name: score.value for name, score in (sample.scores or {}).items()},
        requested_model=spec.model,
        started_at=events.started_at or _time(spec.created, place),
        cost_usd=events.cost_usd,
        is_batch=events.is_batch,
        retry_count=events.retry_count,
        error=sample.error.message if sample.error else None,
    )


def _stop(sample: Sample, rounds: Sequence[Round], answer: str) -> StopReason:
    if sample.limit is not None:
        return _LIMITS.get(sample.limit.type, "not_finished")
    if rounds and rounds[-1].stop_reason in _STOPS:
        return _STOPS[rounds[-1].stop_reason]
    if not rounds:
        return "not_finished"
    return "answered" if answer.strip() else "silent"


def _time(text: str | None, place: Place) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{place}: created: found {text[:60]!r}; expected a time") from error
    return at if at.tzinfo else None
