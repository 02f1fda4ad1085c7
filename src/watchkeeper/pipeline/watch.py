"""The version watch: ask every endpoint → keep what is new → hand it on → tell of retirements."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.sighting import Sighting
from watchkeeper.errors import EXIT_BROKEN, EXIT_CHANGED, EXIT_OK, EXIT_USAGE, UsageError
from watchkeeper.pipeline.steps import telling, watching
from watchkeeper.pipeline.steps.watching import Seen
from watchkeeper.wiring import Services

MOST_AT_ONCE = 8

Announce = Callable[[Endpoint, Sighting], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WatchResult:
    """What was seen of every endpoint, in the order of the configuration.

    ``announced`` are the changes that were handed on; ``undelivered_count`` messages still wait.
    """

    seen: tuple[Seen, ...]
    announced: tuple[Sighting, ...] = ()
    undelivered_count: int = 0

    @property
    def exit_code(self) -> int:
        """2 where a key is not set, 3 where one could not be asked, 4 for a change, else 0."""
        troubles = [one.trouble for one in self.seen if one.trouble is not None]
        if any(isinstance(trouble, UsageError) for trouble in troubles):
            return EXIT_USAGE
        if troubles:
            return EXIT_BROKEN
        return EXIT_CHANGED if any(one.is_changed for one in self.seen) else EXIT_OK


async def look(services: Services) -> WatchResult:
    """What every endpoint serves now; nothing is kept and nobody is told."""
    places = asyncio.Semaphore(MOST_AT_ONCE)

    async def asked(endpoint: Endpoint) -> Seen:
        async with places:
            return await watching.ask(services, endpoint)

    endpoints = services.project.endpoints.values()
    return WatchResult(tuple(await asyncio.gather(*(asked(one) for one in endpoints))))


async def check(services: Services) -> WatchResult:
    """The same beside what was seen last; what is new is kept."""
    looked = await look(services)
    return WatchResult(tuple([await _kept(services, seen) for seen in looked.seen]))


async def watch(services: Services, announce: Announce) -> WatchResult:
    """The same, and every change is handed on once, and owners hear of retirements.

    A change is noted as handed on after that was done: a watch that is killed between the two
    hands it on once more, under the same id.

    Args:
        services: The parts to work with.
        announce: Hands a change on to whoever evaluates it.
    """
    checked = await check(services)
    announced: list[Sighting] = []
    for seen in checked.seen:
        if seen.sighting is not None and await asyncio.to_thread(watching.is_owed, services, seen):
            await announce(seen.endpoint, seen.sighting)
            await asyncio.to_thread(watching.mark_announced, services, seen.sighting)
            announced.append(seen.sighting)
        if seen.served is not None:
            await asyncio.to_thread(
                watching.announce_retirement, services, seen.endpoint, seen.served
            )
    undelivered = await telling.deliver(services)
    return WatchResult(checked.seen, tuple(announced), undelivered)


async def _kept(services: Services, seen: Seen) -> Seen:
    return await asyncio.to_thread(watching.keep, services, seen)
