"""The demo: three weeks of nights on a simulated clock, then the model behind the agent moves."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.cli.context import run_async
from watchkeeper.errors import UsageError
from watchkeeper.settings import Settings

if TYPE_CHECKING:
    from watchkeeper.pipeline.nightly import NightResult
    from watchkeeper.wiring import Services

FIRST_NIGHT = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
QUIET_NIGHTS = 21
_MARKER = ".watchkeeper-demo"
_SCRIPT = "config/scripts/demo-agent.yaml"
_FIRST_MODEL = "  - {model: demo-model-v1}\n"


def demo(directory: Path) -> int:
    """Writes the demo's project anew, lets its nights pass, and shows the page.

    Returns:
        0: the regression was caught; 1: it was not, which is a fault of this program.

    Raises:
        UsageError: The folder holds something that is not the demo.
    """
    from watchkeeper.clock import SimulatedClock
    from watchkeeper.loading.project import load_project
    from watchkeeper.notifiers.console import ConsoleNotifier
    from watchkeeper.wiring import build_services

    _prepare(directory)
    clock = SimulatedClock(FIRST_NIGHT)
    services = build_services(
        load_project(directory.resolve()),
        Settings(project=directory, store=None, variables={}),
        clock=clock,
        notifier=ConsoleNotifier(sys.stdout),
    )
    print(f"project {directory}: agent 'demo-agent', suite 'discovery', 12 cases × 3 trials")
    print("night             passed    rounds a trial  model           verdict")
    result: NightResult | None = None
    for number in range(QUIET_NIGHTS + 1):
        slot_at = FIRST_NIGHT + timedelta(days=number)
        clock.move_to(slot_at)
        if number == QUIET_NIGHTS:
            print("--- the model behind the endpoint moves; code and prompts are the same ---\n")
        result = run_async(_night(services, slot_at))
        _print_line(services, result)
    assert result is not None  # noqa: S101 - there is at least one night
    _print_next(directory)
    return 0 if result.exit_code == 1 else 1


async def _night(services: Services, slot_at: datetime) -> NightResult:
    from watchkeeper.pipeline.nightly import nightly
    from watchkeeper.pipeline.steps.bundle import plain_steps
    from watchkeeper.pipeline.steps.work import Workshop

    return await nightly(slot_at, plain_steps(Workshop(services)), trigger="demo")


def _prepare(directory: Path) -> None:
    """An empty demo project; an earlier demo in the same place is removed."""
    from watchkeeper.cli.starting import write_starter

    if directory.exists():
        is_demo = (directory / _MARKER).exists()
        if not directory.is_dir() or (not is_demo and any(directory.iterdir())):
            raise UsageError(
                f"{directory} exists and is not the demo's; name another folder, or move it away"
            )
        shutil.rmtree(directory)
    try:
        directory.mkdir(parents=True)
        (directory / _MARKER).write_text("made by 'watchkeeper demo'; made anew by the next one\n")
        write_starter(directory)
    except OSError as error:
        raise UsageError(f"{directory}: cannot write the demo: {error.strerror}") from error
    script = directory / _SCRIPT
    moves_at = FIRST_NIGHT + timedelta(days=QUIET_NIGHTS, hours=-1)
    second = f'  - {{model: demo-model-v2, since: "{moves_at:%Y-%m-%dT%H:%M:%SZ}"}}\n'
    text = script.read_text()
    script.write_text(text.replace(_FIRST_MODEL, _FIRST_MODEL + second, 1))
    settings = directory / "config/watchkeeper.yaml"
    settings.write_text(
        settings.read_text().replace("confirm_delay_minutes: 30", "confirm_delay_minutes: 0")
    )


def _print_line(services: Services, result: NightResult) -> None:
    for pair in result.pairs:
        verdict = pair.verdict
        if verdict is None:
            print(f"{result.slot_at:%Y-%m-%d %H:%M}  no verdict: {pair.error}")
            continue
        rows = services.history().rows("run_summary", {"run_id": verdict.run_id}, [verdict.run_id])
        rounds, model = rows[0]["mean_rounds"], rows[0]["served_model"]
        counts = verdict.counts
        print(
            f"{result.slot_at:%Y-%m-%d %H:%M}  {counts.passed}/{counts.graded:<6}  "
            f"{rounds:<14.2f}  {model:<14}  {verdict.state.replace('_', ' ')}"
            f" ({verdict.reason.replace('_', ' ')})"
        )


def _print_next(directory: Path) -> None:
    print(f"\nThe records stay. Ask them, from the folder {directory}:")
    print('  watchkeeper sql "select slot_at, served_model, pass_rate, mean_rounds from runs')
    print("                   where purpose = 'nightly' order by slot_at\"")
    print("  watchkeeper sql --name tool_calls_by_model")
    print("  watchkeeper incidents list")
    print("  watchkeeper diff")
