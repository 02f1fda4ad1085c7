"""JSON that an agent wrote, read strictly and within bounds.

Strict: no NaN or Infinity, no key twice, nothing before or after. One fenced code block round the
whole is taken off. Bounded: length, depth and the size of every number, so that nothing an agent
writes can exhaust the reader or whatever looks at the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import NoReturn

from watchkeeper.graders._wording import quoted

NOT_JSON = "the answer is not JSON"
LONGEST_JSON = 1_000_000
DEEPEST_JSON = 32
LONGEST_NUMBER = 1_000
_FENCE = "```"


class NotJson(ValueError):
    """The text cannot be read as JSON; the message says why, without ``the answer is not JSON``."""


def read_answer(text: str, *, exact: bool) -> object:
    """The JSON value that an answer is.

    Args:
        text: The answer; blanks round it and a single code fence round it are taken off.
        exact: Fractions become ``Decimal``, exactly as they are written; else ``float``.

    Raises:
        NotJson: It is anything else, or goes beyond the bounds.
    """
    if len(text) > LONGEST_JSON:
        raise NotJson(f"it has {len(text):,} characters; at most {LONGEST_JSON:,} are read")
    body = _without_fence(text.strip())
    if not body:
        raise NotJson("it is empty")
    try:
        value: object = json.loads(
            body,
            parse_float=_exact if exact else _binary,
            parse_int=_whole,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at character {error.pos + 1} of {quoted(body)}") from error
    except RecursionError as error:
        raise NotJson(_TOO_DEEP) from error
    fault = json_fault(value, has_decimals=exact)
    if fault is not None:
        raise NotJson(fault)
    return value


def json_fault(value: object, *, has_decimals: bool = False) -> str | None:
    """Why a value is not JSON within the bounds, or ``None``; itself safe at any depth."""
    scalars = str | bool | None | Decimal if has_decimals else str | bool | None
    layer = [value]
    for _ in range(DEEPEST_JSON + 1):
        below: list[object] = []
        for one in layer:
            if isinstance(one, scalars):
                continue
            if len(below) > LONGEST_JSON:
                return f"it holds more than {LONGEST_JSON:,} values"
            if isinstance(one, Mapping):
                if not all(isinstance(key, str) for key in one):
                    return "a key is not text"
                below.extend(one.values())
            elif isinstance(one, list | tuple):
                below.extend(one)
            else:
                fault = _scalar_fault(one)
                if fault is not None:
                    return fault
        if not below:
            return None
        layer = below
    return _TOO_DEEP


_TOO_DEEP = f"it is nested deeper than {DEEPEST_JSON} levels"


def _scalar_fault(value: object) -> str | None:
    if isinstance(value, int):
        is_long = value.bit_length() > LONGEST_NUMBER * 4
        return "a number in it is too long" if is_long else None
    if isinstance(value, float):
        return None if isfinite(value) else "a number in it is not finite"
    return f"it holds a value of type {type(value).__name__[:40]}"


def _without_fence(text: str) -> str:
    if not text.startswith(_FENCE):
        return text
    first, _, rest = text.partition("\n")
    if first[len(_FENCE) :].strip().lower() not in ("", "json"):
        raise NotJson(f"its code block is marked {quoted(first[len(_FENCE) :].strip(), 20)}")
    # A JSON text holds no raw line break, so the first line that begins with a fence closes it.
    body, closing, after = f"\n{rest}".partition(f"\n{_FENCE}")
    if not closing:
        raise NotJson("its code block is never closed")
    if after.strip():
        raise NotJson(f"after its code block stands {quoted(after.strip())}")
    return body.strip()


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotJson(f"the key {quoted(key, 40)} stands twice in one object")
            seen.add(key)
    return value


def _exact(text: str) -> Decimal:
    try:
        return Decimal(_bounded(text))
    except InvalidOperation as error:
        raise NotJson(f"the number {quoted(text, 40)} is out of range") from error


def _binary(text: str) -> float:
    value = float(_bounded(text))
    if not isfinite(value):
        raise NotJson(f"the number {quoted(text, 40)} is out of range")
    return value


def _whole(text: str) -> int:
    return int(_bounded(text))


def _bounded(text: str) -> str:
    if len(text) > LONGEST_NUMBER:
        raise NotJson(f"a number in it has {len(text):,} characters")
    return text


def _refuse_constant(text: str) -> NoReturn:
    raise NotJson(f"{text} is no JSON number")
