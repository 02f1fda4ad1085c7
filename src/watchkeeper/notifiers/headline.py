"""What a verdict comes to in one line; page, report, JSON and exit code all start from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from watchkeeper.domain.incident import IncidentRoot
from watchkeeper.domain.verdict import Finding, ToolShift, Verdict
from watchkeeper.notifiers import phrases, wording

ItemKind = Literal["critical", "pass_rate", "gate", "tool", "rounds", "cost_usd"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that got worse: in a few words for a title, and in full.

    ``subject`` is the level and the group that it is about, as an incident's root names them.
    ``bare`` is ``short`` without its group, for use beside an item of the same subject.
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
    shifts = {shift.tool: shift for shift in verdict.tool_shifts}
    items = _critical_items(verdict)
    items += [_finding_item(one) for one in worse if one.metric == "pass_rate"]
    for gate in verdict.acting_gates:
        short = phrases.gate_short(gate)
        items.append(Item("gate", ("gate", gate.category), short, short, phrases.gate_long(gate)))
    named = dict.fromkeys(one.group for one in worse if one.level == "tool")
    items += [_tool_item(shifts[tool]) for tool in named if tool in shifts and rose(shifts[tool])]
    items += [_finding_item(one) for one in worse if one.metric != "pass_rate"]
    return items


def for_incident(items: list[Item], root: IncidentRoot) -> tuple[list[Item], list[Item]]:
    """The items that an incident is about, and the others of the same run."""
    own = [item for item in items if _belongs(item, root)]
    return own, [item for item in items if item not in own]


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
        return "FIRST RECORD"
    return {"improved": "IMPROVED", "no_worse": "NO WORSE"}.get(verdict.state, "INCONCLUSIVE")


def headline(verdict: Verdict) -> str:
    """The verdict in one line: ``REGRESSED: find_files 2 → 8 calls per trial, rounds 3.1× …``."""
    said = title_of(got_worse(verdict)) or _nothing_worse(verdict)
    return f"{status(verdict)}: {said}"


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
        return "a first record is not a failure"
    if verdict.state in {"improved", "no_worse"}:
        return "nothing got worse beyond what was declared acceptable"
    return "nothing is confirmed as worse; that is not proof of no change"


def _nothing_worse(verdict: Verdict) -> str:
    counts = verdict.counts
    if verdict.exit_code == 3:
        graded = f"{counts.graded:,} of {counts.planned:,} planned trials graded"
        silent = [gate.category for gate in verdict.gates if gate.state == "no_verdict"]
        cause = verdict.broken or f"no verdict for gate {wording.listed(silent, 3)}"
        return f"{cause} ({graded})"
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
    if not verdict.critical:
        return []
    short = phrases.critical_short(verdict.critical)
    first = verdict.critical[0]
    return [Item("critical", ("case", first.case_id), short, short, f"critical: {short}")]


def _finding_item(finding: Finding) -> Item:
    return Item(
        finding.metric,
        (finding.level, finding.group),
        phrases.finding_short(finding),
        phrases.finding_short(finding, names_group=False),
        phrases.finding_long(finding),
        finding,
    )


def _tool_item(shift: ToolShift) -> Item:
    short = phrases.tool_short(shift)
    return Item("tool", ("tool", shift.tool), short, short, phrases.tool_long(shift))


def rose(shift: ToolShift, by: float = 0.05) -> bool:
    """Whether a tool was called, or called in vain, more often by so many calls per trial."""
    return (
        shift.calls_after - shift.calls_before >= by
        or shift.fruitless_after - shift.fruitless_before >= by
    )


def _belongs(item: Item, root: IncidentRoot) -> bool:
    """Whether an incident with this root is about the item.

    A tool or the whole suite gathers every finding of the night under it, failed answers first;
    the other roots are about their own name.
    """
    if item.kind == "critical":
        return root.severity == "critical"
    if item.kind == "gate":
        return root.kind == "gate" and item.subject[1] == root.name
    if root.kind in {"tool", "suite"}:
        return True
    return item.subject[1] == root.name
