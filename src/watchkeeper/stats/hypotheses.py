"""Which groups of cases are asked about, each set of cases once.

Source: docs/statistics.md#hypotheses
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.verdict import Level, Metric
from watchkeeper.stats.comparison import METRICS, Comparison

SMALLEST_GROUP = 2
# Of two groups with the same cases one is tested: the suite asks for less than a category, and a
# tool names the cause of rounds and cost better, a category that of wrong answers.
_PREFERENCE: Mapping[Metric, tuple[Level, ...]] = {
    "pass_rate": ("suite", "category", "tool"),
    "rounds": ("suite", "tool", "category"),
    "cost_usd": ("suite", "tool", "category"),
}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A metric got worse over a group of cases."""

    metric: Metric
    level: Level
    group: str
    cases: tuple[str, ...]

    def screen_level(self, constants: DecisionConstants, pass_hypothesis_count: int) -> float:
        """The one-sided p at which the night's trials make it a suspect.

        Args:
            constants: The constants of the procedure.
            pass_hypothesis_count: Pass-rate hypotheses of ungated categories and tools.
        Source: docs/statistics.md#screen
        """
        if self.level == "suite":
            return constants.suite_screen
        if self.level == "case":
            return constants.case_screen
        if self.metric == "pass_rate":
            return min(0.10, 1 / max(1, pass_hypothesis_count))
        return constants.group_screen

    def floor(self, constants: DecisionConstants) -> float:
        """The smallest change that is paged: rate points, or a share of the baseline."""
        if self.metric == "pass_rate":
            floors = {"suite": constants.suite_pass_floor, "case": constants.case_pass_floor}
            return floors.get(self.level, constants.pass_floor)
        if self.metric == "rounds":
            floors = {"suite": constants.suite_rounds_floor, "case": constants.case_rounds_floor}
            return floors.get(self.level, constants.rounds_floor)
        return constants.cost_floor

    def margin(self) -> float:
        """The loss that ``no_worse`` excludes: rate points, or a share of the baseline."""
        if self.metric == "pass_rate":
            return 0.02 if self.level == "suite" else 0.05
        return 0.10


def build_hypotheses(
    comparison: Comparison,
    categories: Mapping[str, Sequence[str]],
    hard_gated: frozenset[str],
    tool_shift: Mapping[str, float],
    tool_cases: Mapping[str, Sequence[str]],
) -> list[Hypothesis]:
    """The suite, category and tool hypotheses of a night.

    Args:
        comparison: The night against its screening baseline.
        categories: Cases by category.
        hard_gated: Categories under a gate of 100 %; their pass rates are the gate's business.
        tool_shift: How far the calls of each tool moved; among tools with the same cases the one
            that moved most gives the group its name.
        tool_cases: Cases whose baseline used the tool.
    """
    by_shift = sorted(tool_cases, key=lambda tool: (-tool_shift.get(tool, 0.0), tool))
    groups: dict[Level, list[tuple[str, Sequence[str]]]] = {
        "suite": [("suite", comparison.case_ids)],
        "category": [(name, categories[name]) for name in sorted(categories)],
        "tool": [(tool, tool_cases[tool]) for tool in by_shift],
    }
    hypotheses: list[Hypothesis] = []
    for metric in METRICS:
        seen: set[frozenset[str]] = set()
        for level in _PREFERENCE[metric]:
            for group, cases in groups[level]:
                matched = comparison.matched(metric, sorted(cases))
                smallest = 1 if level == "suite" else SMALLEST_GROUP
                if len(matched) < smallest or frozenset(matched) in seen:
                    continue
                seen.add(frozenset(matched))
                if metric == "pass_rate" and level == "category" and group in hard_gated:
                    continue
                hypotheses.append(Hypothesis(metric, level, group, matched))
    return hypotheses
