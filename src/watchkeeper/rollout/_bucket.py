"""A bound per minute: a bucket that fills steadily and may be overdrawn by one request."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Bucket:
    """Holds what may be used at once: a second's share of the minute, and at least one.

    What a request really used is known when it is answered. It is taken then, and whoever comes
    next waits for as long as the bucket is overdrawn; so a minute never sees more than its bound,
    a second's share and what was in flight.
    """

    per_minute: float
    now: float
    _level: float = field(init=False)

    def __post_init__(self) -> None:
        self._level = self._capacity

    def take(self, amount: float, now: float) -> None:
        """Uses so much; a negative amount gives back."""
        self._fill(now)
        self._level = min(self._level - amount, self._capacity)

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until so much may be used; 0: now."""
        self._fill(now)
        missing = min(amount, self._capacity) - self._level
        # A billionth more or less is rounding, and would be waited for again and again.
        return missing * 60 / self.per_minute if missing > 1e-9 * self._capacity else 0.0

    @property
    def _capacity(self) -> float:
        return max(1.0, self.per_minute / 60)

    def _fill(self, now: float) -> None:
        gained = max(now - self.now, 0.0) * self.per_minute / 60
        self._level = min(self._level + gained, self._capacity)
        self.now = max(now, self.now)
