"""The tables as people and programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.bench.scenarios import Table


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured, and on what."""

    at: str
    machine: dict[str, object]
    load_at_start: float
    is_busy: bool
    sizes: dict[str, float]
    versions: dict[str, dict[str, str]]
    missing: dict[str, str]
    model_per_s: float | None
    tables: list[Table]


def as_text(report: Report) -> str:
    """For a terminal."""
    parts = _preface(report)
    for table in report.tables:
        names = ["", *table.columns]
        rows = [names, *([name, *map(_number, row)] for name, row in table.rows.items())]
        widths = [max(len(row[at]) for row in rows) for at in range(len(names))]
        lines = ["  ".join(_padded(row, widths)) for row in rows]
        parts += ["", table.title, *lines, *(f"note: {note}" for note in table.notes)]
    return "\n".join(parts)


def as_markdown(report: Report) -> str:
    """For docs/benchmarks.md."""
    parts = [f"- {line}" for line in _preface(report)]
    for table in report.tables:
        parts += ["", f"**{table.title}**", "", f"| | {' | '.join(table.columns)} |"]
        parts.append(f"|---{'|---:' * len(table.columns)}|")
        for name, row in table.rows.items():
            parts.append(f"| {name} | {' | '.join(map(_number, row))} |")
        parts += ["", *(f"{note}  " for note in table.notes)]
    return "\n".join(parts).rstrip() + "\n"


def _preface(report: Report) -> list[str]:
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    busy = ": the machine was busy, absolute times say little" if report.is_busy else ""
    lines = [
        f"{report.at}; {machine}; load average at start {report.load_at_start:.2f}{busy}",
        f"each command {report.sizes['times']} times in turn, medians; peaks are the largest",
    ]
    for name, versions in report.versions.items():
        lines.append(f"{name}: {', '.join(f'{one} {said}' for one, said in versions.items())}")
    lines += [f"{name}: not measured, {why}" for name, why in report.missing.items()]
    if report.model_per_s is not None:
        lines.append(f"the model answers {report.model_per_s:.0f} requests a second")
    return lines


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    name, *values = (text.rjust(width) for text, width in zip(row, widths, strict=True))
    return [row[0].ljust(widths[0]), *values] if name else values


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"
