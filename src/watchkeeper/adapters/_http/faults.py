"""What a failed request to a team's own agent means: which fault, and whether to try again.

docs/configuration.md (kind: http) states the rule: what the infrastructure did is a fault, what
the agent reported of itself is a failed trial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.adapters._model.faults import retry_after_s
from watchkeeper.domain.redaction import Redactor
from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
)

MAX_TEXT = 500
_MAX_QUOTED = 4_000  # more than is shown: a secret that straddles the end is found whole
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,300})", re.IGNORECASE)

_Kind = tuple[type[EndpointFault], str, bool]
_KINDS: Mapping[int, _Kind] = {
    401: (EndpointRefused, "authentication", False),
    402: (EndpointRefused, "quota_exhausted", False),
    403: (EndpointRefused, "authentication", False),
    404: (EndpointRefused, "not_found", False),
    405: (EndpointRefused, "not_supported", False),
    407: (EndpointRefused, "authentication", False),
    408: (EndpointUnreachable, "timeout", True),
    409: (EndpointUnreachable, "conflict", True),
    425: (EndpointUnreachable, "conflict", True),
    429: (EndpointOverloaded, "rate_limited", True),
    501: (EndpointRefused, "not_supported", False),
    503: (EndpointOverloaded, "overloaded", True),
    504: (EndpointUnreachable, "timeout", True),
    529: (EndpointOverloaded, "overloaded", True),
}


@dataclass(frozen=True, slots=True)
class Faults:
    """Names the faults of one endpoint; their texts are one line, bounded, without secrets."""

    endpoint: str
    redactor: Redactor

    def text(self, what: str) -> str:
        """``what`` with the endpoint's name, as an error may say it."""
        line = " ".join(self.redactor.text(f"endpoint '{self.endpoint}': {what}").split())
        line = "".join(one if one.isprintable() else "�" for one in line)
        return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"

    def unreachable(self, kind: str, what: str, *, is_transient: bool = True) -> EndpointFault:
        """No answer, or one that no agent has written."""
        return EndpointUnreachable(self.text(what), kind=kind, is_transient=is_transient)

    def refused(self, kind: str, what: str) -> EndpointFault:
        """Something that the same request will meet again."""
        return EndpointRefused(self.text(what), kind=kind, is_transient=False)

    def unreadable(self, why: str, content: bytes | None, *, is_transient: bool) -> EndpointFault:
        """An answer with status 2xx that is no report, with its beginning where it was kept.

        Raised ``from None``: what it comes from may hold a secret that the service sent back.
        """
        quoted = "" if content is None else f": {_beginning(content)}"
        what = f"the answer is not what was agreed ({why}){quoted}"
        return self.unreachable("bad_response", what, is_transient=is_transient)

    def of_status(
        self, status: int, headers: Mapping[str, str], content: bytes, now: datetime
    ) -> EndpointFault:
        """The fault that an HTTP status tells.

        Args:
            status: Anything but 2xx.
            headers: Names in lower case.
            content: The beginning of the body.
            now: The time that a ``retry-after`` date is held against.
        """
        fault, kind, is_transient = _KINDS.get(status) or _by_class(status)
        what = f"HTTP {status}: {_beginning(content)}"
        if kind == "authentication":
            what = f"the service did not accept the configured headers: {what}"
        return fault(
            self.text(what),
            kind=kind,
            is_transient=is_transient,
            retry_after_s=retry_after_s(headers, now),
        )


def _by_class(status: int) -> _Kind:
    if status >= 500:
        return EndpointUnreachable, "server_error", True
    if status >= 400:
        return EndpointRefused, "invalid_request", False
    return EndpointUnreachable, "bad_response", False


def _beginning(content: bytes) -> str:
    """The first words of a body; of an HTML page its title."""
    text = content[:_MAX_QUOTED].decode("utf-8", "replace").strip()
    title = _TITLE.search(text) if text.startswith("<") else None
    return f"an HTML page, '{title.group(1).strip()}'" if title else text or "no text"
