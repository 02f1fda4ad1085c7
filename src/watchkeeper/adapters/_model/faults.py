"""What a failed request to a model's API means: which fault, and whether to try again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from watchkeeper.adapters._model.rate_limits import LimitReader
from watchkeeper.domain.redaction import Redactor
from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
)

MAX_TEXT = 500
_MAX_QUOTED = 4000  # more than is shown: a key that straddles the end of the text is found whole

_SPENT_CODES = frozenset(
    {
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "billing_hard_limit_reached",
        "insufficient_quota",
    }
)
_SPENT = re.compile(r"usage limits?\b|spend(?:ing)? limit|credit balance", re.IGNORECASE)
_SPENT_429 = re.compile(r"\bquota\b|\bdaily\b|\bmonthly\b|\bper[ -](?:day|month)\b", re.IGNORECASE)
_SHORT_WINDOW = re.compile(r"\bper[ -](?:second|minute|min)\b|\b[rt]pm\b", re.IGNORECASE)
_FILTER_CODES = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "cyber_policy",
        "image_content_policy_violation",
        "invalid_prompt",
        "misalignment_policy_violation",
    }
)
_TOO_LONG = re.compile(
    r"prompt is too long|maximum context length|context[ _](?:length|size|window)", re.IGNORECASE
)

_Kind = tuple[type[EndpointFault], str, bool]
_KINDS: Mapping[int, _Kind] = {
    401: (EndpointRefused, "authentication", False),
    403: (EndpointRefused, "authentication", False),
    404: (EndpointRefused, "model_not_found", False),
    405: (EndpointRefused, "not_supported", False),
    408: (EndpointUnreachable, "timeout", True),
    409: (EndpointUnreachable, "conflict", True),
    429: (EndpointOverloaded, "rate_limited", True),
    501: (EndpointRefused, "not_supported", False),
    **dict.fromkeys((301, 302, 303, 307, 308), (EndpointRefused, "redirected", False)),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What an error body says: the API's word for it, a finer one, and a text."""

    type: str = ""
    code: str = ""
    text: str = "no text"

    @classmethod
    def of(cls, content: bytes) -> Told:
        """What a body says, whichever of the known shapes it has, or none."""
        plain = content[:_MAX_QUOTED].decode("utf-8", "replace").strip() or "no text"
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return cls(text=plain)
        error = body.get("error", body) if isinstance(body, dict) else body
        if not isinstance(error, dict):
            return cls(text=error if isinstance(error, str) and error else plain)
        details = error.get("details")
        finer = details.get("error_code") if isinstance(details, dict) else None
        said = error.get("message") or error.get("detail")
        return cls(
            type=str(error.get("type") or ""),
            code=str(error.get("code") or finer or ""),
            text=said if isinstance(said, str) else plain,
        )


@dataclass(frozen=True, slots=True)
class Faults:
    """Names the faults of one endpoint.

    ``place`` is how the texts begin, ``api`` what its interface is called, ``key_variable`` where
    its key comes from, ``id_header`` the header in which the server numbers its answers,
    ``limits`` reads the headers that say what is left of the provider's limits.
    """

    place: str
    model: str
    key_variable: str
    redactor: Redactor
    api: str
    id_header: str
    limits: LimitReader

    def text(self, what: str) -> str:
        """``what`` with its place, on one line, without secrets, within bounds."""
        line = " ".join(self.redactor.text(f"{self.place}: {what}").split())
        line = "".join(one if one.isprintable() else "\ufffd" for one in line)
        return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"

    def unreachable(self, kind: str, what: str, *, is_transient: bool = True) -> EndpointFault:
        """No answer, or one that is not what the interface promises."""
        return EndpointUnreachable(self.text(what), kind=kind, is_transient=is_transient)

    def unsendable(self, kind: str, what: str) -> EndpointFault:
        """A request that cannot be made, now or later."""
        return EndpointFault(self.text(what), kind=kind, is_transient=False)

    def unreadable(self, status: int, content: bytes, why: str) -> EndpointFault:
        """An answer that is not of the API, with its beginning."""
        beginning = content[:_MAX_QUOTED].decode("utf-8", "replace")
        what = f"HTTP {status} which is not of {self.api} ({why}): {beginning}"
        return self.unreachable("bad_response", what)

    def of_status(
        self,
        status: int,
        headers: Mapping[str, str],
        content: bytes,
        now: datetime,
        how: str | None = None,
    ) -> EndpointFault:
        """The fault that an HTTP status tells.

        Args:
            status: Anything but 2xx.
            headers: Names in lower case, or a mapping that does not mind.
            content: The body.
            now: The time that a ``retry-after`` date is held against.
            how: Where it was said; the status by default.
        """
        told = Told.of(content)
        fault, kind, is_transient = _classified(status, told)
        words = " ".join(word for word in (how or f"HTTP {status}", told.type, told.code) if word)
        what = f"{words}: {told.text}"
        if kind == "authentication":
            what = f"the key in {self.key_variable} was not accepted: {what}"
        elif kind == "model_not_found":
            unknown = f"model '{self.model}'" if told.type else f"{self.api}; is base_url right?"
            what = f"the server does not know {unknown}: {what}"
        elif kind == "redirected":
            place = headers.get("location", "")[:200]
            what = f"HTTP {status}: the server leads to {place!r}; put the address into base_url"
        request_id = headers.get(self.id_header)
        # In front of the server's text, which may be long enough to be cut.
        what = f"(request {request_id[:80]}) {what}" if request_id else what
        return fault(
            self.text(what),
            kind=kind,
            is_transient=is_transient,
            retry_after_s=retry_after_s(headers, now),
            limits=self.limits(headers, now),
        )


def _classified(status: int, told: Told) -> _Kind:
    """The class of a fault, its kind and whether the same request may succeed later."""
    if _is_spent(status, told):
        return (EndpointOverloaded if status == 429 else EndpointRefused), "quota_exhausted", False
    if status == 529 or told.type == "overloaded_error":
        return EndpointOverloaded, "overloaded", True
    if 400 <= status < 500 and told.code in _FILTER_CODES:
        return EndpointRefused, "content_filter", False
    if status == 400 and any(map(_TOO_LONG.search, (told.code, told.type, told.text))):
        return EndpointRefused, "context_exceeded", False
    if status in _KINDS:
        return _KINDS[status]
    if status >= 500:
        return EndpointUnreachable, "server_error", True
    if status >= 400:
        return EndpointRefused, "invalid_request", False
    return EndpointUnreachable, "bad_response", True


def _is_spent(status: int, told: Told) -> bool:
    """Whether the server says that nothing more can be had today, rather than this minute."""
    if status == 402 or told.type == "billing_error" or {told.type, told.code} & _SPENT_CODES:
        return True
    if _SHORT_WINDOW.search(told.text):
        return False
    if status == 429 and _SPENT_429.search(told.text):
        return True
    return status in {400, 403, 429} and _SPENT.search(told.text) is not None


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
