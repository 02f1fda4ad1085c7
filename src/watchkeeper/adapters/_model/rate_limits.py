"""What is left of a provider's limits, as the headers of its answers say it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from watchkeeper.domain.ports import RateLimits

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS_OF = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

LimitReader = Callable[[Mapping[str, str], datetime], RateLimits | None]


@dataclass(frozen=True, slots=True)
class _Window:
    """One limit: what is left, of how much, and the seconds until it is whole again."""

    left: int
    limit: int | None
    reset_s: float | None

    @property
    def share(self) -> float:
        """What is left of it, from 0 to 1."""
        return self.left / self.limit if self.limit else float(self.left > 0)


def anthropic_limits(headers: Mapping[str, str], now: datetime) -> RateLimits | None:
    """From the headers of the Messages API, which count input and output apart."""

    def window(what: str) -> _Window | None:
        name = f"anthropic-ratelimit-{what}"
        reset = _seconds_until(headers.get(f"{name}-reset", ""), now)
        return _window(headers, f"{name}-remaining", f"{name}-limit", reset)

    written = window("output-tokens")
    read = window("input-tokens") or (window("tokens") if written is None else None)
    return _limits(window("requests"), read, written)


def openai_limits(
    headers: Mapping[str, str],
    now: datetime,  # noqa: ARG001 - they count in seconds
) -> RateLimits | None:
    """From the headers that OpenAI's API and those made after it have."""

    def window(what: str) -> _Window | None:
        reset = _duration_s(headers.get(f"x-ratelimit-reset-{what}", ""))
        left, limit = f"x-ratelimit-remaining-{what}", f"x-ratelimit-limit-{what}"
        return _window(headers, left, limit, reset)

    return _limits(window("requests"), window("tokens"), None)


def _limits(
    requests: _Window | None, read: _Window | None, written: _Window | None
) -> RateLimits | None:
    known = [one for one in (requests, read, written) if one is not None]
    if not known:
        return None
    return RateLimits(
        requests_left=requests.left if requests else None,
        tokens_left=read.left if read else None,
        reset_s=min(known, key=lambda one: one.share).reset_s,
        output_tokens_left=written.left if written else None,
    )


def _window(
    headers: Mapping[str, str], left: str, limit: str, reset_s: float | None
) -> _Window | None:
    count = _count(headers.get(left, ""))
    return None if count is None else _Window(count, _count(headers.get(limit, "")), reset_s)


def _count(text: str) -> int | None:
    """A count of at most 18 digits; anything else is unknown."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _seconds_until(text: str, now: datetime) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _duration_s(text: str) -> float | None:
    """Seconds in a duration as in ``1h2m3.5s`` or ``250ms``; a bare number is of seconds."""
    if len(text) <= 40 and _WHOLE.fullmatch(text):
        return sum(float(number) * _SECONDS_OF[unit] for number, unit in _PART.findall(text))
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
