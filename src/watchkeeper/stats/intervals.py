"""Intervals of a single rate: what a count of passes or failures says about the true rate."""

from __future__ import annotations

from math import sqrt

from scipy.special import betaincinv, ndtri


def wilson_interval(
    successes: int, n: int, confidence: float = 0.95, effective_n: float | None = None
) -> tuple[float, float] | None:
    """Two-sided Wilson score interval of a rate; ``None`` for n = 0.

    Args:
        successes: Within 0 and ``n``.
        n: Resolved trials, passed plus failed.
        confidence: In (0, 1).
        effective_n: How many independent trials the n are worth, above 0; ``n`` if not given.
            Gates hand in ``effective_count(n, phi)``.

    Returns:
        Low and high rate within [0, 1], never equal.

    Raises:
        ValueError: impossible counts, a confidence outside (0, 1) or an effective_n of 0 or less.
    Source: docs/statistics.md#wilson
    """
    _check(successes, n, confidence)
    if n == 0:
        return None
    size = float(n if effective_n is None else effective_n)
    if not size > 0:
        raise ValueError(f"effective_n is {effective_n}; expected more than 0")
    rate = successes / n
    z = float(ndtri(0.5 + confidence / 2))
    shrink = 1 + z**2 / size
    centre = (rate + z**2 / (2 * size)) / shrink
    reach = z / shrink * sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2))
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    high = 1.0 if successes == n else min(1.0, centre + reach)
    return low, high


def effective_count(n: int, phi: float) -> float:
    """How many independent trials ``n`` over-dispersed ones are worth: n / max(phi, 1).

    Source: docs/statistics.md#wilson
    """
    return n / max(phi, 1.0)


def zero_failure_upper(n: int, confidence: float = 0.95) -> float | None:
    """One-sided upper bound of the failure rate after ``n`` trials without one; ``None`` for 0.

    Args:
        n: Resolved trials, all passed.
        confidence: In (0, 1).

    Raises:
        ValueError: a negative n or a confidence outside (0, 1).
    Source: docs/statistics.md#zero-failures
    """
    _check(0, n, confidence)
    return None if n == 0 else 1 - (1 - confidence) ** (1 / n)


def clopper_pearson_upper(failures: int, n: int, confidence: float = 0.95) -> float | None:
    """One-sided exact upper bound of the failure rate; ``None`` for n = 0.

    Args:
        failures: Within 0 and ``n``.
        n: Resolved trials.
        confidence: In (0, 1).

    Raises:
        ValueError: impossible counts or a confidence outside (0, 1).
    Source: docs/statistics.md#clopper-pearson
    """
    _check(failures, n, confidence)
    if n == 0:
        return None
    return 1.0 if failures == n else float(betaincinv(failures + 1, n - failures, confidence))


def _check(count: int, n: int, confidence: float) -> None:
    if not 0 <= count <= n:
        raise ValueError(f"{count} of {n} is not possible")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a number between 0 and 1")
