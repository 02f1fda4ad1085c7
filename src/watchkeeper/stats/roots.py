"""Confirmed regressions grouped by what is behind them: one incident a root.

Source: docs/statistics.md#grouping
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.run import Manifest
from watchkeeper.domain.verdict import CriticalFailure, GateResult, Level, RegressionRoot
from watchkeeper.stats.comparison import Comparison
from watchkeeper.stats.confirmation import Suspect
from watchkeeper.stats.hypotheses import Hypothesis

_LEVEL_ORDER: Mapping[Level, int] = {"tool": 0, "category": 1, "suite": 2, "case": 3}


@dataclass(frozen=True, slots=True)
class Root:
    """A regression that explains others; ``members`` are hypotheses, its own first."""

    members: tuple[Hypothesis, ...]

    @property
    def cases(self) -> frozenset[str]:
        """The cases of the root's own hypothesis."""
        return frozenset(self.members[0].cases)


def group_by_root(
    confirmed: Sequence[Suspect],
    comparison: Comparison,
    constants: DecisionConstants,
    told: frozenset[str] = frozenset(),
) -> list[Root]:
    """The roots of a night's confirmed regressions, tools before categories, suite and cases.

    A hypothesis whose effect vanishes without the cases of a root is a child of that root; where
    it takes the cases of several, of the first. Where several categories moved and the whole suite
    with them, the suite is the one root.

    Args:
        confirmed: What fresh trials confirmed.
        comparison: The night against its screening baseline.
        constants: The constants of the procedure.
        told: Cases whose wrong answers a gate or a critical failure pages already; a pass rate
            that fell for their sake alone is no root.
    """
    ordered = sorted(
        (
            one.hypothesis
            for one in confirmed
            if one.hypothesis.metric != "pass_rate"
            or not _is_explained(one.hypothesis, told, comparison, constants)
        ),
        key=lambda one: (_LEVEL_ORDER[one.level], _metric_order(one), one.group),
    )
    roots: list[list[Hypothesis]] = []
    for hypothesis in ordered:
        parent = next(
            (
                root
                for root in roots
                if _is_explained(hypothesis, frozenset(root[0].cases), comparison, constants)
            ),
            None,
        )
        absorbed = _absorbed(hypothesis, roots) if parent is None else []
        if parent is None and roots and not absorbed:
            known = frozenset(case for root in roots for case in root[0].cases)
            known |= told if hypothesis.metric == "pass_rate" else frozenset()
            if _is_explained(hypothesis, known, comparison, constants):
                parent = roots[0]
        if parent is None:
            roots = [root for root in roots if root not in absorbed]
            roots.append([hypothesis, *(member for root in absorbed for member in root)])
        else:
            parent.append(hypothesis)
    return [Root(tuple(members)) for members in roots]


def regression_roots(
    manifest: Manifest,
    confirmed: Sequence[Root],
    gates: Sequence[GateResult],
    critical_failures: Sequence[CriticalFailure],
) -> tuple[RegressionRoot, ...]:
    """Who is told of what: critical failures and gates first, then what fresh trials confirmed.

    The owner is the gate's where all cases are of one category, else the suite's.
    """
    owners = {gate.category: gate.owner for gate in manifest.gates}
    roots: list[RegressionRoot] = []
    critical = {one.category for one in critical_failures}
    for gate in gates:
        if gate.acts or gate.category in critical:
            severity: Literal["page", "critical"] = (
                "critical" if gate.category in critical else "page"
            )
            roots.append(RegressionRoot("gate", gate.category, gate.owner, severity))
    told = {root.name for root in roots}
    for root in confirmed:
        own = root.members[0]
        categories = {stamp.category for stamp in manifest.cases if stamp.case_id in root.cases}
        if own.metric == "pass_rate" and categories <= told:
            continue
        owner = owners.get(next(iter(categories))) if len(categories) == 1 else None
        roots.append(
            RegressionRoot(
                kind=own.level,
                name=manifest.suite if own.level == "suite" else own.group,
                owner=owner or manifest.suite_owner or manifest.endpoint_owner,
                severity="page",
                members=tuple(f"{m.metric}/{m.level}/{m.group}" for m in root.members),
            )
        )
    return tuple(roots)


def _absorbed(hypothesis: Hypothesis, roots: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
    """The category roots that a moved suite stands for."""
    if hypothesis.level != "suite":
        return []
    categories = [root for root in roots if root[0].level == "category"]
    return categories if len(categories) > 1 else []


def _metric_order(hypothesis: Hypothesis) -> int:
    return ("pass_rate", "rounds", "cost_usd").index(hypothesis.metric)


def _is_explained(
    hypothesis: Hypothesis,
    cases: frozenset[str],
    comparison: Comparison,
    constants: DecisionConstants,
) -> bool:
    """Whether the effect of a hypothesis vanishes without some cases."""
    rest = tuple(case for case in hypothesis.cases if case not in cases)
    if len(rest) == len(hypothesis.cases):
        return False
    if not rest:
        return True
    level = hypothesis.screen_level(constants, 1)
    compared = comparison.compare(hypothesis.metric, rest, 1.0, level)
    return compared is None or compared.result.p_worse > level
