"""How far a pair's run is, on Prefect's pages, while it goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

from watchkeeper.flows.runs import plain
from watchkeeper.flows.summary import escaped
from watchkeeper.notifiers.progress import progress_line
from watchkeeper.rollout.progress import RunProgress
from watchkeeper.wiring import Services

PROGRESS_KEY = "watchkeeper-progress"
EVERY_S = 5.0


@contextlib.asynccontextmanager
async def shown_progress(services: Services, endpoint: str, suite: str) -> AsyncIterator[None]:
    """Shows the newest run of a pair within the block, to the flow run that it stands in.

    Trouble with that is told once and changes nothing.
    """
    view = _View()
    following = asyncio.create_task(_follow(view, services, endpoint, suite))
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await _tried(view.show(), services)  # as it ended


@dataclass(slots=True)
class _View:
    """What Prefect's pages show of one run after another."""

    run: RunProgress | None = None
    artifact: UUID | None = None
    shown_count: int = -1

    async def show(self) -> None:
        if self.run is None:
            return
        now = self.run.now()
        if now.done_count == self.shown_count:
            return
        self.shown_count = now.done_count
        percent, line = 100 * now.share, escaped(progress_line(now))
        if self.artifact is None:
            self.artifact = await acreate_progress_artifact(percent, PROGRESS_KEY, line)
        else:
            await aupdate_progress_artifact(self.artifact, percent, line)


async def _follow(view: _View, services: Services, endpoint: str, suite: str) -> None:
    while True:
        newest = services.board.newest(endpoint, suite)
        if newest is not None and newest is not view.run:
            view.run, view.shown_count = newest, -1
        if not await _tried(view.show(), services):
            return
        await asyncio.sleep(EVERY_S)


async def _tried(showing: Awaitable[None], services: Services) -> bool:
    """Whether it was shown; trouble is told."""
    try:
        await showing
    except Exception as trouble:  # noqa: BLE001 - what is shown is stored already
        services.tell(f"Prefect: {PROGRESS_KEY} is not shown: {plain(trouble, services)}")
        return False
    return True
