"""Did this side get worse than that one? Tests that compare a candidate with a baseline by case.

``stratified_exact`` for passed and failed, ``stratified_rank_sum`` for rounds, cost, tokens and
latency. The tests of a single case and of the invoice live in ``exact``, ``paired`` and
``bootstrap`` and can be imported from here too.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.special import ndtri

from watchkeeper.stats.bootstrap import RatioOfTotals, ratio_of_totals
from watchkeeper.stats.exact import hypergeometric_sum, rank_permutation_greater
from watchkeeper.stats.paired import McNemar, mcnemar_exact
from watchkeeper.stats.results import TestResult
from watchkeeper.stats.samples import Floats, Sample, matched_cases

__all__ = [
    "McNemar",
    "RatioOfTotals",
    "Sample",
    "TestResult",
    "mcnemar_exact",
    "rank_permutation_greater",
    "ratio_of_totals",
    "stratified_exact",
    "stratified_rank_sum",
]

NORMAL_FROM_VARIANCE = 6.0
"""Variance of the number of passes from which the normal approximation replaces counting."""
PRIOR_DEGREES_OF_FREEDOM = 6.0
"""Weight of the suite's mean within-case variance in the variance of one case."""
SMALLEST_LOG_VARIANCE = 0.02
"""Floor of the within-case variance of log values: a standard deviation of about 14 %."""
ZERO_OFFSET_SHARE = 0.01


def stratified_exact(baseline: Sample, candidate: Sample, phi: float = 1.0) -> TestResult | None:
    """Change in pass rate, each case compared with itself; ``None`` without a matched case.

    The p value is the mid-p of the exact conditional test while the variance of the candidate's
    number of passes is under 6, and a normal approximation from there. A fall is worse.

    Args:
        baseline: 1 for a passed trial, 0 for a failed one, NaN for one without verdict.
        candidate: The same cases in the same order.
        phi: Over-dispersion factor, at least 1.

    Returns:
        Estimate in points of pass rate as a share within [-1, 1], equal weight per case.

    Raises:
        ValueError: a value other than 0 and 1, phi below 1, or sides of different length.
    Source: docs/statistics.md#stratified-exact
    """
    _check_phi(phi)
    matched = matched_cases(baseline, candidate)
    if not matched.any():
        return None
    baseline, candidate = baseline.select(matched), candidate.select(matched)
    for side in (baseline, candidate):
        if not np.isin(side.values[~np.isnan(side.values)], (0.0, 1.0)).all():
            raise ValueError("pass rates are tested on 0 (failed), 1 (passed) and NaN only")
    n_b, n_c = baseline.trial_counts, candidate.trial_counts
    passed_b, passed_c = baseline.case_sums, candidate.case_sums
    trials, passed = n_b + n_c, passed_b + passed_c

    variances = n_c * n_b * passed * (trials - passed) / (trials**2 * (trials - 1))
    informative = variances > 0
    exact_p = exact_p_better = None
    if variances.sum() < NORMAL_FROM_VARIANCE:
        fewer, same, more = hypergeometric_sum(
            n_c[informative],
            passed[informative],
            trials[informative],
            int(passed_c[informative].sum()),
        )
        exact_p, exact_p_better = min(1.0, fewer + same), min(1.0, more + same)
        unscaled_z = _z_of_tails(fewer + same / 2, more + same / 2)
    else:
        shortfall = (n_c * passed / trials - passed_c).sum()
        unscaled_z = float(shortfall) / sqrt(float(variances.sum()))

    rate = (passed + 0.5) / (trials + 1)
    return TestResult.of(
        change=passed_c / n_c - passed_b / n_b,
        variances=rate * (1 - rate) * (1 / n_c + 1 / n_b),
        degrees_of_freedom=trials - 1,
        phi=phi,
        unscaled_z=unscaled_z,
        exact_p=exact_p,
        exact_p_better=exact_p_better,
        limits=(-1.0, 1.0),
        informative_case_count=int(informative.sum()),
        baseline_trial_count=int(n_b.sum()),
        candidate_trial_count=int(n_c.sum()),
    )


