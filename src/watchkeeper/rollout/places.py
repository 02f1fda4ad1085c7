"""How many trials of an endpoint are open at the same time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator

OPEN_TRIALS_A_PLACE = 4


class Places:
    """Lets trials begin in the order in which they came.

    A trial that waits to repeat a refused request may lend its place, so that another can begin
    meanwhile; it goes on without asking for one again. So at most four times as many trials are
    open as there are places, and no more than the places while nothing is refused.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._busy = 0
        self._open = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    @contextlib.asynccontextmanager
    async def trial(self) -> AsyncIterator[None]:
        """Around one trial, from the moment that it may begin."""
        await self._take()
        try:
            yield
        finally:
            self._give_back()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Around a wait of an open trial."""
        self._busy -= 1
        self._let_in()
        try:
            yield
        finally:
            self._busy += 1

    @property
    def _has_room(self) -> bool:
        return self._busy < self._count and self._open < self._count * OPEN_TRIALS_A_PLACE

    async def _take(self) -> None:
        if not self._queue and self._has_room:
            self._busy += 1
            self._open += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn  # whoever ends it has taken the place for this trial
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def _give_back(self) -> None:
        self._busy -= 1
        self._open -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._queue and self._has_room:
            turn = self._queue.popleft()
            if not turn.done():
                self._busy += 1
                self._open += 1
                turn.set_result(None)
