"""The view of what goes on: live on a terminal, quiet lines elsewhere; never on standard output."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO

from watchkeeper.notifiers.progress import progress_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from watchkeeper.domain.progress import Progress
    from watchkeeper.rollout.progress import ProgressBoard

LINE_EVERY_S = 30.0
LINE_EVERY_SHARE = 0.1
_LOOK_EVERY_S = 0.25


@contextlib.contextmanager
def showing(board: ProgressBoard, out: TextIO | None = None) -> Iterator[None]:
    """Shows the board's runs within the block, on standard error by default."""
    stream = out or sys.stderr
    if stream.isatty():
        with _live(board, stream):
            yield
        return
    lines = QuietLines()

    def look() -> None:
        for line in lines.lines(board.now(), time.monotonic()):
            print(line, file=stream, flush=True)

    with _repeating(look):
        yield


class QuietLines:
    """Decides which lines are worth a log: each tenth of a run, and at most every 30 s between."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, float]] = {}

    def lines(self, runs: Iterable[Progress], at: float) -> list[str]:
        """The lines for this moment; ``at`` in seconds of any clock that does not run back."""
        found: list[str] = []
        for run in runs:
            share, told_at = self._told.setdefault(run.run_id, (run.share, at))
            is_further = run.share >= share + LINE_EVERY_SHARE
            is_late = at - told_at >= LINE_EVERY_S
            if is_further or is_late:
                self._told[run.run_id] = (run.share, at)
                found.append(progress_line(run))
        return found


@contextlib.contextmanager
def _repeating(look: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def loop() -> None:
        while not ended.wait(_LOOK_EVERY_S):
            look()

    thread = threading.Thread(target=loop, name="watchkeeper-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def _live(board: ProgressBoard, stream: TextIO) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream, highlight=False)
    view = Live(
        console=console,
        get_renderable=lambda: live_view(board.now()),
        refresh_per_second=1 / _LOOK_EVERY_S,
        transient=True,
        # Lines that others write to standard error meanwhile stand above the view.
        redirect_stdout=False,
        redirect_stderr=stream is sys.stderr,
    )
    with view:
        yield


def live_view(runs: Iterable[Progress]) -> RenderableType:
    """A row a run with a bar; text of ours and of names, none of it read as markup."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    for run in runs:
        bar = ProgressBar(total=max(run.planned_count, 1), completed=run.done_count, width=24)
        table.add_row(bar, Text(progress_line(run), overflow="ellipsis", no_wrap=True))
    return table
