"""Measures what the trial engine adds to the SDK, side by side with the SDK's calls alone.

    python -m tests.benchmarks.engine

Ends with 1 where a limit is passed. The peers are measured by ``python -m infra.bench``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from infra.bench.contestants import Contestant, Job, SdkAlone, Watchkeeper
from infra.bench.processes import model_server, run
from infra.bench.scenarios import CASE_REPEATS, CONCURRENCY
from tests.benchmarks.__main__ import Line

TIMES = 3
TRIALS = 1000
MOST_TIMES_THE_SDK = 1.6


def cpu_ms(contestant: Contestant, rounds: int) -> float:
    """Processor milliseconds a trial of the whole command, against a model that answers at once."""
    questions = tuple(f"question {number}" for number in range(TRIALS // CASE_REPEATS))
    with (
        model_server(latency_s=0.0, rounds=rounds) as server,
        tempfile.TemporaryDirectory(prefix="watchkeeper-bench-") as folder,
    ):
        job = Job(server.url, questions, CASE_REPEATS, rounds, CONCURRENCY)
        cost = run(contestant.command(job, Path(folder)))
        assert server.counts()["asked"] == job.calls
    return cost.cpu_s / TRIALS * 1000


def engine_line(rounds: int) -> Line:
    """The engine's processor time a trial as a multiple of the SDK's."""
    pairs = [(cpu_ms(Watchkeeper(), rounds), cpu_ms(SdkAlone(), rounds)) for _ in range(TIMES)]
    ours, alone = (statistics.median(side) for side in zip(*pairs, strict=True))
    detail = f"{ours:.2f} ms a trial against {alone:.2f} ms"
    return Line(f"engine, {rounds} round(s)", ours / alone, MOST_TIMES_THE_SDK, "×", detail)


def main() -> int:
    """Prints the table; 1 where a limit is passed."""
    lines = [engine_line(rounds) for rounds in (1, 3)]
    for line in lines:
        mark = "ok  " if line.is_within else "OVER"
        print(f"{mark} {line.name:<22} {line.value:>8.2f} {line.unit}  limit {line.limit:g}")
        print(f"     {line.detail}")
    return 0 if all(line.is_within for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
