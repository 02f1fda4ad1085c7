"""The machine's clock, moved to the night of a test."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta


class SlotClock:
    """Time runs and is waited for as always; only the date is the slot's.

    With real parts a simulated clock would show no latency and wait for nobody.
    """

    def __init__(self, slot_at: datetime) -> None:
        self._slot_at = slot_at
        self._started = time.monotonic()

    def now(self) -> datetime:
        """The slot, and what has passed since the clock was made."""
        return self._slot_at + timedelta(seconds=time.monotonic() - self._started)

    def monotonic(self) -> float:
        """The machine's own."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits for real."""
        await asyncio.sleep(seconds)
