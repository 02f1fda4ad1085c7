"""Whether a found value is the expected one; strict about types, exact about numbers.

Numbers are compared as decimals, exactly as they were written: 100.0 is 100, and what a computer
makes of 0.1 + 0.2 is not 0.3. A boolean is never a number. Text equals only the same text; where a
locale is declared, text found in place of a number is read as a number of that locale, or does not
match.
Recursion follows the expected value alone, whose depth was bounded when it was loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import isfinite

from watchkeeper.graders._locale import NotANumber, number_in
from watchkeeper.graders._wording import clipped, number_text, quoted, shown

_BITS_OF_A_FLOAT = 1_100


@dataclass(frozen=True, slots=True)
class Missing:
    """Nothing stands at a path; ``reason`` says where the way there ended."""

    reason: str


def difference(
    expected: object,
    found: object,
    path: str = "",
    *,
    is_partial: bool = False,
    locale: str | None = None,
) -> str | None:
    """The first thing in which ``found`` is not what was expected, in words; ``None``: nothing.

    Args:
        expected: A JSON value from a case.
        found: Anything at all.
        path: Where the value stands, for the words.
        is_partial: A found mapping may hold more keys than the expected one, at every depth;
            lists always have the same length.
        locale: A known locale, by which text in place of a number is read.
    """
    if isinstance(expected, Mapping):
        return _mapping_difference(expected, found, path, is_partial, locale)
    if isinstance(expected, list):
        if not isinstance(found, list | tuple) or len(found) != len(expected):
            return _words(expected, found, path)
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            problem = difference(
                one, other, _below(path, index), is_partial=is_partial, locale=locale
            )
            if problem is not None:
                return problem
        return None
    if _is_number(expected) and isinstance(found, str):
        return _text_difference(expected, found, path, locale)
    is_equal = (
        _numbers_equal(expected, found)
        if _is_number(expected)
        else type(expected) is type(found) and expected == found
    )
    return None if is_equal else _words(expected, found, path)


def _mapping_difference(
    expected: Mapping[str, object],
    found: object,
    path: str,
    is_partial: bool,
    locale: str | None,
) -> str | None:
    if not isinstance(found, Mapping):
        return _words(expected, found, path)
    for key, one in expected.items():
        where = _below(path, key)
        if key not in found:
            return f"{where} is missing"
        problem = difference(one, found[key], where, is_partial=is_partial, locale=locale)
        if problem is not None:
            return problem
    if not is_partial and len(found) > len(expected):
        extra = next(key for key in found if key not in expected)
        return f"{_below(path, str(extra))} is there and was not expected"
    return None


def _text_difference(expected: object, found: str, path: str, locale: str | None) -> str | None:
    if locale is None:
        words = _words(expected, found, path)
        return f"{words} (text is read as a number only with a 'locale')"
    try:
        number = number_in(found, locale)
    except NotANumber as error:
        return f"{path}: {error}, expected {shown(expected)}"
    if _numbers_equal(expected, number):
        return None
    value = number_text(number)
    return f"{path}: found {quoted(found)}, {value} in {locale}, expected {shown(expected)}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _numbers_equal(expected: object, found: object) -> bool:
    if not _is_number(found):
        return False
    if isinstance(expected, int) and isinstance(found, int):
        return expected == found
    one, other = _decimal(expected), _decimal(found)
    return one is not None and other is not None and one == other


def _decimal(number: object) -> Decimal | None:
    """The number exactly as it is written, or ``None`` where no finite float can equal it."""
    if isinstance(number, int):
        return Decimal(number) if number.bit_length() <= _BITS_OF_A_FLOAT else None
    if isinstance(number, float):
        return Decimal(float.__repr__(number)) if isfinite(number) else None
    if isinstance(number, Decimal):
        return number if number.is_finite() else None
    return None


def _words(expected: object, found: object, path: str) -> str:
    where = f"{path}: " if path else ""
    return f"{where}found {shown(found)}, expected {shown(expected)}"


def _below(path: str, key: str | int) -> str:
    name = clipped(str(key), 60)
    return f"{path}.{name}" if path else name


@lru_cache(maxsize=4096)
def split_path(path: str) -> tuple[str, ...]:
    r"""The steps of a dotted path; ``\.`` is a dot within a key, and ``\\`` a backslash.

    Raises:
        ValueError: A step is empty, or a backslash stands before anything else.
    """
    steps: list[str] = [""]
    characters = iter(path)
    for one in characters:
        if one == "\\":
            escaped = next(characters, "")
            if escaped not in (".", "\\"):
                raise ValueError(r"a backslash stands only before '.' or another backslash")
            steps[-1] += escaped
        elif one == ".":
            steps.append("")
        else:
            steps[-1] += one
    if not all(steps):
        raise ValueError("expected keys and list indices with single dots between: items.0.price")
    return tuple(steps)


def value_at(value: object, path: str) -> object:
    """What stands at a dotted path, or ``Missing``; a step of digits counts a list from 0."""
    way = ""
    for step in split_path(path):
        here = f"{way} is" if way else "it is"
        way = _below(way, step)
        if isinstance(value, Mapping):
            if step not in value:
                return Missing(f"{way} is missing")
            value = value[step]
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            is_index = step.isascii() and step.isdigit() and len(step) <= 9
            if not is_index or int(step) >= len(value):
                return Missing(f"{way} is missing: {here} {shown(value)}")
            value = value[int(step)]
        else:
            return Missing(f"{way} is missing: {here} {shown(value)}")
    return value
