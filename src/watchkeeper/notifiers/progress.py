"""One run's progress in a line of text, for a terminal, a log or Prefect's pages."""

from __future__ import annotations

from watchkeeper.domain.progress import Progress
from watchkeeper.notifiers import wording
from watchkeeper.notifiers.text import one_line


def progress_line(run: Progress) -> str:
    """One run on one line: done / planned, rounds, cost so far, waiting, time left."""
    parts = [
        f"{run.done_count:,}/{run.planned_count:,} trials",
        wording.count(run.round_count, "round"),
        _cost(run),
    ]
    if run.broken_count:
        parts.append(f"{run.broken_count:,} without an answer")
    if run.waiting_count:
        parts.append(f"{run.waiting_count:,} waiting for limits")
    if run.left_s is not None and run.done_count < run.planned_count:
        parts.append(f"about {_duration(run.left_s)} left")
    return one_line(f"{run.endpoint} × {run.suite}: {', '.join(parts)}")


def _cost(run: Progress) -> str:
    known = wording.dollars(run.cost_usd)
    if not run.unpriced_count:
        return known
    return f"{known} and {run.unpriced_count:,} attempts without a price"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
