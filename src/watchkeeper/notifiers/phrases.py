"""The sentences that a page and a report share, so that the two cannot disagree."""

from __future__ import annotations

from collections.abc import Sequence

from watchkeeper.domain.verdict import (
    CriticalFailure,
    Exemplar,
    Finding,
    GateResult,
    Level,
    Measured,
    Metric,
    ToolShift,
    Verdict,
)
from watchkeeper.notifiers import wording

METRIC_ORDER: tuple[Metric, ...] = ("pass_rate", "rounds", "cost_usd")
MOST_SINGLE_CASES = 3
LEVEL_ORDER: tuple[Level, ...] = ("tool", "category", "suite", "case")
REASONS: dict[str, str] = {
    "not_confirmed": "did not repeat in fresh trials",
    "budget": "suspected; the reruns that it needed were beyond what a run may spend",
    "unresolved": "too many trials without a grade to tell",
    "too_little_data": "too little data",
    "unreliable_baseline": "the baseline is not reliable",
    "suspect": "suspected; nothing was rerun to confirm it",
    "totals_disagree": "the typical case rose while the total fell",
    "served_changed": "the served model changed between the run and its rerun",
    "within_noise": "within noise",
    "within_margin": "within the declared margin",
    "both_baselines": "better than both baselines",
    "coverage": "too many of its trials have no grade",
    "served_split": "too many of its trials were answered by another model",
    "unmatched": "too few of its cases were there before",
    "no_matched_case": "no case is the same as before",
    "no_history": "too few nights yet to compare with",
    "no_verdict": "the evaluation is broken",
}


def reason(word: str) -> str:
    """A stored reason in plain words; an unknown one as it is."""
    return REASONS.get(word, word.replace("_", " "))


def has_history(verdict: Verdict) -> bool:
    """Whether the run was held against anything at all."""
    return bool(verdict.screen_runs or verdict.confirm_runs or verdict.compared_case_count)


def group(level: Level, name: str) -> str:
    """Which cases a finding is about."""
    if level == "suite":
        return "whole suite"
    return f"cases that use {name}" if level == "tool" else f"{level} {name}"


def ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in the order in which they matter: pass, rounds, cost; tool before suite."""
    return sorted(
        findings,
        key=lambda one: (
            METRIC_ORDER.index(one.metric),
            LEVEL_ORDER.index(one.level),
            one.group,
        ),
    )


def finding_short(finding: Finding, *, names_group: bool = True) -> str:
    """``rounds 3.1× (2.7–3.5) in category read_only``."""
    measured = finding.measured
    size = wording.effect(finding.metric, measured) if measured else wording.UNKNOWN
    text = f"{wording.METRIC_NAMES[finding.metric]} {size}"
    return f"{text} in {group(finding.level, finding.group)}" if names_group else text


def finding_long(finding: Finding) -> str:
    """A finding with its means, and what it rests on."""
    measured = finding.measured
    where = group(finding.level, finding.group)
    if measured is None:
        return f"{wording.METRIC_NAMES[finding.metric]} in {where}: not measured"
    per_trial = "" if finding.metric == "pass_rate" else " per trial"
    means = f"{wording.before_after(finding.metric, measured)}{per_trial}{_by_means(measured)}"
    sample = wording.sample(measured, is_fresh=finding.confirmed is not None)
    return f"{finding_short(finding, names_group=False)}, {means}; {where}: {sample}"


def _by_means(measured: Measured) -> str:
    """The ratio of the means, where it is far from the typical case's: few cases carry it."""
    ratio = measured.total_ratio
    if ratio is None or not wording.is_known(ratio) or not measured.estimate:
        return ""
    return (
        f" ({wording.ratio(ratio)} by the means)"
        if abs(ratio / measured.estimate - 1) > 0.1
        else ""
    )


