"""What to show beside a finding: tools whose use moved, and cases that show the change.

Source: docs/statistics.md#hypotheses
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.verdict import Exemplar, Metric, ToolShift

SMALLEST_SHIFT = 0.5
EXEMPLAR_COUNT = 3


def tools_of(table: FactTable) -> dict[str, tuple[str, ...]]:
    """The cases in which each tool was used, in any trial."""
    used: dict[str, set[str]] = {}
    for fact in table:
        for tool, count in fact.tool_calls.items():
            if count:
                used.setdefault(tool, set()).add(fact.case_id)
    return {tool: tuple(sorted(cases)) for tool, cases in sorted(used.items())}


def tool_shifts(before: FactTable, after: FactTable, cases: Sequence[str]) -> list[ToolShift]:
    """How the calls of each tool moved, the largest move first; every case weighs the same."""
    before_facts = {case: _resolved(before.of(case)) for case in cases}
    after_facts = {case: _resolved(after.of(case)) for case in cases}
    both = [case for case in cases if before_facts[case] and after_facts[case]]
    tools = sorted(
        {
            tool
            for side in (before_facts, after_facts)
            for case in both
            for fact in side[case]
            for tool in fact.tool_calls
        }
    )
    shifts: list[ToolShift] = []
    for tool in tools:
        using = [
            case
            for case in both
            if any(fact.tool_calls.get(tool) for fact in (*before_facts[case], *after_facts[case]))
        ]
        shifts.append(
            ToolShift(
                tool=tool,
                case_count=len(using),
                calls_before=_case_mean(before_facts, using, tool, fruitless=False),
                calls_after=_case_mean(after_facts, using, tool, fruitless=False),
                fruitless_before=_case_mean(before_facts, using, tool, fruitless=True),
                fruitless_after=_case_mean(after_facts, using, tool, fruitless=True),
            )
        )
    return sorted(shifts, key=lambda one: -abs(one.calls_after - one.calls_before))


def moved(shifts: Iterable[ToolShift]) -> tuple[ToolShift, ...]:
    """The shifts that are worth a line."""
    return tuple(one for one in shifts if abs(one.calls_after - one.calls_before) >= SMALLEST_SHIFT)


def barren_rate(table: FactTable, cases: Iterable[str]) -> float | None:
    """Barren rounds per round over the trials of some cases; undefined without a round."""
    facts = [fact for case in cases for fact in _resolved(table.of(case))]
    rounds = sum(fact.round_count for fact in facts)
    return sum(fact.barren_round_count for fact in facts) / rounds if rounds else None


def exemplars(
    metric: Metric, before: FactTable, after: FactTable, cases: Sequence[str], count: int
) -> list[Exemplar]:
    """The cases that moved most, the worst first."""
    ranked: list[tuple[float, Exemplar]] = []
    for case in cases:
        old, new = _resolved(before.of(case)), _resolved(after.of(case))
        if not old or not new:
            continue
        ranked.append((_loss(metric, old, new), _exemplar(metric, case, old, new)))
    ranked.sort(key=lambda pair: (-pair[0], pair[1].case_id))
    return [exemplar for loss, exemplar in ranked[:count] if loss > 0]


def failing_exemplars(
    before: FactTable, after: FactTable, cases: Sequence[str], count: int
) -> list[Exemplar]:
    """Cases with a failed trial, whether or not there is anything to compare them with."""
    shown: list[Exemplar] = []
    for case in cases:
        new = _resolved(after.of(case))
        if any(fact.outcome == "failed" for fact in new):
            shown.append(_exemplar("pass_rate", case, _resolved(before.of(case)), new))
    shown.sort(key=lambda one: (one.passed_after / max(one.graded_after, 1), one.case_id))
    return shown[:count]


def _exemplar(
    metric: Metric, case: str, old: Sequence[TrialFact], new: Sequence[TrialFact]
) -> Exemplar:
    shift = max(
        tool_shifts(FactTable(old), FactTable(new), [case]),
        key=lambda one: one.calls_after - one.calls_before,
        default=None,
    )
    note = ""
    if shift is not None and shift.calls_after - shift.calls_before >= 1:
        note = f"{shift.tool} {shift.calls_before:.1f} → {shift.calls_after:.1f} calls per trial"
    if metric == "pass_rate":
        worst = next((fact for fact in new if fact.outcome == "failed"), new[0])
    else:
        worst = max(new, key=lambda fact: (fact.round_count, fact.trial_id))
    return Exemplar(
        case_id=case,
        passed_before=_passed(old),
        graded_before=len(old),
        passed_after=_passed(new),
        graded_after=len(new),
        rounds_before=_median(fact.round_count for fact in old),
        rounds_after=_median(fact.round_count for fact in new),
        barren_before=_median(fact.barren_round_count for fact in old),
        barren_after=_median(fact.barren_round_count for fact in new),
        trial_id=worst.trial_id,
        note=note,
    )


def _loss(metric: Metric, old: Sequence[TrialFact], new: Sequence[TrialFact]) -> float:
    if metric == "pass_rate":
        return _passed(old) / len(old) - _passed(new) / len(new)
    if metric == "rounds":
        return _mean([fact.round_count for fact in new]) - _mean([fact.round_count for fact in old])
    paid_old = [fact.cost_usd for fact in old if fact.cost_usd is not None]
    paid_new = [fact.cost_usd for fact in new if fact.cost_usd is not None]
    return _mean(paid_new) - _mean(paid_old) if paid_old and paid_new else 0.0


def _resolved(facts: Iterable[TrialFact]) -> list[TrialFact]:
    return [fact for fact in facts if fact.is_resolved]


def _passed(facts: Iterable[TrialFact]) -> int:
    return sum(fact.outcome == "passed" for fact in facts)


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


def _median(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return float(statistics.median(numbers)) if numbers else None


def _case_mean(
    side: dict[str, list[TrialFact]], cases: Sequence[str], tool: str, *, fruitless: bool
) -> float:
    means = [
        _mean(
            [
                (fact.fruitless_calls if fruitless else fact.tool_calls).get(tool, 0)
                for fact in side[case]
            ]
        )
        for case in cases
    ]
    return _mean(means) if means else 0.0
