"""The command that counts barren rounds: in files of other systems, or in the store's history."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.errors import EXIT_OK, EXIT_USAGE, UsageError

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context
    from watchkeeper.domain.tallies import RoundTally, ToolTally
    from watchkeeper.domain.trajectory import Trajectory

MAX_FILES = 10_000
_ENDINGS = (".json", ".jsonl", ".ndjson", ".traj", ".eval")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_COUNTS = (
    "call_count",
    "silent_count",
    "empty_count",
    "error_count",
    "missing_path_count",
    "unanswered_count",
    "barren_round_count",
)


@dataclass(slots=True)
class Found:
    """What was counted: a line each for a file or an endpoint, and every tool."""

    parts: list[tuple[dict[str, object], RoundTally]] = field(default_factory=list)
    tools: dict[str, ToolTally] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def total(self) -> RoundTally:
        """All parts together."""
        from watchkeeper.domain.tallies import RoundTally

        total = RoundTally()
        for _, part in self.parts:
            total.add(part)
        return total

    def ranked(self) -> list[ToolTally]:
        """The tools, those first that brought nothing most often."""
        return sorted(
            self.tools.values(),
            key=lambda one: (-one.fruitless_count, -one.counting_count, one.tool),
        )


def barren(
    context: Context,
    paths: Sequence[Path],
    *,
    kind: str | None,
    since: str | None,
    silent: Sequence[str],
    as_json: bool,
) -> int:
    """Shows what brought nothing; 2 where a file cannot be read, after what could be.

    Raises:
        UsageError: Nothing or too much was asked for.
    """
    from watchkeeper.cli.barren_table import report
    from watchkeeper.notifiers.text import for_encoding

    if bool(paths) == (since is not None):
        raise UsageError("name files or folders with transcripts, or --since 30d for the store")
    if since is None:
        found = _in_files(paths, kind, frozenset(silent))
    elif kind is not None or silent:
        raise UsageError("--format and --silent are for files; the store knows both")
    else:
        found = _in_store(context, _time(since, datetime.now(UTC)))
    if as_json:
        print(json.dumps(_as_json(found)))
    else:
        for line in report(found.ranked(), found.parts):
            print(for_encoding(line, sys.stdout.encoding))
    for error in found.errors:
        print(f"error: {error}", file=sys.stderr)
    return EXIT_USAGE if found.errors else EXIT_OK


def _in_files(paths: Sequence[Path], kind: str | None, silent: frozenset[str]) -> Found:
    """What stands in files; a file that cannot be read counts for nothing and is told."""
    from watchkeeper.domain.tallies import RoundTally, ToolTally, tally_rounds
    from watchkeeper.importers import importer_module, kind_of
    from watchkeeper.notifiers.text import one_line

    if kind is not None:
        importer_module(kind)  # an unknown format is no fault of any file
    found = Found()
    for path in _files(paths, found.errors):
        tally, tools = RoundTally(), dict[str, ToolTally]()
        try:
            known = kind or kind_of(path)
            for trial in importer_module(known).read(path):
                tally.add(tally_rounds([_declared(trial.trajectory, silent)], tools))
        except UsageError as error:
            found.errors.append(one_line(str(error)))
            continue
        found.parts.append(({"file": str(path), "format": known}, tally))
        for name, one in tools.items():
            _add(found.tools.setdefault(name, ToolTally(name)), one)
    if not found.parts:
        raise UsageError("\n".join(found.errors))
    return found


def _declared(trajectory: Trajectory, silent: frozenset[str]) -> Trajectory:
    """The trajectory with some more tools declared silent."""
    if not silent:
        return trajectory
    rounds = tuple(
        replace(
            one,
            tool_calls=tuple(
                replace(call, is_silent=call.is_silent or call.tool in silent)
                for call in one.tool_calls
            ),
        )
        for one in trajectory.rounds
    )
    return replace(trajectory, rounds=rounds)


def _add(total: ToolTally, one: ToolTally) -> None:
    for name in _COUNTS:
        setattr(total, name, getattr(total, name) + getattr(one, name))


def _files(paths: Sequence[Path], errors: list[str]) -> Iterator[Path]:
    """The files that are meant; of folders those whose names end as transcripts do."""
    count = 0
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        within = [
            file
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.name.removesuffix(".gz").endswith(_ENDINGS)
        ]
        count += len(within)
        if not within:
            errors.append(f"{path}: no file in it ends in {', '.join(_ENDINGS)}")
        elif count > MAX_FILES:
            errors.append(f"{path}: more than {MAX_FILES:,} files; name fewer folders")
        else:
            yield from within


def _in_store(context: Context, since: datetime) -> Found:
    from watchkeeper.domain.tallies import RoundTally, ToolTally

    history = context.history()
    parameters = {"since": since.isoformat()}
    found = Found()
    for row in history.rows("barren_rounds", parameters):
        of = {name: row[name] for name in ("endpoint", "suite", "served_model")}
        counts = {name: count for name, count in row.items() if name not in of}
        found.parts.append((of, RoundTally(**counts)))
    for row in history.rows("barren_tools", parameters):
        found.tools[row["tool"]] = ToolTally(**row)
    if not found.parts:
        raise UsageError(f"no trial in the store since {since:%Y-%m-%d %H:%M} UTC")
    return found


def _time(since: str, now: datetime) -> datetime:
    """``30d``, ``12h``, ``4w`` before now, or a date or time as ISO 8601 writes it (UTC)."""
    relative = re.fullmatch(r"([0-9]{1,5})([hdw])", since)
    try:
        if relative is not None:
            return now - int(relative[1]) * _UNITS[relative[2]]
        at = datetime.fromisoformat(since)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since {since}: expected 30d, 12h, 4w, or 2026-03-01") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _as_json(found: Found) -> dict[str, object]:
    return {
        **_round_counts(found.total()),
        "parts": [{**of, **_round_counts(part)} for of, part in found.parts],
        "tools": [
            {
                "tool": one.tool,
                **{name: getattr(one, name) for name in _COUNTS},
                "fruitless_count": one.fruitless_count,
                "fruitless_share": one.fruitless_share,
            }
            for one in found.ranked()
        ],
        "errors": found.errors,
    }


def _round_counts(tally: RoundTally) -> dict[str, object]:
    return {
        "trial_count": tally.trial_count,
        "round_count": tally.round_count,
        "calling_round_count": tally.calling_round_count,
        "barren_round_count": tally.barren_round_count,
        "barren_of_calling_share": tally.barren_share,
    }
