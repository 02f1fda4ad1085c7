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
from watchkeeper.rollout.progress import ProgressBoard, RunProgress
from watchkeeper.wiring import Services

PROGRESS_KEY = "watchkeeper-progress"
EVERY_S = 5.0


@contextlib.asynccontextmanager
async def shown_progress(services: Services, endpoint: str, suite: str) -> AsyncIterator[None]:
    """Shows the newest run of a pair within the block, to the flow run that it stands in.

    Trouble with that is told once and changes nothing.
    """
    view = _View(services.board.newest(endpoint, suite), endpoint, suite)
    following = asyncio.create_task(_follow(view, services))
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await _tried(view.show(services.board), services)  # as it ended


@dataclass(slots=True)
class _View:
    """What Prefect's pages show of one run after another."""

    before: RunProgress | None
    endpoint: str
    suite: str
    artifact: UUID | None = None
    shown: tuple[str, int] | None = None

    async def show(self, board: ProgressBoard) -> None:
        run = board.newest(self.endpoint, self.suite)
        if run is None or run is self.before:
            return
        now = run.now()
        if (now.run_id, now.done_count) == self.shown:
            return
        self.shown = (now.run_id, now.done_count)
        percent, line = 100 * now.share, escaped(progress_line(now))
        if self.artifact is None:
            self.artifact = await acreate_progress_artifact(percent, PROGRESS_KEY, line)
        else:
            await aupdate_progress_artifact(self.artifact, percent, line)


async def _follow(view: _View, services: Services) -> None:
    while await _tried(view.show(services.board), services):  # noqa: ASYNC110 - it looks, nothing rings
        await asyncio.sleep(EVERY_S)


async def _tried(showing: Awaitable[None], services: Services) -> bool:
    """Whether it was shown; trouble is told."""
    try:
        await showing
    except Exception as trouble:  # noqa: BLE001 - what is shown is stored already
        services.tell(f"Prefect: {PROGRESS_KEY} is not shown: {plain(trouble, services)}")
        return False
    return True
