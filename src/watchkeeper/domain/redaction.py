"""Secrets are removed where text becomes a record, a log, a report or a message."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, quote_plus

_SHORTEST_SECRET = 6
_SHORT, _REMEMBERED = 64, 2048
_SHORTEST_ENCODED = 10
_KEY_SHAPES = re.compile(
    r"sk-ant-[A-Za-z0-9_-]{16,}"
    r"|sk-(?:proj-)?[A-Za-z0-9_-]{20,}"
    r"|xox[abposr]-[A-Za-z0-9-]{10,}"
    r"|xapp-[A-Za-z0-9-]{10,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,}"
    r"|[rs]k_live_[0-9A-Za-z]{16,}"
    r"|\bhf_[A-Za-z0-9]{30,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"
    r"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# One of these stands in every such key; looking for them is cheaper than for the shapes.
_HINTS = ("sk-", "xox", "xapp-", "gh", "glpat-", "IA", "AIza", "ya29", "_live_", "hf_", "eyJ")
_RARE_HINTS = ("hooks.slack", "PRIVATE KEY-----")


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
        # Names of columns, statuses and models come again in every row.
        self._short = lru_cache(_REMEMBERED)(self._redacted)

    def text(self, text: str) -> str:
        """The text without secrets, and without lone halves of surrogate pairs."""
        return self._short(text) if len(text) <= _SHORT else self._redacted(text)

    def _redacted(self, text: str) -> str:
        for value, name in self._secrets.items():
            if value in text:
                text = text.replace(value, f"[secret {name}]")
        if any(hint in text for hint in (*_HINTS, *_RARE_HINTS)):
            text = _KEY_SHAPES.sub("[secret]", text)
        return whole_text(text)

    def value(self, value: object) -> object:
        """A JSON value with every text in it, keys included, redacted."""
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value


def _forms(value: str) -> tuple[str, ...]:
    """A value as it is, as JSON texts and addresses hold it, and as basic authentication does."""
    escaped = (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
    quoted = (quote(value, safe=""), quote_plus(value))
    return (value, *escaped, *quoted, *_within_base64(value.encode()))


def _within_base64(value: bytes) -> list[str]:
    """What base64 makes of a value, wherever it begins in what is encoded (``user:key``)."""
    found: list[str] = []
    for before in range(3):
        encoded = b64encode(bytes(before) + value).decode()
        whole = encoded[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]
        if len(whole) >= _SHORTEST_ENCODED:
            found.append(whole)
    return found


def whole_text(text: str) -> str:
    """The text with every lone half of a surrogate pair replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
