"""The view of what goes on: live on a terminal, quiet lines elsewhere; never on standard output."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO

from watchkeeper.notifiers.text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from watchkeeper.rollout.progress import Progress, ProgressBoard

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


def progress_line(run: Progress) -> str:
    """One run on one line: done / planned, rounds, cost so far, waiting, time left."""
    parts = [f"{run.done_count:,}/{run.planned_count:,} trials", f"{run.round_count:,} rounds"]
    parts.append(_cost(run))
    if run.broken_count:
        parts.append(f"{run.broken_count:,} without an answer")
    if run.waiting_count:
        parts.append(f"{run.waiting_count:,} waiting for limits")
    if run.left_s is not None and run.done_count < run.planned_count:
        parts.append(f"about {_duration(run.left_s)} left")
    return one_line(f"{run.endpoint} × {run.suite}: {', '.join(parts)}")


def _cost(run: Progress) -> str:
    known = f"${run.cost_usd:,.2f}"
    if not run.unpriced_count:
        return known
    return f"{known} and {run.unpriced_count:,} attempts without a price"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


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
