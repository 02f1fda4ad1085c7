"""Intervals by resampling: the invoice, a category with clusters, a plain mean.

Every function takes the seed; the same numbers and seed give the same interval.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from watchkeeper.stats.samples import Floats, Sample, matched_cases

DRAWS = 2_000
MOST_ENUMERATED_CLUSTERS = 7
"""7 clusters have 823,543 resamples; an eighth would make it 16,777,216."""


@dataclass(frozen=True, slots=True)
class RatioOfTotals:
    """The invoice: candidate total over baseline total, with a 95 % interval over cases.

    ``low`` and ``high`` are ``None`` where resampling cases cannot tell them: a single case, or
    cases that all moved by the same factor.
    """

    ratio: float
    low: float | None
    high: float | None
    case_count: int


class ClusterSpread(NamedTuple):
    """The pooled mean, and its standard deviation over every resample of whole clusters."""

    mean: float
    standard_deviation: float
    resample_count: int


def ratio_of_totals(
    baseline: Sample, candidate: Sample, seed: int, draws: int = DRAWS
) -> RatioOfTotals | None:
    """How the bill changes if every case runs equally often: a ratio of sums of case means.

    Args:
        baseline: Dollars, tokens or rounds per trial, 0 or more.
        candidate: The same cases in the same order and unit.
        seed: Of the case bootstrap.
        draws: Bootstrap resamples.

    Returns:
        ``None`` without a matched case, or where the baseline's total is 0.

    Raises:
        ValueError: a negative value, or sides of different length.
    Source: docs/statistics.md#ratio-of-totals
    """
    matched = matched_cases(baseline, candidate)
    before, after = baseline.case_means[matched], candidate.case_means[matched]
    if before.sum() == 0:
        return None
    order = np.lexsort((after, before))  # the order in which cases are listed must not matter
    before, after = before[order], after[order]
    interval = bootstrap_bca_ratio_of_means(before, after, seed, draws=draws)
    low, high = interval or (None, None)
    return RatioOfTotals(float(after.sum() / before.sum()), low, high, len(before))


def bootstrap_bca_ratio_of_means(
    baseline: Sequence[float] | Floats,
    candidate: Sequence[float] | Floats,
    seed: int,
    confidence: float = 0.95,
    draws: int = DRAWS,
) -> tuple[float, float] | None:
    """Interval of mean(candidate)/mean(baseline), resampling cases with both their numbers (BCa).

    Resamples whose baseline sums to 0 are left out.

    Args:
        baseline: One number per case, 0 or more.
        candidate: The same cases in the same order and unit.
        seed: Of the resampling.
        confidence: Two-sided, in (0, 1).
        draws: Bootstrap resamples.

    Returns:
        ``None`` where resampling cannot tell: under two cases, a baseline of zeros, or cases that
        all have the same ratio.

    Raises:
        ValueError: a negative number, or sides of different length.
    Source: docs/statistics.md#ratio-of-totals
    """
    before, after = np.asarray(baseline, np.float64), np.asarray(candidate, np.float64)
    if before.shape != after.shape:
        raise ValueError(f"{len(before)} baseline cases and {len(after)} candidate cases")
    if (before < 0).any() or (after < 0).any():
        raise ValueError("a total needs numbers of 0 or more")
    if len(before) < 2 or before.sum() == 0:
        return None
    ratio = after.sum() / before.sum()
    chosen = np.random.default_rng(seed).integers(0, len(before), (draws, len(before)))
    ratios = _ratios(after[chosen].sum(axis=1), before[chosen].sum(axis=1))
    if not len(ratios) or np.ptp(ratios) <= 1e-12 * ratio:
        return None
    left_out = _ratios(after.sum() - after, before.sum() - before)
    influence = left_out.mean() - left_out if len(left_out) else np.zeros(1)
    spread = float((influence**2).sum())
    acceleration = float((influence**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    below = ((ratios < ratio).mean() + (ratios <= ratio).mean()) / 2
    bias = float(ndtri(np.clip(below, 0.5 / draws, 1 - 0.5 / draws)))
    tail = (1 - confidence) / 2
    reach = bias + ndtri(np.array([tail, 1 - tail]))
    low, high = np.quantile(ratios, ndtr(bias + reach / np.maximum(1 - acceleration * reach, 0.1)))
    return (float(low), float(high)) if low < high else None


def bootstrap_percentile_mean(
    values: Sequence[float], seed: int, confidence: float = 0.95, draws: int = DRAWS
) -> tuple[float, float] | None:
    """Percentile interval of a mean, resampling the values; ``None`` under two values.

    Args:
        values: Independent numbers, any unit.
        seed: Of the resampling.
        confidence: Two-sided, in (0, 1).
        draws: Bootstrap resamples.
    Source: docs/statistics.md#bootstrap
    """
    if len(values) < 2:
        return None
    array = np.asarray(values, np.float64)
    chosen = np.random.default_rng(seed).integers(0, len(array), (draws, len(array)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(array[chosen].mean(axis=1), [tail, 1 - tail])
    return float(low), float(high)


def cluster_bootstrap_enumerated(clusters: Sequence[Sequence[float]]) -> ClusterSpread:
    """Spread of a pooled mean over every way of drawing as many whole clusters with replacement.

    Args:
        clusters: The numbers of each cluster; 1 to 7 clusters, none empty.

    Raises:
        ValueError: no cluster, more than 7, or an empty one.
    Source: docs/statistics.md#cluster-bootstrap
    """
    if not 1 <= len(clusters) <= MOST_ENUMERATED_CLUSTERS or not all(map(len, clusters)):
        raise ValueError(f"{len(clusters)} clusters; expected 1 to 7, none of them empty")
    sums, sizes = np.array([sum(c) for c in clusters]), np.array([len(c) for c in clusters])
    chosen = np.array(list(product(range(len(clusters)), repeat=len(clusters))))
    means = sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    return ClusterSpread(float(sums.sum() / sizes.sum()), float(means.std()), len(means))


def cluster_bootstrap_change(
    baseline: Sample,
    candidate: Sample,
    clusters: Sequence[Hashable],
    seed: int,
    confidence: float = 0.95,
    draws: int = DRAWS,
) -> tuple[float, float] | None:
    """Interval of the mean case difference, resampling clusters, then cases, then trials.

    For log metrics hand in ``sample.log(zero_offset)``.

    Args:
        baseline: Trials per case; for pass rates 0 and 1.
        candidate: The same cases in the same order.
        clusters: The cluster of each case, same order.
        seed: Of the resampling.
        confidence: Two-sided, in (0, 1).
        draws: Bootstrap resamples.

    Returns:
        In the unit of the values; ``None`` with under two clusters of matched cases.

    Raises:
        ValueError: as many clusters as cases are expected.
    Source: docs/statistics.md#cluster-bootstrap
    """
    matched = matched_cases(baseline, candidate)
    if len(clusters) != len(matched):
        raise ValueError(f"{len(clusters)} clusters for {len(matched)} cases")
    members: dict[Hashable, list[int]] = {}
    for case in map(int, np.flatnonzero(matched)):
        members.setdefault(clusters[case], []).append(case)
    if len(members) < 2:
        return None
    by_cluster = np.array([case for cases in members.values() for case in cases])
    sizes = np.array([len(cases) for cases in members.values()])
    starts = np.cumsum(sizes) - sizes
    generator = np.random.default_rng(seed)
    before, after = _TrialDraw(baseline), _TrialDraw(candidate)
    changes = np.empty(draws)
    for draw in range(draws):
        drawn = generator.integers(0, len(sizes), len(sizes))
        cluster = np.repeat(drawn, sizes[drawn])
        cases = by_cluster[starts[cluster] + generator.integers(0, sizes[cluster])]
        changes[draw] = (after.means(cases, generator) - before.means(cases, generator)).mean()
    tail = (1 - confidence) / 2
    low, high = np.quantile(changes, [tail, 1 - tail])
    return (float(low), float(high)) if low < high else None


class _TrialDraw:
    """Means over trials drawn with replacement from those a case has."""

    def __init__(self, sample: Sample) -> None:
        self._packed = np.sort(sample.values, axis=1)  # NaN goes last
        self._counts = sample.trial_counts
        self._place = np.arange(sample.values.shape[1])

    def means(self, cases: NDArray[np.intp], generator: np.random.Generator) -> Floats:
        """One mean per listed case; the same case listed twice is drawn twice."""
        counts = self._counts[cases, None]
        drawn = (generator.random((len(cases), len(self._place))) * counts).astype(np.intp)
        values = np.where(self._place < counts, self._packed[cases[:, None], drawn], 0.0)
        means: Floats = values.sum(axis=1) / counts[:, 0]
        return means


def _ratios(numerators: Floats, denominators: Floats) -> Floats:
    usable = denominators > 0
    return numerators[usable] / denominators[usable]