def stratified_rank_sum(
    baseline: Sample,
    candidate: Sample,
    phi: float = 1.0,
    pooled_log_variance: float | None = None,
    zero_offset: float | Floats | None = None,
    higher_is_worse: bool = True,
) -> TestResult | None:
    """Change of a positive quantity, each case ranked within itself (van Elteren's test).

    The p value comes from ranks of the raw values; the estimate and its interval from logarithms.

    Args:
        baseline: Rounds, dollars, tokens or milliseconds, 0 or more, per trial.
        candidate: The same cases in the same order, in the same unit.
        phi: Over-dispersion factor, at least 1.
        pooled_log_variance: Mean within-case variance of log values over the whole suite, which
            each case is shrunk towards. Computed from these two sides when not given.
        zero_offset: Added to every value before its logarithm is taken, in the unit of the
            values: one number, or one per case. When not given: nothing if no value is 0, else
            ``default_zero_offset(baseline, candidate)`` of the matched cases.
        higher_is_worse: Whether z > 0 means that the candidate's values are higher.

    Returns:
        Estimate as a natural log ratio, equal weight per case: ``exp(estimate)`` is the geometric
        mean ratio. ``None`` without a matched case.

    Raises:
        ValueError: a negative value, a zero with an offset of 0, phi below 1, or sides of
            different length.
    Source: docs/statistics.md#rank-sum
    """
    _check_phi(phi)
    matched = matched_cases(baseline, candidate)
    if not matched.any():
        return None
    baseline, candidate = baseline.select(matched), candidate.select(matched)
    for side in (baseline, candidate):
        if (side.values < 0).any():
            raise ValueError("a negative value has no log ratio; expected 0 or more")
    n_b, n_c = baseline.trial_counts, candidate.trial_counts
    trials = n_b + n_c

    scores, tie_terms = _rank_scores(baseline, candidate)
    variances = n_c * n_b / 3 * (trials + 1 - tie_terms / (trials * (trials - 1)))
    informative = variances > 1e-9
    weights = np.where(informative, 1 / (trials + 1), 0.0)
    direction = 1.0 if higher_is_worse else -1.0
    unscaled_z = 0.0
    if informative.any():
        total = float((weights * scores).sum())
        unscaled_z = direction * total / sqrt(float((weights**2 * variances).sum()))

    if zero_offset is None:
        has_zero = (baseline.values == 0).any() or (candidate.values == 0).any()
        offset: float | Floats = default_zero_offset(baseline, candidate) if has_zero else 0.0
    else:
        offset = np.broadcast_to(zero_offset, matched.shape)[matched]
    log_b, log_c = baseline.log(offset), candidate.log(offset)
    change = log_c.case_means - log_b.case_means
    per_trial, freedom = _within_case_variance(
        change, log_b.squared_deviations + log_c.squared_deviations, n_b, n_c, pooled_log_variance
    )
    return TestResult.of(
        change=change,
        variances=per_trial * (1 / n_c + 1 / n_b),
        degrees_of_freedom=freedom,
        phi=phi,
        unscaled_z=unscaled_z,
        informative_case_count=int(informative.sum()),
        baseline_trial_count=int(n_b.sum()),
        candidate_trial_count=int(n_c.sum()),
    )


def default_zero_offset(baseline: Sample, candidate: Sample) -> float:
    """What is added to values of which some are 0 before their logarithm: 1 % of the median.

    Args:
        baseline: Trials of the category's baseline, 0 or more.
        candidate: Asked only where no baseline trial is above 0.

    Returns:
        1 % of the median baseline trial; where that is 0, of the median baseline trial above 0,
        then of the median candidate trial above 0; 1.0 where every trial is 0.
    Source: docs/statistics.md#zeros
    """
    before = baseline.values[~np.isnan(baseline.values)]
    after = candidate.values[~np.isnan(candidate.values)]
    for trials in (before, before[before > 0], after[after > 0]):
        if trials.size and np.median(trials) > 0:
            return ZERO_OFFSET_SHARE * float(np.median(trials))
    return 1.0


def _within_case_variance(
    change: Floats, deviations: Floats, n_b: Floats, n_c: Floats, pooled: float | None
) -> tuple[Floats, Floats]:
    """Variance of one log value within its case, and the degrees of freedom behind it, per case.

    Source: docs/statistics.md#log-variance
    """
    prior = PRIOR_DEGREES_OF_FREEDOM
    own = n_b + n_c - 2
    freedom = own + prior
    if pooled is None:
        known = float(own.sum())
        if known < len(change) - 1:  # hardly a trial was repeated: use the spread between cases
            known = len(change) - 1.0
            pooled = float(change.var(ddof=1) / (1 / n_c + 1 / n_b).mean())
            deviations = own * pooled
        else:
            pooled = float(deviations.sum()) / max(known, 1.0)
        # pooled from these cases alone, so together they are worth no more than what they hold
        freedom = freedom * max(known, 1.0) / freedom.sum()
    shrunk = (deviations + prior * pooled) / (own + prior)
    return np.maximum(shrunk, SMALLEST_LOG_VARIANCE), freedom


def _rank_scores(baseline: Sample, candidate: Sample) -> tuple[Floats, Floats]:
    """Per case: pairs where the candidate is higher minus pairs where it is lower; sum(t^3 - t).

    Computed from mid-ranks: if R is the candidate's rank sum, the first is 2R - n_c (n + 1).
    """
    both = np.concatenate([baseline.values, candidate.values], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    ordered = np.take_along_axis(both, order, axis=1)
    starts = np.ones(both.shape, dtype=np.bool_)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]  # NaN differs from NaN: never a tie
    group = np.cumsum(starts.ravel()) - 1
    group_size = np.bincount(group)
    first_place = np.flatnonzero(starts) % both.shape[1]
    mid_rank = (first_place + (group_size + 1) / 2)[group].reshape(both.shape)
    tie_terms = (group_size[group] ** 2 - 1.0).reshape(both.shape).sum(axis=1)
    ranks = np.empty(both.shape)
    np.put_along_axis(ranks, order, mid_rank, axis=1)

    candidate_ranks = ranks[:, baseline.values.shape[1] :]
    rank_sums = np.where(np.isnan(candidate.values), 0.0, candidate_ranks).sum(axis=1)
    trials = baseline.trial_counts + candidate.trial_counts
    return 2 * rank_sums - candidate.trial_counts * (trials + 1), tie_terms


def _z_of_tails(lower: float, upper: float) -> float:
    """The z, positive when the lower tail is the small one; from the small tail, for accuracy."""
    smallest = float(np.finfo(np.float64).tiny)
    if lower <= upper:
        return -float(ndtri(max(lower, smallest))) + 0.0
    return float(ndtri(max(upper, smallest)))


def _check_phi(phi: float) -> None:
    if not phi >= 1:
        raise ValueError(f"phi is {phi}; expected 1 or more")
