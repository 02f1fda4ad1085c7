"""A verdict as the terminal shows it after ``run``, ``diff`` and ``nightly``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from watchkeeper.domain.verdict import Finding, GateResult, Verdict
from watchkeeper.notifiers import headline, phrases, wording
from watchkeeper.notifiers.commands import Commands
from watchkeeper.notifiers.layout import bullets, paragraph
from watchkeeper.notifiers.served import served_lines
from watchkeeper.notifiers.text import one_line, shorten
from watchkeeper.notifiers.verdict_json import verdict_json

__all__ = ["verdict_json", "verdict_text"]

MOST_LISTED = 8
NAME_LIMIT = 80
NOTABLE_CALLS = 0.5
_LISTED_REASONS = frozenset({"suspect", "budget"})


def verdict_text(
    verdict: Verdict,
    *,
    width: int = 100,
    commands: Commands | None = None,
    unchanged: Sequence[str] = (),
) -> str:
    """The report of a run: the verdict, what changed, gates, what moved, what cannot be seen.

    Args:
        verdict: What was concluded.
        width: Columns to wrap at; tables and commands may be wider.
        commands: How ``watchkeeper`` is called here.
        unchanged: What was compared and is the same as in the baselines.
    """
    commands = commands or Commands()
    findings = verdict.findings
    suspects = [one for one in findings if _is_suspect(one)]
    better = [one for one in findings if one.state == "improved"]
    parts = [
        _block("answered by another model", served_lines(verdict), width),
        _block("changed", phrases.changes(verdict, unchanged), width),
        _gate_block(verdict),
        _block("coverage", [_coverage(verdict)], width),
        _block("critical", _critical(verdict), width),
        _block("worse, confirmed", _worse(verdict), width),
        _block("behaviour", _behaviour(verdict), width),
        _block("suspected, nothing fails on it", _found(suspects), width),
        _block("better; re-read before you trust it", _found(better), width),
        _block("everything else", _rest(verdict, suspects, better), width),
        _block("cases that show it", _cases(verdict), width),
        _block("cases not compared", _case_changes(verdict), width),
        _block("cannot see", phrases.blind_spots(verdict), width),
        _block("held against", _baselines(verdict), width),
        _block("note", verdict.notes, width),
    ]
    lines = [*paragraph(headline.headline(verdict), width), *paragraph(_about(verdict), width)]
    lines += [line for part in parts if part for line in part]
    lines += ["", *paragraph(f"next: {_next_command(verdict, commands)}", 10_000)]
    lines += paragraph(f"exit {verdict.exit_code}: {headline.exit_meaning(verdict)}", width)
    return "\n".join(lines) + "\n"


def gate_lines(verdict: Verdict) -> list[str]:
    """One line a gate, and the overall rate, which is shown and gates nothing.

    ``GATE`` acts, ``low`` is below the threshold and does not act, ``????`` has no verdict. A
    failed gate has a second line with its action, its owner and the failing cases.
    """
    rows = [_gate_row(gate) for gate in verdict.gates]
    counts = verdict.counts
    part = "" if counts.graded == counts.planned else f", {counts.graded}/{counts.planned} graded"
    rate = wording.fraction(counts.passed, counts.graded)
    overall = ("", "overall", rate, f"shown, not gating{part}")
    name_width = max(len(row[1]) for row in [*rows, overall])
    rate_width = max(len(row[2]) for row in [*rows, overall])
    lines: list[str] = []
    for gate, row in zip([*verdict.gates, None], [*rows, overall], strict=True):
        mark, name, shown, tail = row
        lines.append(f"{mark:<4} {name:<{name_width}} {shown:<{rate_width}}  {tail}".rstrip())
        if gate is not None and gate.state.startswith("failed"):
            lines.append(f"     {one_line(_gate_detail(gate))}")
    return lines


def _gate_row(gate: GateResult) -> tuple[str, str, str, str]:
    counts = gate.counts
    rate = wording.fraction(counts.passed, counts.graded, gate.threshold)
    has_interval = gate.low is not None and gate.high is not None
    tail = [wording.percent_interval(gate.low, gate.high)] if has_interval else []
    if counts.graded < counts.planned:
        tail.append(f"{counts.graded}/{counts.planned} graded")
    mark = "ok" if gate.state.startswith("passed") else "GATE" if gate.acts else "low"
    if gate.state == "no_verdict":
        mark = "????"
    if gate.state in {"passed_not_proven", "no_verdict"}:
        tail.append("not proven" if mark == "ok" else "no verdict")
    return (
        mark,
        shorten(one_line(gate.category), NAME_LIMIT),
        f"{rate} (gate {wording.percent(gate.threshold)})",
        ", ".join(tail),
    )


def _gate_detail(gate: GateResult) -> str:
    parts = [f"action {gate.action}, owner {gate.owner}"]
    if gate.fresh_graded:
        parts.append(f"rerun {wording.fraction(gate.fresh_passed, gate.fresh_graded)}")
    if not gate.acts:
        parts.append(_why_not_acting(gate))
    if gate.failing_cases:
        parts.append(f"failing: {wording.listed(gate.failing_cases, 5)}")
    return "; ".join(parts)


def _why_not_acting(gate: GateResult) -> str:
    if gate.action == "report":
        return "it stops nothing"
    if gate.state != "failed_unreproduced":
        if gate.threshold >= 1:
            return "no rerun could confirm it"
        return "within chance of the threshold, not rerun"
    if not gate.fresh_graded:
        return "the rerun graded nothing"
    if gate.threshold < 1:
        return "not below it again in the rerun"
    return "did not fail again; blocked until somebody labels it"


def _block(heading: str, lines: Sequence[str], width: int) -> list[str]:
    return ["", *paragraph(heading, width), *bullets(lines, width)] if lines else []


def _gate_block(verdict: Verdict) -> list[str]:
    return ["", "gates", *[f"  {line}" for line in gate_lines(verdict)]]


def _about(verdict: Verdict) -> str:
    purpose = verdict.purpose.replace("_", " ")
    slot = f" of {wording.when(verdict.slot_at)}" if verdict.slot_at else ""
    return f"{verdict.endpoint} on {verdict.suite}, {purpose} run{slot}: {verdict.run_id}"


def _baselines(verdict: Verdict) -> list[str]:
    """Which runs were compared; both ends of a list name the nights between them."""
    if not phrases.has_history(verdict):
        return []
    lines = [f"{wording.count(verdict.compared_case_count, 'case')} compared"]
    for what, runs in (
        ("screening", verdict.screen_runs),
        ("confirmation", verdict.confirm_runs),
        ("rerun", verdict.fresh_runs),
    ):
        if runs:
            ends = runs[0] if len(runs) == 1 else f"{runs[0]} … {runs[-1]}"
            lines.append(f"{what}: {wording.count(len(runs), 'run')}, {ends}")
    return lines


def _coverage(verdict: Verdict) -> str:
    counts = verdict.counts
    coverage = wording.UNDEFINED if counts.coverage is None else wording.percent(counts.coverage)
    text = f"{counts.planned:,} planned, {counts.graded:,} graded ({coverage})"
    if counts.graded == counts.planned:
        return f"{text}, 0 missing"
    worst = wording.fraction(counts.passed, counts.planned)
    missing = counts.planned - counts.graded
    return (
        f"{text}, {missing:,} missing: {wording.missing_kinds(counts)}."
        f" Had all of them failed: {worst}"
    )


def _critical(verdict: Verdict) -> list[str]:
    lines = [
        f"{one.case_id} ({one.category}): {one.assertion}: {shorten(one.reason, 300)}"
        f" (trial {one.trial_id})"
        for one in verdict.critical
    ]
    return _limited(lines)


def _worse(verdict: Verdict) -> list[str]:
    """Every confirmed loss with its test; gates and critical failures have blocks of their own."""
    items = headline.got_worse(verdict)
    tools = [item.full for item in items if item.kind == "tool"]
    findings = phrases.ordered(verdict.regressions)
    groups = [phrases.finding_tested(one) for one in findings if one.level != "case"]
    for metric in phrases.METRIC_ORDER:
        cases = [one for one in findings if one.level == "case" and one.metric == metric]
        if len(cases) == 1:
            groups.append(phrases.finding_tested(cases[0]))
        elif cases:
            groups.append(phrases.single_cases(cases))
    is_answers = any(one.metric == "pass_rate" for one in findings)
    return [*groups, *tools] if is_answers else [*tools, *groups]


def _behaviour(verdict: Verdict) -> list[str]:
    """The answers, barren rounds, and the tools whose use moved; the others are counted."""
    if verdict.broken is not None:
        return []
    told = {item.full for item in headline.got_worse(verdict) if item.kind == "tool"}
    moved = [
        phrases.tool_long(shift)
        for shift in verdict.tool_shifts
        if headline.rose(shift, NOTABLE_CALLS) and phrases.tool_long(shift) not in told
    ]
    barren = phrases.barren(verdict)
    lines = [phrases.answers(verdict), *([barren] if barren else []), *_limited(moved)]
    still = len(verdict.tool_shifts) - len(moved) - len(told)
    if still > 0:
        lines.append(f"{wording.count(still, 'other tool')} used about as before")
    return lines


def _is_suspect(finding: Finding) -> bool:
    return finding.state == "inconclusive" and finding.reason in _LISTED_REASONS


def _found(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for one in phrases.ordered(findings):
        why = f": {phrases.reason(one.reason)}" if one.reason else ""
        lines.append(f"{phrases.finding_tested(one)}{why}")
    return _limited(lines)


def _rest(verdict: Verdict, suspects: Sequence[Finding], better: Sequence[Finding]) -> list[str]:
    """The findings that did not move, counted by what became of them."""
    shown = {id(one) for one in (*verdict.regressions, *suspects, *better)}
    rest = [one for one in verdict.findings if id(one) not in shown]
    counted = Counter(_outcome(one) for one in rest)
    lines = [f"{amount:,} {outcome}" for outcome, amount in counted.most_common()]
    silent = [
        f"{wording.METRIC_NAMES[one.metric]} in {phrases.group(one.level, one.group)}"
        for one in rest
        if one.state == "not_comparable"
    ]
    if silent:
        lines.append(f"not comparable are: {wording.listed(silent, MOST_LISTED)}")
    return lines


def _outcome(finding: Finding) -> str:
    if finding.state == "no_worse":
        return "no worse, within the declared margin"
    if finding.state == "not_comparable":
        return f"not comparable: {phrases.reason(finding.reason) or wording.UNKNOWN}"
    return f"inconclusive: {phrases.reason(finding.reason) or 'within noise'}"


def _cases(verdict: Verdict) -> list[str]:
    lines = []
    for one in verdict.exemplars:
        note = f"; {shorten(one.note, 200)}" if one.note else ""
        lines.append(f"{phrases.exemplar(one)}{note}")
    return _limited(lines)


def _case_changes(verdict: Verdict) -> list[str]:
    kinds = (
        ("added", verdict.added_cases),
        ("removed", verdict.removed_cases),
        ("changed, so they begin a baseline of their own", verdict.changed_cases),
    )
    return [
        f"{len(cases):,} {what}: {wording.listed(cases, MOST_LISTED)}"
        for what, cases in kinds
        if cases
    ]


def _limited(lines: Sequence[str]) -> list[str]:
    left_out = len(lines) - MOST_LISTED
    more = [f"and {left_out:,} more, all of them in --json"] if left_out > 0 else []
    return [*lines[:MOST_LISTED], *more]


def _next_command(verdict: Verdict, commands: Commands) -> str:
    code = verdict.exit_code
    cases = [one.case_id for one in verdict.critical]
    cases += [case for gate in verdict.acting_gates for case in gate.failing_cases]
    cases += [one.case_id for one in verdict.exemplars]
    if code == 1 and cases:
        chosen = list(dict.fromkeys(cases))[:3]
        return commands.run(verdict.suite, verdict.endpoint, chosen)
    if code == 3:
        return commands.run(verdict.suite, verdict.endpoint)
    if code == 4:
        return commands.baseline(verdict.suite, verdict.endpoint)
    if not phrases.has_history(verdict):
        return commands.nightly()
    return commands.diff(verdict.run_id, "previous")