def single_cases(findings: Sequence[Finding]) -> str:
    """Several cases with a loss in the same metric, in one line."""
    named = [
        f"{one.group} {wording.effect(one.metric, one.measured) if one.measured else ''}".rstrip()
        for one in findings
    ]
    name = wording.METRIC_NAMES[findings[0].metric]
    cases = wording.count(len(findings), "single case")
    return f"{name} worse in {cases}: {wording.listed(named, MOST_SINGLE_CASES)}"


def finding_tested(finding: Finding) -> str:
    """A finding in full, with the test's p, the margin, and what the comparison could see."""
    measured = finding.measured
    if measured is None:
        return finding_long(finding)
    is_better = finding.state == "improved"
    p_value = wording.probability(measured.p_better if is_better else measured.p_worse)
    sees = wording.detectable(finding.metric, measured.smallest_detectable)
    return (
        f"{finding_long(finding)} (one-sided p {p_value}, margin {wording.margin(finding)},"
        f" smallest change seen {sees})"
    )


def gate_short(gate: GateResult) -> str:
    """``gate tone 33/40 = 82 %, needs 85 %``."""
    shown = wording.fraction(gate.counts.passed, gate.counts.graded, gate.threshold)
    return f"gate {gate.category} {shown}, needs {wording.percent(gate.threshold)}"


def gate_long(gate: GateResult) -> str:
    """A failed gate with its interval, its failing cases and what the rerun said."""
    parts = [f"{gate_short(gate)} (95 % interval {wording.percent_interval(gate.low, gate.high)})"]
    if gate.counts.graded < gate.counts.planned:
        parts.append(f"{gate.counts.graded} of {gate.counts.planned} trials graded")
    if gate.fresh_graded:
        parts.append(f"rerun {wording.fraction(gate.fresh_passed, gate.fresh_graded)}")
    if gate.failing_cases:
        parts.append(f"failing: {wording.listed(gate.failing_cases, 5)}")
    return "; ".join(parts)


def critical_short(failures: Sequence[CriticalFailure]) -> str:
    """``avoids edit_file failed in activation-events``, the rest counted."""
    first = failures[0]
    more = f" and {len(failures) - 1:,} more" if len(failures) > 1 else ""
    return f"{first.assertion} failed in {first.case_id}{more}"


def tool_short(shift: ToolShift) -> str:
    """``find_files 2 → 8 calls per trial``."""
    before, after = wording.number(shift.calls_before), wording.number(shift.calls_after)
    return f"{shift.tool} {before} → {after} calls per trial"


def tool_long(shift: ToolShift) -> str:
    """How the use of a tool moved, and how much of it led nowhere."""
    before, after = wording.number(shift.fruitless_before), wording.number(shift.fruitless_after)
    return (
        f"{tool_short(shift)}, empty or failed {before} → {after}"
        f" ({wording.count(shift.case_count, 'case')})"
    )


def barren(verdict: Verdict) -> str | None:
    """How the share of barren rounds moved, where it is known and there are any."""
    before, after = verdict.barren_before, verdict.barren_after
    if not before and not after:
        return None
    moved = wording.percent(after)
    if before is not None:
        moved = f"{wording.percent(before)} → {moved}"
    return f"barren rounds {moved} of all rounds (every tool result in them empty or an error)"


def answers(verdict: Verdict) -> str:
    """What became of the answers, said also where they are right: rounds move before they do."""
    counts = verdict.counts
    shown = f"{counts.passed}/{counts.graded}"
    if not counts.graded:
        return f"no answer was graded: 0 of {counts.planned:,} planned trials"
    suite = next(
        (one for one in verdict.findings if one.metric == "pass_rate" and one.level == "suite"),
        None,
    )
    before = suite.measured.baseline_mean if suite and suite.measured else None
    if counts.passed == counts.graded:
        still = "still passes" if before is None or before >= 1 else "passes"
        then = "" if before is None or before >= 1 else f" (before {wording.percent(before)})"
        if counts.graded == counts.planned:
            return f"every answer {still}: {shown}{then}"
        lost = f"{counts.planned - counts.graded:,} of {counts.planned:,} planned trials"
        return f"every graded answer {still}: {shown}{then}; {lost} have no grade"
    rate = f"pass rate {wording.fraction(counts.passed, counts.graded)}"
    if not verdict.findings:
        return rate
    return f"{rate}, {_comparison(suite)}"


