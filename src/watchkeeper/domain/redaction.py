"""Secrets are removed where text becomes a record, a log, a report or a message."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_SHORTEST_SECRET = 6
_KEY_SHAPES = re.compile(
    r"sk-ant-[A-Za-z0-9_-]{16,}"
    r"|sk-(?:proj-)?[A-Za-z0-9_-]{20,}"
    r"|xox[abposr]-[A-Za-z0-9-]{10,}"
    r"|xapp-[A-Za-z0-9-]{10,}"
    r"|gh[opsu]_[A-Za-z0-9]{20,}"
    r"|AKIA[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{35}"
)


class Redactor:
    """Replaces the values of known secrets, and well-known shapes of keys, by their names."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """``secrets`` maps the name that is shown to the value that is not.

        White space around a value is no part of it: a secret that was read from a file often ends
        with a line break, which its user strips.
        """
        values = {value.strip(): name for name, value in secrets.items()}
        found = {
            form: name
            for value, name in values.items()
            if len(value) >= _SHORTEST_SECRET
            for form in _forms(value)
        }
        # A secret that is part of another would leave the rest of that one standing.
        self._secrets = dict(sorted(found.items(), key=lambda item: -len(item[0])))

    def text(self, text: str) -> str:
        """The text without secrets, and without lone halves of surrogate pairs."""
        for value, name in self._secrets.items():
            if value in text:
                text = text.replace(value, f"[secret {name}]")
        if "-" in text or "_" in text or "AK" in text or "AI" in text:
            text = _KEY_SHAPES.sub("[secret]", text)
        return whole_text(text)

    def value(self, value: object) -> object:
        """A JSON value with every text in it, keys included, redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value


def _forms(value: str) -> tuple[str, ...]:
    """A value as it is and as JSON texts hold it, which escape quotes and other alphabets."""
    escaped = (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
    return (value, *escaped)


def whole_text(text: str) -> str:
    """The text with every lone half of a surrogate pair replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
