"""A night, or one run, as Markdown for Prefect's pages; made from the verdicts alone.

Names, errors and reasons are escaped: none of them can make a link, an image, a tag or a new
column of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from watchkeeper.domain.incident import Incident
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.verdict import Verdict
from watchkeeper.flows.states import night_line, pair_line
from watchkeeper.notifiers import wording
from watchkeeper.notifiers.headline import status
from watchkeeper.notifiers.report import verdict_text
from watchkeeper.notifiers.text import one_line, shorten
from watchkeeper.pipeline.nightly import NightResult, PairResult

_HEAD = (
    "| endpoint | suite | verdict | passed | coverage | rounds | open incidents | run |",
    "|---|---|---|---|---|---|---|---|",
)
# Everything that CommonMark, its tables and its automatic links give a meaning within a line.
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#!|~&:.@$^=+-]")
_MOST_TEXT = 300
NOTHING = "–"


def night_summary(result: NightResult, incidents: Iterable[Incident], redactor: Redactor) -> str:
    """A night as a table of its pairs, and what each of them comes to in a line.

    Args:
        result: What became of the night.
        incidents: Every incident of the store; the open ones of a pair are shown.
        redactor: Takes secrets out of errors.
    """
    opened = [one for one in incidents if one.state == "open"]
    lines = [
        f"# Night of {wording.when(result.slot_at)}",
        "",
        escaped(night_line(result)),
        "",
        *_HEAD,
        *(_row(pair, opened) for pair in result.pairs),
        "",
    ]
    for pair in result.pairs:
        name = escaped(f"{pair.request.endpoint} × {pair.request.suite}")
        lines.append(f"- **{name}** {escaped(pair_line(pair, redactor))}")
    if result.undelivered_count:
        waiting = wording.count(result.undelivered_count, "message")
        lines += ["", f"{waiting} not delivered; kept in the outbox for the next night"]
    return "\n".join(lines) + "\n"


def run_summary(verdict: Verdict) -> str:
    """One run's report, as the terminal shows it, in a block that nothing in it can leave."""
    report = verdict_text(verdict, unchanged=verdict.unchanged)
    block = "\n".join(f"    {line}" for line in report.splitlines())
    title = escaped(f"{verdict.endpoint} × {verdict.suite}")
    return f"# {title}: {escaped(status(verdict))}\n\n{block}\n"


def escaped(text: str) -> str:
    """``text`` on one line, shortened, with nothing in it that Markdown or HTML would act on."""
    return _MARKUP.sub(r"\\\g<0>", shorten(one_line(text), _MOST_TEXT))


def _row(pair: PairResult, opened: list[Incident]) -> str:
    request, verdict = pair.request, pair.verdict
    ids = [
        one.id
        for one in opened
        if (one.root.endpoint, one.root.suite) == (request.endpoint, request.suite)
    ]
    cells = [
        escaped(request.endpoint),
        escaped(request.suite),
        "NO VERDICT" if verdict is None else escaped(status(verdict)),
        NOTHING if verdict is None else _passed(verdict),
        NOTHING if verdict is None else _coverage(verdict),
        NOTHING if verdict is None else _rounds(verdict),
        escaped(wording.listed(ids, 5)) if ids else NOTHING,
        escaped(request.run_id),
    ]
    return f"| {' | '.join(cells)} |"


def _passed(verdict: Verdict) -> str:
    return escaped(wording.fraction(verdict.counts.passed, verdict.counts.graded))


def _coverage(verdict: Verdict) -> str:
    counts = verdict.counts
    shown = wording.UNDEFINED if counts.coverage is None else wording.percent(counts.coverage)
    return f"{counts.graded:,}/{counts.planned:,} = {shown}".replace("=", r"\=")


def _rounds(verdict: Verdict) -> str:
    """How the rounds of the whole suite moved; a suite that was not compared has no number."""
    for finding in verdict.findings:
        if finding.metric == "rounds" and finding.level == "suite" and finding.measured:
            return escaped(wording.effect("rounds", finding.measured))
    return "not compared"
