"""Measures whole commands side by side with a yardstick, in turn, and compares the medians.

A single time says little on a shared machine; the ratio of two that were taken in turn says more.
Ends with 1 where a limit is passed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.projects import case, script, scripted_endpoint, suite, write_project

ROUNDS = 5
WATCHKEEPER = (sys.executable, "-m", "watchkeeper")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took: seconds on the clock and of the processor, bytes at its peak."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: what was measured, and whether it is within its limit."""

    name: str
    value: float
    limit: float
    unit: str
    detail: str

    @property
    def is_within(self) -> bool:
        """Whether the limit holds."""
        return self.value <= self.limit


def measured(command: Sequence[str], folder: Path) -> Cost:
    """What a command takes, run once in a folder.

    Raises:
        RuntimeError: It failed.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}: {said.decode()[-500:]}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def ratio(name: str, limit: float, ours: Sequence[str], other: Sequence[str], at: Path) -> Line:
    """How many times as long our command takes as the yardstick, by the median of both."""
    measured(ours, at), measured(other, at)  # warm
    pairs = [(measured(ours, at).wall_s, measured(other, at).wall_s) for _ in range(ROUNDS)]
    mine, yardstick = (statistics.median(side) for side in zip(*pairs, strict=True))
    detail = f"{mine * 1000:.0f} ms against {yardstick * 1000:.0f} ms"
    return Line(name, mine / yardstick, limit, "×", detail)


def help_line(at: Path) -> Line:
    """``--help`` against the import of what the command line is built on."""
    yardstick = (sys.executable, "-c", "import typer, pydantic")
    return ratio("--help", 1.5, (*WATCHKEEPER, "--help"), yardstick, at)


def sql_line(at: Path) -> Line:
    """A count over a small store against the import of the database."""
    folder = write_project(at / "small")
    measured((*WATCHKEEPER, "run", "basic", "-e", "agent"), folder)
    ours = (*WATCHKEEPER, "sql", "select count(*) from trials")
    yardstick = (sys.executable, "-c", "import duckdb, pydantic")
    return ratio("sql count", 2.0, ours, yardstick, folder)


def validate_line(at: Path) -> Line:
    """``validate`` on 1,000 cases against reading the same files with the YAML library alone."""
    cases = [
        case(
            f"case-{number}",
            source=f"ticket-{number}",
            tags={"language": "en"},
            expect={
                "must_mention": ["yes", f"answer {number}"],
                "must_not_mention": "no",
                "at_most": {"search": 5},
                "avoids": [{"tool": "edit", "severity": "critical"}],
            },
        )
        for number in range(1000)
    ]
    folder = write_project(
        at / "large",
        suites={"basic": suite(cases)},
        scripts={"agent": script(tools=["search", "edit"])},
    )
    reading = (
        "import pathlib, yaml\n"
        "loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)\n"
        "for path in sorted(pathlib.Path('config').rglob('*.yaml')):\n"
        "    yaml.load(path.read_text(), Loader=loader)\n"
    )
    yardstick = (sys.executable, "-c", reading)
    return ratio("validate 1,000 cases", 4.0, (*WATCHKEEPER, "validate"), yardstick, folder)


def run_lines(at: Path) -> list[Line]:
    """Processor time a trial beyond start-up, and the peak memory, of 1,000 scripted trials."""

    def project(name: str, case_count: int, trials: int) -> Path:
        cases = [case(f"case-{number}") for number in range(case_count)]
        endpoint = scripted_endpoint(concurrency=50)
        return write_project(
            at / name,
            endpoints={"agent": endpoint},
            suites={"basic": suite(cases, trials=trials)},
        )

    command = (*WATCHKEEPER, "run", "basic", "-e", "agent")
    full, empty = project("thousand", 200, 5), project("one", 1, 1)
    runs = [(measured(command, full), measured(command, empty)) for _ in range(3)]
    each = statistics.median(mine.cpu_s - start.cpu_s for mine, start in runs)
    peak = max(mine.peak_bytes for mine, _ in runs) / 1e6
    start = statistics.median(start.cpu_s for _, start in runs)
    return [
        Line("run, CPU a trial", each, 2.0, "ms", f"1,000 trials beyond {start:.2f} s of start-up"),
        Line("run, peak memory", peak, 300.0, "MB", "1,000 trials"),
    ]


def main() -> int:
    """Prints the table; 1 where a limit is passed."""
    parts: Sequence[Callable[[Path], Line | list[Line]]] = (
        help_line,
        sql_line,
        validate_line,
        run_lines,
    )
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="watchkeeper-bench-") as folder:
        for part in parts:
            found = part(Path(folder))
            lines.extend(found if isinstance(found, list) else [found])
    for line in lines:
        mark = "ok  " if line.is_within else "OVER"
        value = f"{line.value:.2f} {line.unit}"
        print(
            f"{mark} {line.name:<22} {value:>12}  limit {line.limit:g} {line.unit}  {line.detail}"
        )
    return 0 if all(line.is_within for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
