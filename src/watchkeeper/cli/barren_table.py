"""The tables of ``watchkeeper barren``, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from watchkeeper.domain.tallies import RoundTally, ToolTally
from watchkeeper.notifiers.text import one_line

MAX_ROWS = 50
_WIDEST = 60
_TOOL_TITLES: Sequence[str] = (
    "tool",
    "calls",
    "empty",
    "error",
    "missing path",
    "unanswered",
    "brought nothing",
    "barren rounds",
)


def report(
    tools: Sequence[ToolTally], parts: Sequence[tuple[dict[str, object], RoundTally]]
) -> list[str]:
    """The headline, a table of tools, and one of files or endpoints.

    Args:
        tools: In the order in which they are shown.
        parts: What names each, and its rounds; at least one.
    """
    total = RoundTally()
    for _, part in parts:
        total.add(part)
    counts = f"{_many(total.round_count, 'round')} in {_many(total.trial_count, 'trial')}"
    share = total.barren_share
    headline = (
        "no tool was called"
        if share is None
        else (
            f"{total.barren_round_count:,} of {total.calling_round_count:,} rounds with tool calls "
            f"are barren ({share:.0%})"
        )
    )
    tables = [_tool_table(tools), _part_table(parts)]
    lines = [f"{headline}; {counts}"]
    for table in filter(None, tables):
        lines += ["", *table]
    return [line.rstrip() for line in lines]


def _tool_table(tools: Sequence[ToolTally]) -> list[str]:
    if not tools:
        return []
    rows = [_TOOL_TITLES]
    for one in tools[:MAX_ROWS]:
        calls = f"{one.call_count:,}"
        if not one.counting_count:
            rows.append((one.tool, calls, "", "", "", "", "silent", ""))
            continue
        counts = (one.empty_count, one.error_count, one.missing_path_count, one.unanswered_count)
        share = _share(one.fruitless_count, one.counting_count)
        barren = _count(one.barren_round_count)
        rows.append((one.tool, calls, *map(_count, counts), share, barren))
    return [*_aligned(rows, left=1), *_rest(len(tools), "tools")]


def _part_table(parts: Sequence[tuple[dict[str, object], RoundTally]]) -> list[str]:
    names = [name.replace("_", " ") for name in parts[0][0]]
    rows: list[Sequence[str]] = [(*names, "trials", "rounds", "barren, of rounds with calls")]
    for of, part in parts[:MAX_ROWS]:
        values = ("unknown" if value is None else str(value) for value in of.values())
        share = _share(part.barren_round_count, part.calling_round_count)
        rows.append((*values, f"{part.trial_count:,}", f"{part.round_count:,}", share))
    return [*_aligned(rows, left=len(names)), *_rest(len(parts), "lines")]


def _rest(count: int, what: str) -> list[str]:
    return [f"and {count - MAX_ROWS:,} more {what}; --json has all"] if count > MAX_ROWS else []


def _aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """The rows in columns, of which the first ``left`` begin at the left."""
    cells = [[_end(one_line(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _end(text: str) -> str:
    """The end of a long text: of a path that is the part that tells files apart."""
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} {part / whole:>5.0%}" if whole else "no calls"


def _count(count: int) -> str:
    return f"{count:,}" if count else "-"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
