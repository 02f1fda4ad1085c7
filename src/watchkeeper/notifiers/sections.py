"""Pieces that every message is put together from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from watchkeeper.domain.incident import Incident
from watchkeeper.domain.ports import Section
from watchkeeper.domain.verdict import Verdict
from watchkeeper.notifiers import headline, phrases, text, wording
from watchkeeper.notifiers.headline import Item

LINE_LIMIT = 400
TITLE_LIMIT = 300
MOST_LINES = 6
MOST_ALSO = 3
_SLOT_IN_RUN_ID = re.compile(r"(\d{8}T\d{6}Z)-")


def section(heading: str, lines: Sequence[str], *, is_verbatim: bool = False) -> Section:
    """A section whose lines are shortened, each saying by how much."""
    shortened = tuple(text.shorten(line, LINE_LIMIT) for line in lines)
    return Section(heading, shortened, is_verbatim)


def title(line: str) -> str:
    """A title, shortened where it has to be."""
    return text.shorten(line, TITLE_LIMIT)


def key(incident: Incident, what: str, verdict: Verdict) -> str:
    """The idempotency key of what is told about an incident after a run."""
    return f"{incident.id}/{what}/{verdict.run_id}"


def counted(lines: Sequence[str]) -> list[str]:
    """The first lines, and how many more there are."""
    left_out = len(lines) - MOST_LINES
    more = [f"and {left_out:,} more, shown by the first command"] if left_out > 0 else []
    return [*lines[:MOST_LINES], *more]


def in_full(items: Sequence[Item]) -> list[str]:
    """Each kind once in full, where it is most specific; its other groups in one line."""
    lines: list[str] = []
    for kind in dict.fromkeys(item.kind for item in items):
        first, *others = [item for item in items if item.kind == kind]
        lines.append(first.full)
        if others:
            lines.append(f"also {wording.listed(headline.in_few_words(others), MOST_ALSO)}")
    return lines


def evidence(verdict: Verdict) -> list[str]:
    """Barren rounds, and the answers: they are named also where nothing is wrong with them."""
    lines = [phrases.barren(verdict), phrases.answers(verdict)]
    return [line for line in lines if line]


def graded(verdict: Verdict) -> str:
    """How many trials were planned and graded, and where the others went."""
    counts = verdict.counts
    lost = wording.missing_kinds(counts)
    tail = f" ({lost})" if lost else ""
    return f"planned {counts.planned:,}, graded {counts.graded:,}{tail}"


def subject(incident: Incident) -> str:
    """What an incident is about: ``demo-agent on discovery, tool find_files``."""
    root = incident.root
    what = "" if root.kind == "suite" else f", {root.kind} {root.name}"
    return f"{root.endpoint} on {root.suite}{what}"


def run_time(verdict: Verdict) -> str:
    """When the run of a verdict was due, or started where nothing was scheduled."""
    return wording.when(verdict.slot_at) if verdict.slot_at else time_of_run(verdict.run_id)


def time_of_run(run_id: str) -> str:
    """When a run was due or started, as its id begins with it."""
    found = _SLOT_IN_RUN_ID.match(run_id)
    if found is None:
        return f"time {wording.UNKNOWN}"
    try:
        at = datetime.strptime(found.group(1), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return f"time {wording.UNKNOWN}"
    return wording.when(at)
