"""What a failed request to the Messages API means: which fault, and whether to try again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from watchkeeper.domain.redaction import Redactor
from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
)

MAX_TEXT = 500
_MAX_QUOTED = 4000  # more than is shown: a key that straddles the end of the text is found whole

_SPENT_CODES = frozenset({"contract_spend_limit_reached", "enforced_spend_limit_reached"})
_SPENT = re.compile(r"usage limits?\b|spend(?:ing)? limit|credit balance", re.IGNORECASE)
_SPENT_429 = re.compile(r"\bquota\b|\bdaily\b|\bmonthly\b|\bper[ -](?:day|month)\b", re.IGNORECASE)
_SHORT_WINDOW = re.compile(r"\bper[ -](?:second|minute)\b|\b[rt]pm\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Faults:
    """Names the faults of one endpoint; ``key_variable`` is where its key comes from."""

    endpoint: str
    model: str
    key_variable: str
    redactor: Redactor

    def text(self, what: str) -> str:
        """``what`` with the endpoint's name, on one line, without secrets, within bounds."""
        line = " ".join(self.redactor.text(f"endpoint '{self.endpoint}': {what}").split())
        return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"

    def unreachable(self, kind: str, what: str, *, is_transient: bool = True) -> EndpointFault:
        """No answer, or one that is not what the interface promises."""
        return EndpointUnreachable(self.text(what), kind=kind, is_transient=is_transient)

    def unreadable(self, status: int, content: bytes, why: str) -> EndpointFault:
        """An answer that is not of the Messages API, with its beginning."""
        beginning = content[:_MAX_QUOTED].decode("utf-8", "replace")
        what = f"HTTP {status} which is not of the Messages API ({why}): {beginning}"
        return self.unreachable("bad_response", what)

    def of_status(
        self, status: int, headers: Mapping[str, str], body: object, now: datetime
    ) -> EndpointFault:
        """The fault that an HTTP status tells.

        Args:
            status: Anything but 2xx.
            headers: Names in lower case, or a mapping that does not mind.
            body: The decoded JSON, or the text where it was none.
            now: The time that a ``retry-after`` date is held against.
        """
        error = body.get("error") if isinstance(body, Mapping) else None
        error = error if isinstance(error, Mapping) else {}
        details = error.get("details")
        code = details.get("error_code") if isinstance(details, Mapping) else None
        said = str(error.get("message") or (body if isinstance(body, str) else "") or "no text")
        type_ = str(error.get("type") or "")
        fault, kind, is_transient = _classified(status, type_, str(code or ""), said)
        what = f"HTTP {status} {type_}: {said}" if type_ else f"HTTP {status}: {said}"
        if kind == "authentication":
            what = f"the key in {self.key_variable} was not accepted: {what}"
        elif kind == "model_not_found":
            unknown = f"model '{self.model}'" if type_ else "the Messages API; is base_url right?"
            what = f"the server does not know {unknown}: {what}"
        request_id = headers.get("request-id")
        # In front of the server's text, which may be long enough to be cut.
        what = f"(request {request_id[:80]}) {what}" if request_id else what
        return fault(
            self.text(what),
            kind=kind,
            is_transient=is_transient,
            retry_after_s=retry_after_s(headers, now),
        )


def _classified(
    status: int, type_: str, code: str, said: str
) -> tuple[type[EndpointFault], str, bool]:
    """The class of a fault, its kind and whether the same request may succeed later."""
    if _is_spent(status, type_, code, said):
        return (EndpointOverloaded if status == 429 else EndpointRefused), "quota_exhausted", False
    if status == 529 or type_ == "overloaded_error":
        return EndpointOverloaded, "overloaded", True
    known: dict[int, tuple[type[EndpointFault], str, bool]] = {
        401: (EndpointRefused, "authentication", False),
        403: (EndpointRefused, "authentication", False),
        404: (EndpointRefused, "model_not_found", False),
        405: (EndpointRefused, "not_supported", False),
        408: (EndpointUnreachable, "timeout", True),
        409: (EndpointUnreachable, "conflict", True),
        429: (EndpointOverloaded, "rate_limited", True),
        501: (EndpointRefused, "not_supported", False),
    }
    if status in known:
        return known[status]
    if status >= 500:
        return EndpointUnreachable, "server_error", True
    if status >= 400:
        return EndpointRefused, "invalid_request", False
    return EndpointUnreachable, "bad_response", True


def _is_spent(status: int, type_: str, code: str, said: str) -> bool:
    """Whether the server says that nothing more can be had today, rather than this minute."""
    if status == 402 or type_ == "billing_error" or code in _SPENT_CODES:
        return True
    if _SHORT_WINDOW.search(said):
        return False
    if status == 429 and _SPENT_429.search(said):
        return True
    return status in {400, 403, 429} and _SPENT.search(said) is not None


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds that the provider asks to wait, from 0 on; ``None`` where it does not say.

    Not capped: how long anybody waits is the caller's to bound.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
