"""Waits that end early when something has changed."""

from __future__ import annotations

import asyncio

from watchkeeper.domain.ports import Clock


async def sleep_unless(changed: asyncio.Event, seconds: float, clock: Clock) -> None:
    """Waits for so long by the clock, or until the event is set; it is cleared first."""
    changed.clear()
    both = (asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(changed.wait()))
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in both:
            one.cancel()
        await asyncio.gather(*both, return_exceptions=True)
