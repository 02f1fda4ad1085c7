"""Numbers that describe one side or many nights; what has no denominator is ``None``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

REMEMBERED_NIGHTS = 28
FEWEST_Z_VALUES = 14
LARGEST_SQUARED_Z = 9.0
LARGEST_PHI = 6.0


@dataclass(frozen=True, slots=True)
class SliceMeans:
    """Three pass rates of the same slices, each in [0, 1] or ``None`` where undefined.

    ``pooled`` weighs every trial alike, ``equal_slice`` every non-empty slice alike, ``weighted``
    by the given weights. None of them is the rate in production by itself.
    """

    pooled: float | None
    equal_slice: float | None
    weighted: float | None


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Chance that at least one of ``k`` trials drawn from the ``n`` passed; ``None`` if n < k.

    Args:
        n: Resolved trials of one case.
        c: Those that passed.
        k: Trials drawn without replacement, at least 1.
    Source: docs/statistics.md#pass-at-k
    """
    return None if n < k else (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Chance that all of ``k`` trials drawn from the ``n`` passed; ``None`` if n < k.

    Args:
        n: Resolved trials of one case.
        c: Those that passed.
        k: Trials drawn without replacement, at least 1.
    Source: docs/statistics.md#pass-at-k
    """
    return None if n < k else comb(c, k) / comb(n, k)


def pass_hat_k_mean(passed: Sequence[int], resolved: Sequence[int], k: int) -> float | None:
    """Mean of ``pass_hat_k`` over the cases with at least ``k`` trials; ``None`` without one.

    Args:
        passed: Passed trials per case.
        resolved: Resolved trials per case, same order.
        k: At least 1.
    Source: docs/statistics.md#pass-at-k
    """
    by_case = [pass_hat_k(n, c, k) for c, n in zip(passed, resolved, strict=True)]
    defined = [chance for chance in by_case if chance is not None]
    return sum(defined) / len(defined) if defined else None


def slice_means(
    slices: Sequence[tuple[int, int]], weights: Sequence[float] | None = None
) -> SliceMeans:
    """Pooled, equal-slice and weighted pass rate of several slices.

    Args:
        slices: Passed and resolved trials of each slice.
        weights: Share of each slice in what is being described, summing to 1. An empty slice
            leaves the weighted mean undefined unless its weight is 0; weights are never rescaled.

    Raises:
        ValueError: weights that do not sum to 1, or not one per slice.
    Source: docs/statistics.md#slices
    """
    trials = sum(n for _, n in slices)
    rates = [passed / n if n else None for passed, n in slices]
    known = [rate for rate in rates if rate is not None]
    weighted: float | None = None
    if weights is not None:
        if abs(sum(weights) - 1) > 1e-9:
            raise ValueError(f"weights sum to {sum(weights)}; expected 1")
        parts = [
            None if rate is None else weight * rate
            for weight, rate in zip(weights, rates, strict=True)
            if weight != 0
        ]
        defined = [part for part in parts if part is not None]
        weighted = sum(defined) if len(defined) == len(parts) else None
    return SliceMeans(
        pooled=sum(passed for passed, _ in slices) / trials if trials else None,
        equal_slice=sum(known) / len(known) if known else None,
        weighted=weighted,
    )


def cost_per_completed(total_cost_usd: float, completed_count: int) -> float | None:
    """Dollars spent per trial that passed; ``None`` (undefined) if none did.

    Args:
        total_cost_usd: Of every trial, failed and unresolved ones included.
        completed_count: Trials that passed.
    Source: docs/statistics.md#cost-per-completed
    """
    return None if completed_count == 0 else total_cost_usd / completed_count


def overdispersion(z_values_by_night: Sequence[Sequence[float]]) -> float:
    """Phi, the factor by which nights vary more than their trials explain; within [1, 6].

    Args:
        z_values_by_night: For one metric and level, oldest night first: ``unscaled_z`` of every
            hypothesis of every accepted night. Only the last 28 nights count; NaN is left out.

    Returns:
        1.0 until 14 values exist.
    Source: docs/statistics.md#phi
    """
    recent = [z for night in z_values_by_night[-REMEMBERED_NIGHTS:] for z in night]
    z = np.asarray(recent, dtype=np.float64)
    z = z[~np.isnan(z)]
    if len(z) < FEWEST_Z_VALUES:
        return 1.0
    return float(np.clip(np.minimum(z**2, LARGEST_SQUARED_Z).mean(), 1.0, LARGEST_PHI))


def scaled_phi(phi: float, fresh_n: int, night_n: int) -> float:
    """Phi for a sample of another size than a night's: what a night adds grows with the sample.

    Args:
        phi: Of a night, at least 1.
        fresh_n: Trials of the sample, counted over the same group.
        night_n: Trials of a night over that group, at least 1.

    Raises:
        ValueError: phi below 1, a negative fresh_n, or no trial in a night.
    Source: docs/statistics.md#phi
    """
    if phi < 1 or fresh_n < 0 or night_n < 1:
        raise ValueError(f"phi {phi} with {fresh_n} fresh trials for {night_n} of a night")
    return 1 + (phi - 1) * fresh_n / night_n
