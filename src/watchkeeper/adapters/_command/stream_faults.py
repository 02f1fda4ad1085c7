"""When a CLI agent says that its provider failed: an outage is never the agent's failure."""

from __future__ import annotations

import re

from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
)

MAX_TEXT = 500
_SPENT = re.compile(
    r"usage limit|spend(?:ing)? limit|credit balance|quota|billing|out of credits", re.IGNORECASE
)
_STATUS = re.compile(
    r"(?:API Error|unexpected status|last status|status code|HTTP)[:\s]+(\d{3})\b", re.IGNORECASE
)
_CONNECTION = re.compile(
    r"connection (?:error|refused|reset|closed|timed out)|stream (?:disconnected|closed)"
    r"|error sending request|fetch failed|ECONNREFUSED|ECONNRESET|ENOTFOUND|ETIMEDOUT"
    r"|request timed out|timeout waiting for",
    re.IGNORECASE,
)


def status_in(text: str) -> int | None:
    """The HTTP status that an error's text names, where it names one."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def provider_fault(text: str, status: int | None = None) -> EndpointFault | None:
    """The fault behind an agent's error; ``None`` where it is the agent's own.

    A request that the provider calls wrong (400, 413, 422) is the agent's own doing: it made it.

    Args:
        text: What the agent says, which is the fault's text as it is: whoever passes it on
            removes secrets before it is cut.
        status: The HTTP status where the stream has it apart from the text.
    """
    code = status if status is not None else status_in(text)
    if code == 402 or (code in {None, 403, 429} and _SPENT.search(text)):
        return _fault(EndpointRefused, text, "quota_exhausted", is_transient=False)
    if code in {401, 403}:
        return _fault(EndpointRefused, text, "authentication", is_transient=False)
    if code == 404:
        return _fault(EndpointRefused, text, "model_not_found", is_transient=False)
    if code == 429:
        return _fault(EndpointOverloaded, text, "rate_limited", is_transient=True)
    if code == 529:
        return _fault(EndpointOverloaded, text, "overloaded", is_transient=True)
    if code == 408 or (code is None and _CONNECTION.search(text)):
        return _fault(EndpointUnreachable, text, "connection", is_transient=True)
    if code is not None and code >= 500:
        return _fault(EndpointUnreachable, text, "server_error", is_transient=True)
    return None


def _fault(
    kind_of_fault: type[EndpointFault], text: str, kind: str, *, is_transient: bool
) -> EndpointFault:
    return kind_of_fault(text, kind=kind, is_transient=is_transient)


def one_line(text: str) -> str:
    """A foreign text for an error: printable, on one line, within bounds."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"