def _comparison(suite: Finding | None) -> str:
    if suite is None:
        return "not compared as a whole"
    if suite.state == "no_worse":
        return f"no worse than before (a loss of {wording.margin(suite)} is excluded)"
    if suite.state == "not_comparable":
        return f"not comparable: {reason(suite.reason)}"
    moved = wording.effect(suite.metric, suite.measured) if suite.measured else wording.UNKNOWN
    if suite.state == "inconclusive":
        return f"{moved}: {reason(suite.reason)}"
    return f"{moved}: {suite.state}"


def changes(verdict: Verdict, unchanged: Sequence[str] = ()) -> list[str]:
    """What changed, and where something got worse whether it can be told what did it."""
    lines = [f"{one.what}: {one.before} → {one.after}" for one in verdict.changes]
    same = f"the same: {', '.join(unchanged)}"
    is_worse = verdict.exit_code == 1
    if not lines and not has_history(verdict):
        return ["there are not enough accepted nights yet to hold this run against"]
    if not lines:
        lines.append("nothing that is recorded changed")
        if is_worse:
            lines.append(
                "look for what is not recorded: data behind the tools, or a provider that changed"
                " what it serves under the same name"
            )
    elif is_worse and len(lines) == 1:
        lines.append("the only recorded change, so the suspect")
    elif is_worse:
        lines.append(f"{len(lines)} things changed at once: which of them did it cannot be told")
    return [*lines, same] if unchanged else lines


def exemplar(one: Exemplar) -> str:
    """One case before and after: ``passed 3/3 → 3/3, rounds 4 → 13, barren 0 → 9``."""
    before = f"{one.passed_before}/{one.graded_before} → " if one.graded_before else ""
    parts = [f"passed {before}{one.passed_after}/{one.graded_after}"]
    for what, then, now in (
        ("rounds", one.rounds_before, one.rounds_after),
        ("barren", one.barren_before, one.barren_after),
    ):
        if now is not None or then is not None:
            old = f"{wording.number(then)} → " if one.graded_before else ""
            parts.append(f"{what} {old}{wording.number(now)}")
    trial = f" (trial {one.trial_id})" if one.trial_id else ""
    return f"{one.case_id}: {', '.join(parts)}{trial}"


def blind_spots(verdict: Verdict) -> list[str]:
    """The smallest losses that this run could see, and where that is more than anyone accepts."""
    seen: list[str] = []
    blind: list[str] = []
    for metric in METRIC_ORDER:
        finding = _widest(verdict, metric)
        smallest = finding.measured.smallest_detectable if finding and finding.measured else None
        if finding is None or smallest is None or not wording.is_known(smallest):
            continue
        where = "" if finding.level == "suite" else f" ({group(finding.level, finding.group)})"
        name = wording.METRIC_NAMES[metric]
        seen.append(f"{name} {wording.detectable(metric, smallest)}{where}")
        if abs(smallest) > abs(finding.margin):
            blind.append(f"{name} {wording.margin(finding)}")
    if not verdict.findings:
        return ["nothing was compared, so a change could not have been seen"]
    if not seen:
        return [f"the smallest loss that would be seen: {wording.UNKNOWN}"]
    lines = [f"smallest loss that is seen 8 times in 10: {', '.join(seen)}"]
    if blind:
        lines.append(
            f"this suite cannot see a change of the size you care about here: {', '.join(blind)}"
        )
    return lines


def _widest(verdict: Verdict, metric: Metric) -> Finding | None:
    """The finding over the most cases that knows what it can see; the suite's own if any."""
    found = [
        (one.level == "suite", one.measured.case_count, index)
        for index, one in enumerate(verdict.findings)
        if one.metric == metric
        and one.measured is not None
        and wording.is_known(one.measured.smallest_detectable)
    ]
    return verdict.findings[max(found)[2]] if found else None
