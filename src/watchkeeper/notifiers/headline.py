"""What a verdict comes to in one line; page, report, JSON and exit code all start from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from watchkeeper.domain.incident import IncidentRoot
from watchkeeper.domain.verdict import Finding, ToolShift, Verdict
from watchkeeper.notifiers import phrases, wording
from watchkeeper.notifiers.served import served_lines

ItemKind = Literal["critical", "pass_rate", "gate", "tool", "rounds", "cost_usd"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that got worse: in a few words for a title, and in full.

    ``subject`` is the kind and the name of what it is about, as an incident's root has them.
    ``bare`` is ``short`` without its group, for use beside an item of the same subject.
    ``finding`` is what was tested; for a tool the finding that its use explains.
    """

    kind: ItemKind
    subject: tuple[str, str]
    short: str
    bare: str
    full: str
    finding: Finding | None = None


def got_worse(verdict: Verdict) -> list[Item]:
    """Everything confirmed as worse, in the order critical, pass, gate, tool, rounds, cost."""
    worse = phrases.ordered(verdict.regressions)
    slower = [one for one in worse if one.metric != "pass_rate"]
    items = _critical_items(verdict)
    items += [_finding_item(one) for one in worse if one.metric == "pass_rate"]
    for gate in verdict.acting_gates:
        short = phrases.gate_short(gate)
        items.append(Item("gate", ("gate", gate.category), short, short, phrases.gate_long(gate)))
    items += _tool_items(verdict.tool_shifts, slower)
    items += [_finding_item(one) for one in slower]
    return items


def for_incident(verdict: Verdict, root: IncidentRoot) -> tuple[list[Item], list[Item]]:
    """What got worse and belongs to an incident, and what else got worse in the same run."""
    mine = [one for one in verdict.roots if (one.kind, one.name) == (root.kind, root.name)]
    members = {member for one in mine for member in one.members}
    items = got_worse(verdict)
    if verdict.roots and not mine:
        return [], items  # what got worse that night has roots of its own
    own = [item for item in items if _belongs(item, root, members)]
    return own, [item for item in items if item not in own]


def in_few_words(items: Sequence[Item]) -> list[str]:
    """Each item in a few words; single cases with the same loss are one line."""
    lines: list[str] = []
    for item in items:
        alike = [one for one in items if one.kind == item.kind and _is_case(one)]
        if len(alike) < 2 or item not in alike:
            lines.append(item.short)
        elif item == alike[0]:
            lines.append(phrases.single_cases([one.finding for one in alike if one.finding]))
    return lines


def title_of(items: list[Item]) -> str:
    """The first item, with what it cost in rounds or the like where that adds something."""
    if not items:
        return ""
    first = items[0]
    for other in items[1:]:
        if other.kind != first.kind:
            same = first.kind == "tool" and other.subject == first.subject
            return f"{first.short}, {other.bare if same else other.short}"
    return first.short


def status(verdict: Verdict) -> str:
    """The verdict in capitals; always in step with the exit code."""
    code = verdict.exit_code
    if code == 1:
        if verdict.critical:
            return "CRITICAL FAILURE"
        return "REGRESSED" if verdict.regressions else "GATE FAILED"
    if code == 3:
        return "NO VERDICT"
    if code == 4:
        return "NOT COMPARABLE"
    if verdict.state == "regressed":
        return "BELOW A GATE THAT ONLY REPORTS"
    if not phrases.has_history(verdict):
        return "NO BASELINE YET"
    return {"improved": "IMPROVED", "no_worse": "NO WORSE"}.get(verdict.state, "INCONCLUSIVE")


def headline(verdict: Verdict) -> str:
    """The verdict in one line: ``REGRESSED: find_files 2 → 8 calls per trial, rounds 3.1× …``."""
    said = title_of(got_worse(verdict)) or _nothing_worse(verdict)
    served = "".join(f"{line}; " for line in served_lines(verdict)[:1])
    return f"{status(verdict)}: {served}{said}"


def exit_meaning(verdict: Verdict) -> str:
    """Why the command ends with the code that it ends with."""
    code = verdict.exit_code
    if code == 1:
        causes = []
        if verdict.critical:
            causes.append(wording.count(len(verdict.critical), "critical failure"))
        if verdict.regressions:
            causes.append(wording.count(len(verdict.regressions), "confirmed regression"))
        if verdict.acting_gates:
            names = wording.listed([gate.category for gate in verdict.acting_gates], 3)
            causes.append(f"failed gate: {names}")
        return "; ".join(causes)
    if code == 3:
        return "no verdict: the evaluation is broken, nothing is said about the agent"
    if code == 4:
        return "nothing was comparable"
    if verdict.state == "regressed":
        return "below a gate whose action is 'report'"
    if not phrases.has_history(verdict):
        return "nothing to compare with yet is not a failure"
    if verdict.state in {"improved", "no_worse"}:
        return "nothing got worse beyond what was declared acceptable"
    return "nothing is confirmed as worse; that is not proof of no change"


