"""Comparisons of one number per case on each side: a single run held against a single run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from scipy.special import bdtr, stdtr, stdtrit

from watchkeeper.stats.samples import Floats

MOST_SIGNED_CASES = 20
"""Non-zero differences beyond which 2^n sign vectors are too many to list."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """P values of McNemar's exact test on discordant pairs; each within (0, 1]."""

    two_sided: float
    one_sided_regression: float
    mid_p_two_sided: float


@dataclass(frozen=True, slots=True)
class PairedMean:
    """Mean of the differences candidate minus baseline, its 95 % interval and Student's t."""

    mean: float
    low: float
    high: float
    t: float
    p_two_sided: float


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """Geometric mean of candidate/baseline with its 95 % interval, and the ratio of the means."""

    geometric_mean_ratio: float
    low: float
    high: float
    p_two_sided: float
    ratio_of_means: float


def mcnemar_exact(pass_to_fail: int, fail_to_pass: int) -> McNemar:
    """P values for the cases whose verdict changed between two runs, one trial each.

    Args:
        pass_to_fail: Cases that passed before and fail now.
        fail_to_pass: Cases that failed before and pass now.

    Returns:
        Every p is 1.0 where no verdict changed; that is not evidence of equality.

    Raises:
        ValueError: a negative count.
    Source: docs/statistics.md#mcnemar
    """
    if min(pass_to_fail, fail_to_pass) < 0:
        raise ValueError(f"counts are {pass_to_fail} and {fail_to_pass}; expected 0 or more")
    changed, smaller = pass_to_fail + fail_to_pass, min(pass_to_fail, fail_to_pass)
    up_to_smaller = float(bdtr(smaller, changed, 0.5))
    below_smaller = float(bdtr(smaller - 1, changed, 0.5)) if smaller else 0.0
    return McNemar(
        two_sided=min(1.0, 2 * up_to_smaller),
        one_sided_regression=float(bdtr(fail_to_pass, changed, 0.5)),
        mid_p_two_sided=min(1.0, up_to_smaller + below_smaller),
    )


def sign_flip_permutation_lower(differences: Sequence[float]) -> float:
    """Chance of a sum of differences this low, had each difference either sign with equal chance.

    Args:
        differences: Candidate minus baseline per case, any unit; zeros do not matter.

    Returns:
        One-sided p in (0, 1]; small when the candidate is lower. 1.0 without a non-zero difference.

    Raises:
        ValueError: more than 20 non-zero differences.
    Source: docs/statistics.md#sign-flips
    """
    sizes = np.abs([difference for difference in differences if difference != 0])
    if len(sizes) > MOST_SIGNED_CASES:
        raise ValueError(f"{len(sizes)} differences are too many to list; at most 20")
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    tolerance = 1e-9 * float(sizes.sum())
    return float((sums <= sum(differences) + tolerance).mean())


def paired_t(baseline: Sequence[float], candidate: Sequence[float]) -> PairedMean | None:
    """Mean change per case by Student's paired t; ``None`` under two cases or without spread.

    For people comparing two single runs; the nightly procedure does not use it.

    Args:
        baseline: One number per case, any unit.
        candidate: The same cases in the same order.

    Raises:
        ValueError: the sides differ in length.
    Source: docs/statistics.md#paired-change
    """
    before, after = _pair(baseline, candidate)
    change = after - before
    case_count = len(change)
    if case_count < 2 or np.ptp(change) == 0:
        return None
    mean = float(change.mean())
    standard_error = float(change.std(ddof=1)) / sqrt(case_count)
    reach = float(stdtrit(case_count - 1, 0.975)) * standard_error
    t = mean / standard_error
    p = 2 * float(stdtr(case_count - 1, -abs(t)))
    return PairedMean(mean, mean - reach, mean + reach, t, p)


def paired_log_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> PairedRatio | None:
    """Geometric mean ratio by a paired t on logarithms; ``None`` under two cases or no spread.

    Args:
        baseline: One number above 0 per case, any unit.
        candidate: The same cases in the same order and unit.

    Raises:
        ValueError: a number that is 0 or less, or sides that differ in length.
    Source: docs/statistics.md#paired-change
    """
    before, after = _pair(baseline, candidate)
    if min(before.min(initial=1.0), after.min(initial=1.0)) <= 0:
        raise ValueError("a number of 0 or less has no logarithm")
    result = paired_t([log(value) for value in before], [log(value) for value in after])
    if result is None:
        return None
    return PairedRatio(
        geometric_mean_ratio=exp(result.mean),
        low=exp(result.low),
        high=exp(result.high),
        p_two_sided=result.p_two_sided,
        ratio_of_means=float(after.sum() / before.sum()),
    )


def _pair(baseline: Sequence[float], candidate: Sequence[float]) -> tuple[Floats, Floats]:
    before, after = np.asarray(baseline, np.float64), np.asarray(candidate, np.float64)
    if before.shape != after.shape:
        raise ValueError(f"{len(before)} baseline cases and {len(after)} candidate cases")
    return before, after
