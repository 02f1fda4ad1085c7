"""JSON as model providers send it, read from its bytes and never guessed.

SDKs hand on whatever a server answers: a list where an object was promised, text where a number
was. What is not as promised is said (``Unreadable``) or left unknown.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import NoReturn

from watchkeeper.domain.redaction import whole_text

Json = dict[str, object]

MAX_DEPTH = 100


class Unreadable(ValueError):
    """A response that is not what its API promises; its text says how.

    ``quoted`` is the piece of the response that shows it, where there is one.
    """

    def __init__(self, why: str, quoted: bytes = b"") -> None:
        super().__init__(why)
        self.quoted = quoted


class ReportedError(Exception):
    """A response whose body says that the request failed: an HTTP status and an error body."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(status)
        self.status = status
        self.content = json.dumps(body).encode()


def clean(value: object, depth: int = 0) -> object:
    """A copy of decoded JSON that can be encoded again: whole texts, finite numbers.

    Raises:
        Unreadable: It is nested deeper than ``MAX_DEPTH``.
    """
    if depth > MAX_DEPTH:
        raise Unreadable(f"JSON nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, Mapping):
        return {whole_text(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, float) and math.isinf(value):  # 1e999 is valid JSON
        return math.copysign(sys.float_info.max, value)
    return value


def cleaned(value: Json) -> Json:
    """``clean`` of an object."""
    return {whole_text(key): clean(item, 1) for key, item in value.items()}


def decoded(content: bytes | str) -> Json:
    """The JSON object in some bytes as it stands; half a character may be among its texts.

    Raises:
        Unreadable: They hold something else.
    """
    try:
        body = json.loads(content, parse_constant=_refuse_constant)
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:
        raise Unreadable("not JSON") from error
    if not isinstance(body, dict):
        raise Unreadable("not a JSON object")
    return body


def read_object(content: bytes | str) -> Json:
    """The JSON object in a response body, such that it can be encoded again.

    Raises:
        Unreadable: The body is something else.
    """
    return cleaned(decoded(content))


def read_arguments(text: str) -> Json:
    """The arguments that a model wrote for a tool; none at all is an empty object.

    Raises:
        Unreadable: They are no JSON object.
    """
    return read_object(text) if text.strip() else {}


def invalid_arguments(text: str) -> Json:
    """What stands for arguments that are no JSON object, in records and towards the model."""
    return {"INVALID_JSON": whole_text(text)}


def count(value: object) -> int | None:
    """A number of things, or ``None`` where it is none."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count and isinstance(value, int) else None


def text_at(value: object) -> str | None:
    """A short text, or ``None`` where there is none."""
    return value[:200] if isinstance(value, str) and value.strip() else None


def mapping(value: object) -> Mapping[str, object]:
    """A mapping; an empty one where it is none."""
    return value if isinstance(value, Mapping) else {}


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not a JSON number")