def _nothing_worse(verdict: Verdict) -> str:
    counts = verdict.counts
    if verdict.exit_code == 3:
        graded = f"{counts.graded:,} of {counts.planned:,} planned trials graded"
        silent = [gate.category for gate in verdict.gates if gate.state == "no_verdict"]
        return verdict.broken or f"no verdict for gate {wording.listed(silent, 3)} ({graded})"
    if verdict.exit_code == 4:
        return phrases.reason(verdict.reason) or "nothing to hold the run against"
    if verdict.state == "regressed":
        failed = [gate for gate in verdict.gates if gate.state.startswith("failed")]
        return "; ".join(phrases.gate_short(gate) for gate in failed[:2]) or "see the gates"
    if not phrases.has_history(verdict):
        return f"{phrases.answers(verdict)}; no history, nothing compared"
    if verdict.state == "improved":
        better = phrases.ordered([one for one in verdict.findings if one.state == "improved"])
        return ", ".join(phrases.finding_short(one) for one in better[:2]) or "see the findings"
    if verdict.state == "no_worse":
        return phrases.answers(verdict)
    why = phrases.reason(verdict.reason)
    return f"{why}; {phrases.answers(verdict)}" if why else phrases.answers(verdict)


def _critical_items(verdict: Verdict) -> list[Item]:
    items = []
    for category in dict.fromkeys(one.category for one in verdict.critical):
        failures = [one for one in verdict.critical if one.category == category]
        short = phrases.critical_short(failures)
        items.append(Item("critical", ("gate", category), short, short, f"critical: {short}"))
    return items


def _finding_item(finding: Finding) -> Item:
    return Item(
        finding.metric,
        (finding.level, finding.group),
        phrases.finding_short(finding),
        phrases.finding_short(finding, names_group=False),
        phrases.finding_long(finding),
        finding,
    )


def _tool_items(shifts: Sequence[ToolShift], slower: Sequence[Finding]) -> list[Item]:
    """The tools behind confirmed losses in rounds or cost: those named by a finding.

    Where no finding names one, it is the tool whose calls rose most, if they rose by a half and by
    one call; two tools with the same cases are one hypothesis, so the finding may name the suite.
    Without a confirmed loss no tool is named: its use may have moved for any reason.
    """
    by_name = {shift.tool: shift for shift in shifts}
    items = []
    for finding in slower:
        shift = by_name.pop(finding.group, None) if finding.level == "tool" else None
        if shift is not None and rose(shift):
            items.append(_tool_item(shift, finding))
    if slower and not items and shifts:
        most = max(shifts, key=lambda shift: shift.calls_after - shift.calls_before)
        if rose(most, 1.0) and most.calls_after >= 1.5 * most.calls_before:
            items.append(_tool_item(most, slower[0]))
    return items


def _tool_item(shift: ToolShift, finding: Finding) -> Item:
    short, full = phrases.tool_short(shift), phrases.tool_long(shift)
    return Item("tool", (finding.level, finding.group), short, short, full, finding)


def rose(shift: ToolShift, by: float = 0.05) -> bool:
    """Whether a tool was called, or called in vain, more often by so many calls per trial."""
    return (
        shift.calls_after - shift.calls_before >= by
        or shift.fruitless_after - shift.fruitless_before >= by
    )


def _is_case(item: Item) -> bool:
    return item.finding is not None and item.finding.level == "case" and item.kind != "tool"


def _belongs(item: Item, root: IncidentRoot, members: set[str]) -> bool:
    """Whether an incident is about the item.

    ``members`` are the findings that the verdict puts under the incident's root. Where it names
    none, a tool or the whole suite gathers all of them, another root those of its own name.
    """
    if item.kind in {"critical", "gate"}:
        is_grave = item.kind == "gate" or root.severity == "critical"
        return is_grave and item.subject == (root.kind, root.name)
    if item.finding is not None and members:
        one = item.finding
        return f"{one.metric}/{one.level}/{one.group}" in members
    return root.kind in {"tool", "suite"} or item.subject[1] == root.name
