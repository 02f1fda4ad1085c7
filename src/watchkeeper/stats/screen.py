"""The screen: which hypotheses the night's own trials make suspects. A suspect is not a page.

Source: docs/statistics.md#screen
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.stats.comparison import Compared, Comparison
from watchkeeper.stats.exact import rank_permutation_greater
from watchkeeper.stats.hypotheses import Hypothesis
from watchkeeper.stats.samples import Floats

SCREEN_ROUNDS_RISE = 0.05
SCREEN_COST_RISE = 0.025
FEWEST_CANDIDATE_TRIALS = 2
FEWEST_BASELINE_TRIALS = 3


@dataclass(frozen=True, slots=True)
class Screened:
    """A hypothesis with the night's comparison, and whether it is a suspect.

    ``p`` is the one-sided p for worse by which it was screened.
    """

    hypothesis: Hypothesis
    compared: Compared
    p: float
    is_suspect: bool


def screen(
    comparison: Comparison,
    hypotheses: Sequence[Hypothesis],
    phi: Mapping[str, float],
    constants: DecisionConstants,
    hard_gated_cases: frozenset[str],
) -> list[Screened]:
    """Every group hypothesis with its comparison, and single cases where they are suspects.

    Args:
        comparison: The night against its screening baseline.
        hypotheses: The groups that are asked about.
        phi: Over-dispersion by ``metric/level``; 1 where it is not known.
        constants: The constants of the procedure.
        hard_gated_cases: Cases whose failures their gate deals with.
    """
    pass_count = sum(
        1 for one in hypotheses if one.metric == "pass_rate" and one.level in ("category", "tool")
    )
    found: list[Screened] = []
    for hypothesis in hypotheses:
        level = hypothesis.screen_level(constants, pass_count)
        factor = phi.get(f"{hypothesis.metric}/{hypothesis.level}", 1.0)
        compared = comparison.compare(hypothesis.metric, hypothesis.cases, factor, level)
        if compared is None:
            continue
        p = compared.result.p_worse
        is_suspect = p <= level and _reaches_screen(hypothesis, compared.result.estimate)
        found.append(Screened(hypothesis, compared, p, is_suspect))
    found.extend(_suspect_cases(comparison, constants, hard_gated_cases))
    return found


def _reaches_screen(hypothesis: Hypothesis, estimate: float) -> bool:
    if hypothesis.metric == "pass_rate":
        return estimate < 0
    rise = SCREEN_ROUNDS_RISE if hypothesis.metric == "rounds" else SCREEN_COST_RISE
    return estimate >= math.log1p(rise)


def _suspect_cases(
    comparison: Comparison, constants: DecisionConstants, hard_gated: frozenset[str]
) -> list[Screened]:
    suspects: list[Screened] = []
    for case_id in comparison.case_ids:
        checks = [("rounds", _case_rounds_p), ("pass_rate", _case_pass_p)]
        for metric, p_of in checks:
            if metric == "pass_rate" and case_id in hard_gated:
                continue
            hypothesis = Hypothesis(
                "rounds" if metric == "rounds" else "pass_rate", "case", case_id, (case_id,)
            )
            compared = comparison.compare(
                hypothesis.metric, hypothesis.cases, 1.0, constants.case_screen
            )
            if compared is None:
                continue
            p = p_of(comparison, hypothesis, compared, constants)
            if p is not None and p <= constants.case_screen:
                suspects.append(Screened(hypothesis, compared, p, is_suspect=True))
    return suspects


def _case_pass_p(
    comparison: Comparison,  # noqa: ARG001 - one signature for both metrics
    hypothesis: Hypothesis,  # noqa: ARG001
    compared: Compared,
    constants: DecisionConstants,  # noqa: ARG001
) -> float | None:
    return compared.result.p_worse if compared.result.estimate < 0 else None


def _case_rounds_p(
    comparison: Comparison,
    hypothesis: Hypothesis,
    compared: Compared,
    constants: DecisionConstants,
) -> float | None:
    if compared.result.estimate < math.log1p(constants.case_rounds_floor):
        return None
    before, after = (
        _numbers(side.values) for side in comparison.samples("rounds", hypothesis.cases)
    )
    if len(after) < FEWEST_CANDIDATE_TRIALS or len(before) < FEWEST_BASELINE_TRIALS:
        return None
    return rank_permutation_greater(list(after), list(before))


def _numbers(values: Floats) -> Floats:
    flat = values.ravel()
    return flat[~np.isnan(flat)]
