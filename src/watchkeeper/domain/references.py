"""How configuration names a secret: ``env:NAME``, the variable that holds it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"(?:(?P<scheme>[A-Za-z]+) )?env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")


class NotSet(LookupError):
    """A variable that is referred to is not set; its only argument is the name."""


def referred_variable(text: str) -> str | None:
    """The variable that a text refers to, ``None`` where it is a text and nothing more.

    A scheme may stand before it, as in ``Bearer env:NAME``.
    """
    found = _REFERENCE.fullmatch(text)
    return found["name"] if found is not None else None


def value_of(text: str, variables: Mapping[str, str]) -> str:
    """The text itself, or with the value in place of the reference.

    Raises:
        NotSet: The variable is not set, or is empty.
    """
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    value = variables.get(found["name"], "").strip()
    if not value:
        raise NotSet(found["name"])
    return f"{found['scheme']} {value}" if found["scheme"] else value


def is_open_secret(name: str, text: object) -> bool:
    """Whether something stands under a name like that of a secret and is no reference."""
    if not any(word in name.upper() for word in _SECRET_WORDS):
        return False
    return not isinstance(text, str) or referred_variable(text) is None
