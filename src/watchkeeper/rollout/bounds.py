"""What the configuration allows one account to be asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """What the configuration allows; ``None`` means unbounded."""

    concurrency: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def shared_with(self, other: RequestBounds) -> RequestBounds:
        """Of two endpoints with one account: the wider concurrency, the stricter rates."""
        return RequestBounds(
            max(self.concurrency, other.concurrency),
            _smaller(self.requests_per_minute, other.requests_per_minute),
            _smaller(self.tokens_per_minute, other.tokens_per_minute),
        )


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
