"""What is wrong with a value under ``expect``, in words: what was found, what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from watchkeeper.graders._wording import clipped, known_names, printable, quoted, shown

Path = tuple[str | int, ...]
Problem = tuple[Path, str]

DEEPEST = 64
_LONGEST_MESSAGE = 600
_QUOTES = {
    "int": " (put it in quotes)",
    "float": " (put it in quotes)",
    "bool": " (put it in quotes)",
}
_EXPECTED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "dict_type": "a mapping",
    "list_type": "a list",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "string_too_long": "at most {max_length:,} characters",
    "literal_error": "{expected}",
    "string_unicode": "text without half a surrogate pair",
}


class GraderValueError(ValueError):
    """A value under ``expect`` cannot be read; ``problems`` holds everything that is wrong.

    Each problem is the path below the grader's key and a message that says what was found and
    what was expected.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            (path, clipped(message, _LONGEST_MESSAGE)) for path, message in problems
        )
        super().__init__(
            "; ".join(
                f"{'.'.join(map(str, path)) or 'value'}: {text}" for path, text in self.problems
            )
        )


def found(value: object) -> str:
    """``found the number 5``; nothing after a key is said as nothing."""
    return "found nothing" if value is None else f"found {shown(value)}"


def json_problems(value: object, path: Path = (), depth: int = 0) -> list[Problem]:
    """Everything in a configured value that JSON cannot hold, with the path to it.

    The value's depth is bounded here, which is what bounds every comparison with it later.
    """
    if value is None or isinstance(value, bool | int):
        return []
    if isinstance(value, float):
        return [] if isfinite(value) else [(path, f"found {value}, expected a finite number")]
    if isinstance(value, str):
        return [] if _is_whole(value) else [(path, "found text with half a surrogate pair")]
    if depth >= DEEPEST:
        return [(path, f"nested deeper than {DEEPEST} levels")]
    problems: list[Problem] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                problems.append(
                    (path, f"found {shown(key)} as a key, expected text (put it in quotes)")
                )
            elif not _is_whole(key):
                problems.append((path, f"found half a surrogate pair in the key {quoted(key)}"))
            else:
                problems += json_problems(item, (*path, key), depth + 1)
        return problems
    if isinstance(value, list):
        for index, item in enumerate(value):
            problems += json_problems(item, (*path, index), depth + 1)
        return problems
    return [
        (
            path,
            f"found {printable(str(value)[:40])} ({type(value).__name__}), which JSON cannot "
            "hold; put it in quotes",
        )
    ]


def refusals(model: type[BaseModel], error: ValidationError) -> list[Problem]:
    """What a model refused, as (path below the mapping, message)."""
    return [
        (tuple(part for part in detail["loc"] if part != "[key]"), _message(model, detail))
        for detail in error.errors(include_url=False)
    ]


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys that a mapping for this model may hold, as they are written in YAML."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _message(model: type[BaseModel], detail: ErrorDetails) -> str:
    kind, value = detail["type"], detail["input"]
    context = detail.get("ctx") or {}
    last = str(detail["loc"][-1]) if detail["loc"] else ""
    if kind == "extra_forbidden":
        return f"unknown key {quoted(last)}; {known_names(last, keys_of(model))}"
    if kind == "invalid_key":
        return f"found {shown(value)} as a key, expected text (put it in quotes)"
    if kind == "missing":
        return f"'{last}' is missing: {_description(model, last)}"
    if kind == "value_error":
        return str(context.get("error"))
    if kind == "string_too_short":
        return "found empty text, expected at least one character"
    expected = _EXPECTED.get(kind)
    if expected is None:
        return f"{found(value)}, expected: {detail['msg']}"
    hint = _QUOTES.get(type(value).__name__, "") if kind == "string_type" else ""
    return f"{found(value)}, expected {expected.format(**context)}{hint}"


def _description(model: type[BaseModel], key: str) -> str:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return field.description or "expected a value"
    return "expected a value"


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
