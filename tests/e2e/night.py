"""A whole night in a process of its own, with the project's real parts, so that it can be killed.

    python -m tests.e2e.night 2026-03-02T02:30:00+00:00 [--meet FOLDER COUNT]

works in the project folder that it is started in and ends with the night's exit code. With
``--meet`` it commits a run only when COUNT processes have come to that point, each of which
leaves a file in FOLDER.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tests.e2e.slot_clock import SlotClock
from watchkeeper.cli.running import print_night
from watchkeeper.errors import WatchkeeperError
from watchkeeper.loading.project import load_project
from watchkeeper.pipeline.nightly import nightly
from watchkeeper.pipeline.steps.bundle import Steps, plain_steps
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.settings import read_settings
from watchkeeper.wiring import build_services

PATIENCE_S = 60.0


def _meeting(steps: Steps, folder: Path, count: int) -> Steps:
    """The steps, where a commit waits for the other processes."""

    async def commit_run(run_id: str) -> bool:
        await asyncio.to_thread(_meet, folder, count)
        return await steps.commit_run(run_id)

    return replace(steps, commit_run=commit_run)


def _meet(folder: Path, count: int) -> None:
    (folder / f"{os.getpid()}").touch()
    deadline = time.monotonic() + PATIENCE_S
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < deadline, "the others did not come"
        time.sleep(0.002)


def main() -> int:
    """The night of the slot; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.night")
    parser.add_argument("slot", type=datetime.fromisoformat)
    parser.add_argument("--meet", nargs=2, metavar=("FOLDER", "COUNT"))
    options = parser.parse_args()
    settings = read_settings()
    try:
        services = build_services(
            load_project(Path.cwd(), settings.store), settings, clock=SlotClock(options.slot)
        )
        steps = plain_steps(Workshop(services))
        if options.meet:
            steps = _meeting(steps, Path(options.meet[0]), int(options.meet[1]))
        result = asyncio.run(nightly(options.slot, steps))
    except WatchkeeperError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    print_night(result, services.redactor, as_json=True)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
