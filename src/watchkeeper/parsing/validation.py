"""From what a model refuses to faults with file:line, the wrong value, and what was expected."""

from __future__ import annotations

import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from watchkeeper.domain.identity import NAME_RULE
from watchkeeper.errors import Fault
from watchkeeper.parsing.suggest import known_names
from watchkeeper.parsing.yaml_source import Document, KeyPath

M = TypeVar("M", bound=BaseModel)

_MAX_SHOWN = 60
_SECRET_KEYS = frozenset({"api_key", "key", "token", "secret", "password", "authorization"})
_TYPE_WORDS: Mapping[str, str] = {
    "string_type": "text (put it in quotes)",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "finite_number": "a finite number",
}
_BOUND_WORDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "too_short": ("min_length", "at least {} entries"),
    "string_too_short": ("min_length", "at least {} characters"),
    "too_long": ("max_length", "at most {} entries"),
}


def shown(value: object) -> str:
    """A value as an error may quote it: short, one line, the kind of thing said first."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        text = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
        return f"the text {text!r}"
    if isinstance(value, dict):
        return f"a mapping with {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def validated(
    model: type[M], document: Document, path: KeyPath, value: object, faults: list[Fault]
) -> M | None:
    """``value`` as a model, or ``None`` with every reason appended to ``faults``.

    Args:
        model: The model that the value must fit.
        document: The file that the value came from.
        path: Where in the file it stands.
        value: What stands there.
        faults: Receives one fault for everything that is wrong.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        by_place: dict[KeyPath, list[ErrorDetails]] = {}
        for detail in error.errors(include_url=False):
            by_place.setdefault(_location_in(value, detail), []).append(detail)
        for location, details in by_place.items():
            if not _is_explained_below(location, details, by_place):
                message = _message(model, location, details)
                faults.append(document.fault((*path, *location), message))
        return None


def _is_explained_below(
    location: KeyPath, details: Sequence[ErrorDetails], places: Collection[KeyPath]
) -> bool:
    """Whether another branch of a union was meant, in which something deeper is wrong."""
    is_other_type = all(detail["type"] in _TYPE_WORDS for detail in details)
    return is_other_type and any(
        len(other) > len(location) and other[: len(location)] == location for other in places
    )


def _location_in(value: object, detail: ErrorDetails) -> KeyPath:
    """Where in a value an error lies.

    Pydantic names the branches of unions within the location too; those are no keys of the file.
    """
    location: list[str | int] = []
    for part in detail["loc"]:
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inner, dict) and part in inner:
            value = inner[part]
            location.append(part)
    if detail["type"] == "missing":
        location.append(detail["loc"][-1])
    return tuple(location)


def _message(model: type[BaseModel], location: KeyPath, details: Sequence[ErrorDetails]) -> str:
    key = ".".join(str(part) for part in location) or "this file"
    detail = details[0]
    kind = detail["type"]
    if kind == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        return f"unknown key '{location[-1]}'; {known_names(str(location[-1]), known)}"
    if kind == "missing":
        what = _description_of(model, location)
        return f"key '{location[-1]}' is missing" + (f": {what}" if what else "")
    expected = ", or ".join(dict.fromkeys(_expected(one["type"], one) for one in details))
    if location and str(location[-1]).lower() in _SECRET_KEYS:
        return (
            f"{key}: a secret is given as the name of an environment variable, 'env:NAME'; "
            "the value found here is not shown"
        )
    what = _description_of(model, location)
    return f"{key}: found {shown(detail['input'])}; expected {expected}" + (
        f" ({what})" if what else ""
    )


def _expected(kind: str, detail: ErrorDetails) -> str:
    context = detail.get("ctx") or {}
    if kind in _TYPE_WORDS:
        return _TYPE_WORDS[kind]
    if kind in _BOUND_WORDS:
        name, words = _BOUND_WORDS[kind]
        return words.format(context.get(name))
    if kind == "literal_error":
        return str(context.get("expected"))
    if kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern"))
        return NAME_RULE if "[A-Za-z0-9_.-]{0,79}" in pattern else f"text like {pattern}"
    return str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


def _fields_at(model: type[BaseModel], location: KeyPath) -> tuple[str, ...]:
    """The keys that the model at a location knows."""
    found = _model_at(model, location)
    return tuple(found.model_fields) if found is not None else ()


def _model_at(annotation: Any, location: KeyPath) -> type[BaseModel] | None:  # noqa: ANN401
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not location:
            return annotation
        info = annotation.model_fields.get(str(location[0]))
        return _model_at(info.annotation, location[1:]) if info is not None else None
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        candidates = (_model_at(argument, location) for argument in arguments)
        return next((found for found in candidates if found is not None), None)
    if origin in (list, dict) and location:
        return _model_at(arguments[-1], location[1:])
    return None


def _description_of(model: type[BaseModel], location: KeyPath) -> str:
    parent = _model_at(model, location[:-1]) if location else None
    if parent is None:
        return ""
    info = parent.model_fields.get(str(location[-1]))
    return (info.description or "") if info is not None else ""
