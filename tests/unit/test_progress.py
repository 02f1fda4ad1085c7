"""What people are shown while runs go on: how far, how dear, how long still; and when."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from tests.flows.nights import evaluated
from tests.projects import bench, case, suite, write_project
from watchkeeper.cli.progress import QuietLines, live_view, showing
from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.progress import Progress
from watchkeeper.domain.trajectory import Round, Trajectory
from watchkeeper.domain.trial import SimulatorUse, Trial
from watchkeeper.notifiers.progress import progress_line
from watchkeeper.rollout.progress import ProgressBoard, RunProgress

START = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
RUN = Progress("r", "agent", "basic", 200, 50, 2, 8, 3, 120, 1.5, 0, 30.0, 90.0)


def trial(name: str, *, rounds: int = 2, cost_usd: float | None = 0.25, **more: object) -> Trial:
    """A finished attempt."""
    one = Trial(
        run_id="r",
        trial_id=name,
        attempt=1,
        case_id="c",
        index=0,
        status="completed",
        stop_reason="answered",
        trajectory=Trajectory((Round(),) * rounds),
        requested_model=None,
        started_at=START,
        ended_at=START,
        latency_ms=1.0,
        cost_usd=cost_usd,
    )
    return replace(one, **more)  # type: ignore[arg-type]


def test_a_run_is_what_its_trials_were() -> None:
    """Second attempts are no further trials; what has no price is said, not taken for nothing."""
    clock = SimulatedClock(START)
    run = RunProgress("r", "agent", "basic", 10, clock)
    run.counted(trial("before", cost_usd=1.0))
    assert (run.now().done_count, run.now().left_s) == (1, None)
    for number in range(3):
        run.begun()
        clock.move_to(START.replace(minute=31 + number))
        run.ended(trial(f"t{number}", status="harness_error" if number == 2 else "completed"))
    run.begun()
    run.waits(1)
    user = SimulatorUse("grumpy", (), 0.5)
    run.ended(trial("t2", cost_usd=None, simulator=user))
    run.begun()
    now = run.now()
    assert (now.done_count, now.planned_count, now.broken_count) == (4, 10, 0)
    assert (now.in_flight_count, now.waiting_count, now.round_count) == (1, 1, 10)
    assert (now.cost_usd, now.unpriced_count) == (2.25, 1)
    assert (now.seconds, now.left_s) == (180.0, 180.0 / 4 * 6)
    run.waits(-1)
    assert run.now().waiting_count == 0


def test_a_line_says_all_of_it() -> None:
    """Done of planned, rounds, dollars, what has no answer, what waits, what is left."""
    assert progress_line(RUN) == (
        "agent × basic: 50/200 trials, 120 rounds, $1.50, 2 without an answer, "
        "3 waiting for limits, about 1 min 30 s left"
    )
    quiet = replace(RUN, broken_count=0, waiting_count=0, left_s=None, unpriced_count=7)
    assert progress_line(quiet) == (
        "agent × basic: 50/200 trials, 120 rounds, $1.50 and 7 attempts without a price"
    )
    assert "about 2 h 05 min left" in progress_line(replace(RUN, left_s=7500.0))


def test_quiet_lines_are_few() -> None:
    """A log gets a line each tenth, or each 30 s; nothing where nothing has happened yet."""
    lines = QuietLines()
    assert lines.lines([replace(RUN, done_count=0)], 0.0) == []
    assert lines.lines([replace(RUN, done_count=19)], 10.0) == []
    assert len(lines.lines([replace(RUN, done_count=20)], 11.0)) == 1
    assert lines.lines([replace(RUN, done_count=21)], 40.9) == []
    assert len(lines.lines([replace(RUN, done_count=21)], 41.0)) == 1


def test_names_are_text_in_the_live_view() -> None:
    """Square brackets and control characters of a name are shown, never acted on."""
    out = io.StringIO()
    odd = replace(RUN, endpoint="[red]agent[/red]", suite="a\x1b[2Jb")
    Console(file=out, width=200, force_terminal=False).print(live_view([odd, RUN]))
    text = out.getvalue()
    assert "[red]agent[/red]" in text
    assert "\x1b[2J" not in text
    assert text.count("trials") == 2


def test_a_runs_board_is_empty_after_it(tmp_path: Path) -> None:
    """A run is followed from its plan to its end, and every planned trial is counted."""
    cases = [case(f"case-{number}") for number in range(4)]
    made = bench(write_project(tmp_path, suites={"basic": suite(cases)}))
    seen: list[Progress] = []
    drop = made.services.board.drop

    def seen_and_dropped(run_id: str) -> None:
        seen.extend(made.services.board.now())
        drop(run_id)

    made.services.board.drop = seen_and_dropped  # type: ignore[method-assign]
    evaluated(made)
    assert [(one.done_count, one.planned_count, one.in_flight_count) for one in seen] == [
        (12, 12, 0)
    ]
    assert made.services.board.now() == ()


def test_what_is_no_terminal_gets_lines(tmp_path: Path) -> None:
    """On standard error or where it is told; nothing at all where nothing runs."""
    out = io.StringIO()
    with showing(ProgressBoard(), out):
        pass
    assert out.getvalue() == ""


def test_a_terminal_gets_a_view_that_leaves_nothing() -> None:
    """What is drawn is drawn over; what others write meanwhile stays."""
    board = ProgressBoard()
    board.follow(RunProgress("r", "agent", "basic", 10, SimulatedClock(START)))
    ours, theirs = pty.openpty()
    seen: list[bytes] = []
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        reading = threading.Thread(target=_read_all, args=(ours, seen))
        reading.start()
        with showing(board, terminal):
            pass
    reading.join()
    os.close(ours)
    drawn = b"".join(seen).decode()
    assert "agent × basic: 0/10 trials" in drawn
    assert "\x1b[2K" in drawn[drawn.rindex("trials") :]


def _read_all(descriptor: int, into: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # the other side is closed
        while piece := os.read(descriptor, 65_536):
            into.append(piece)
