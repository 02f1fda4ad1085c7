"""Frozen types to JSON and back, checked where they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from watchkeeper.domain.incident import IncidentEvent
from watchkeeper.domain.ports import Message, Recipient
from watchkeeper.domain.run import Manifest, RunPlan
from watchkeeper.domain.sighting import Sighting
from watchkeeper.domain.verdict import Verdict
from watchkeeper.errors import RecordUnreadable

T = TypeVar("T")


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    """The adapter of a type, built once."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return cast("TypeAdapter[T]", _ADAPTERS[kind])


def to_json(value: object) -> dict[str, Any]:
    """A frozen value as JSON; times are ISO texts, tuples lists."""
    return cast("dict[str, Any]", _adapter(type(value)).dump_python(value, mode="json"))


def _from_json(kind: type[T], value: Mapping[str, Any], what: str) -> T:
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordUnreadable(
            f"a stored {what} cannot be read: {where}: {first['msg']}; it was written by another "
            "version, or changed from outside"
        ) from error


def manifest_from_json(value: Mapping[str, Any]) -> Manifest:
    """The manifest that JSON describes."""
    return _from_json(Manifest, value, "manifest")


def plan_from_json(value: Mapping[str, Any]) -> RunPlan:
    """The plan that JSON describes."""
    return _from_json(RunPlan, value, "plan")


def verdict_from_json(value: Mapping[str, Any]) -> Verdict:
    """The verdict that JSON describes."""
    fields = {key: item for key, item in value.items() if key != "exit_code"}
    return _from_json(Verdict, fields, "verdict")


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as it is stored, with the exit code that follows from it."""
    return {**to_json(verdict), "exit_code": verdict.exit_code}


def sighting_from_json(value: Mapping[str, Any]) -> Sighting:
    """The sighting that JSON describes."""
    return _from_json(Sighting, value, "sighting")


def event_from_json(value: Mapping[str, Any]) -> IncidentEvent:
    """The incident event that JSON describes."""
    return _from_json(IncidentEvent, value, "incident event")


def message_from_json(value: Mapping[str, Any]) -> Message:
    """The message that JSON describes."""
    return _from_json(Message, value, "message")


def recipient_from_json(value: Mapping[str, Any]) -> Recipient:
    """The recipient that JSON describes."""
    return _from_json(Recipient, value, "recipient")
