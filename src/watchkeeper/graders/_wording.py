"""Values in words: short, on one line, and text from a model always in visible quotes.

A reason is stored, paged and shown in terminals, so nothing here lets a control character, a
lone half of a surrogate pair or a change of writing direction through.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal

from watchkeeper.domain.identity import content_hash, is_name

LONGEST_REASON = 300
LONGEST_ASSERTION = 120
_LONGEST_QUOTE = 60
_BITS_SHOWN = 128


def printable(text: str) -> str:
    """The text with everything that is not printable written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def clipped(text: str, limit: int = LONGEST_REASON) -> str:
    """The text, printable and at most ``limit`` characters long; what was cut leaves a ``…``."""
    if len(text) > limit:
        text = text[: limit + 1]  # escapes only lengthen it
    text = printable(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def quoted(text: str, limit: int = _LONGEST_QUOTE) -> str:
    """The text in quotes, escaped as in Python, at most about ``limit`` characters of it."""
    head = text[:limit]
    body = repr(head)
    while len(body) > limit + 2:
        head = head[: max(len(head) - max(1, (len(body) - limit - 2) // 10), 0)]
        body = repr(head)
    return body if len(head) == len(text) else f"{body}… ({len(text):,} characters)"


def named(name: str) -> str:
    """A name as it is where it looks like one, else in quotes: a model may call a tool anything."""
    return name if is_name(name) else quoted(name, 40)


def shown(value: object, limit: int = _LONGEST_QUOTE) -> str:
    """What kind of value this is and, where it is small, which one; never descends into it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {quoted(value, limit)}"
    if isinstance(value, int | float | Decimal):
        return f"the number {number_text(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, Mapping):
        return f"a mapping with {len(value)} keys" if value else "an empty mapping"
    return f"a value of type {clipped(type(value).__name__, 40)}"


def number_text(value: float | Decimal) -> str:
    """The number, shortened where it is long; an integer of any size costs nothing to show."""
    if isinstance(value, int):
        if value.bit_length() > _BITS_SHOWN:
            return f"of about {round(value.bit_length() * 0.30103):,} digits"
        return int.__repr__(value)
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    return text.removesuffix(".0") if len(text) <= 40 else f"{text[:40]}…"


def compact(value: object, limit: int = LONGEST_ASSERTION) -> str:
    """A configured JSON value on one line; where it is cut, a hash keeps it distinguishable."""
    text = printable(json.dumps(value, ensure_ascii=False, sort_keys=True))
    return _marked(text, limit, value)


def titled(text: str, limit: int = LONGEST_ASSERTION) -> str:
    """A configured text in quotes; where it is cut, a hash keeps it distinguishable."""
    return _marked(repr(text[: limit + 1]), limit, text)


def _marked(text: str, limit: int, value: object) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… #{content_hash(value)[:8]}"


def counted(count: int, what: str) -> str:
    """``1 call``, ``3 calls``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, or ``None`` where none is close."""
    closest = difflib.get_close_matches(name, sorted(known), n=1)
    return closest[0] if closest else None


def known_names(name: str, known: Iterable[str]) -> str:
    """``did you mean 'x'? known: …``, for the end of an error."""
    names = sorted(known)
    closest = nearest(name, names)
    hint = f"did you mean '{closest}'? " if closest else ""
    return f"{hint}known: {', '.join(names)}"
