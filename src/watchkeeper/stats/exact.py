"""Exact distributions, counted instead of approximated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from watchkeeper.stats.samples import Floats

LARGEST_RANK_SAMPLE = 1000
"""Trials on both sides together beyond which the number of splits leaves a float's range."""


class Tails(NamedTuple):
    """Probabilities of a whole number being below, at and above what was observed; sum 1."""

    below: float
    at: float
    above: float


def hypergeometric_sum(drawn: Floats, passed: Floats, trials: Floats, observed: int) -> Tails:
    """Where ``observed`` lies in the distribution of a sum of independent hypergeometric counts.

    Case i holds ``trials[i]`` trials of which ``passed[i]`` passed; ``drawn[i]`` of them, taken at
    random, are the candidate's. The sum is the number of passes among all that were drawn.

    Args:
        drawn: Candidate trials per case, whole numbers from 0 to ``trials``.
        passed: Passes on both sides together per case, whole numbers from 0 to ``trials``.
        trials: Trials on both sides together per case.
        observed: The sum that was seen.
    Source: docs/statistics.md#stratified-exact
    """
    distribution = np.ones(1)
    fewest_possible = 0
    for draw, success, total in zip(drawn, passed, trials, strict=True):
        fewest = max(0.0, draw - (total - success))
        passes = np.arange(fewest, min(success, draw) + 1)
        log_probability = (
            _log_choose(success, passes)
            + _log_choose(total - success, draw - passes)
            - _log_choose(total, draw)
        )
        distribution = np.convolve(distribution, np.exp(log_probability))
        fewest_possible += int(fewest)
    distribution /= distribution.sum()
    place = min(max(observed - fewest_possible, -1), len(distribution))
    at = float(distribution[place]) if 0 <= place < len(distribution) else 0.0
    below = float(distribution[: max(place, 0)].sum())
    above = float(distribution[place + 1 :].sum())
    return Tails(min(below, 1.0), min(at, 1.0), min(above, 1.0))


def rank_permutation_greater(fresh: Sequence[float], baseline: Sequence[float]) -> float:
    """Chance of fresh trials ranking at least this high, had they been drawn from all trials.

    Every way of choosing as many trials as ``fresh`` has is counted; ties share their mid-rank.
    With an empty side there is one way only, and 1.0 comes back.

    Args:
        fresh: Values of one case's fresh trials, any unit; NaN is left out.
        baseline: Values of the same case's baseline trials; NaN is left out.

    Returns:
        One-sided p in (0, 1]; small when fresh values are greater. 5 against 14 reaches 1/11628.

    Raises:
        ValueError: more than 1,000 trials together.
    Source: docs/statistics.md#rank-permutation
    """
    chosen = _numbers(fresh)
    everything = np.concatenate([chosen, _numbers(baseline)])
    if len(everything) > LARGEST_RANK_SAMPLE:
        raise ValueError(f"{len(everything)} trials are too many to count; use stratified_rank_sum")
    ordered = np.sort(everything)
    doubled_ranks = (
        np.searchsorted(ordered, everything, "left")
        + np.searchsorted(ordered, everything, "right")
        + 1
    )
    size = len(chosen)
    observed = int(doubled_ranks[:size].sum())
    largest = int(np.sort(doubled_ranks)[len(everything) - size :].sum())
    # ways[j, s]: number of ways to choose j trials whose doubled ranks sum to s
    ways = np.zeros((size + 1, largest + 1))
    ways[0, 0] = 1.0
    for rank in doubled_ranks[doubled_ranks <= largest]:
        ways[1:, rank:] += ways[:-1, : largest + 1 - rank].copy()
    return min(1.0, float(ways[size, observed:].sum() / ways[size].sum()))


def _numbers(values: Sequence[float]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array[~np.isnan(array)]


def _log_choose(total: float, chosen: float | Floats) -> Floats:
    logarithm: Floats = gammaln(total + 1) - gammaln(chosen + 1.0) - gammaln(total - chosen + 1.0)
    return logarithm
