"""What a comparison could have seen, and how many trials it takes to see more."""

from __future__ import annotations

from math import asin, ceil, exp, sqrt
from typing import Literal

from scipy.special import ndtri


def mde80(standard_error: float, alpha: float) -> float:
    """Smallest change seen with 80 % power: (z of 1 - alpha, plus 0.84) standard errors.

    Args:
        standard_error: Of the estimate, phi included, 0 or more.
        alpha: One-sided level of the test, in (0, 1).

    Returns:
        In the unit of the standard error; for log metrics see ``mde80_of_ratio``.
    Source: docs/statistics.md#mde
    """
    return float(ndtri(1 - alpha) + ndtri(0.8)) * standard_error


def mde80_of_ratio(log_standard_error: float, alpha: float) -> float:
    """Smallest relative rise seen with 80 % power, as a share: 0.1 is +10 %.

    Args:
        log_standard_error: Of a natural log ratio, phi included, 0 or more.
        alpha: One-sided level of the test, in (0, 1).
    Source: docs/statistics.md#mde
    """
    return exp(mde80(log_standard_error, alpha)) - 1


def zero_failure_mde80(n: int, power: float = 0.8) -> float | None:
    """Failure rate at which ``n`` trials show a failure with this power; ``None`` for n = 0.

    Args:
        n: Trials of a gate that allows no failure.
        power: In (0, 1).
    Source: docs/statistics.md#zero-failures
    """
    return None if n == 0 else 1 - (1 - power) ** (1 / n)


def n_per_arm_two_proportions(
    p1: float,
    p2: float,
    alpha: float = 0.05,
    power: float = 0.8,
    sided: Literal[1, 2] = 2,
    method: Literal["pooled", "unpooled", "arcsine"] = "pooled",
) -> float:
    """Trials per side to tell two unpaired rates apart, one trial a case; round it up.

    Args:
        p1: One rate, in [0, 1].
        p2: The other rate, in [0, 1].
        alpha: Level of the test, in (0, 1).
        power: In (0, 1).
        sided: 1 or 2.
        method: Whose variance holds under the null: ``pooled`` (Fleiss), ``unpooled``, or
            ``arcsine`` (Cohen's h).

    Raises:
        ValueError: equal rates, or a rate outside [0, 1].
    Source: docs/statistics.md#sample-size
    """
    if p1 == p2 or not (0 <= p1 <= 1 and 0 <= p2 <= 1):
        raise ValueError(f"rates are {p1} and {p2}; expected two different ones within 0 and 1")
    z_alpha, z_power = float(ndtri(1 - alpha / sided)), float(ndtri(power))
    if method == "arcsine":
        return 2 * ((z_alpha + z_power) / (2 * asin(sqrt(p1)) - 2 * asin(sqrt(p2)))) ** 2
    apart = p1 * (1 - p1) + p2 * (1 - p2)
    mean = (p1 + p2) / 2
    null = 2 * mean * (1 - mean) if method == "pooled" else apart
    return ((z_alpha * sqrt(null) + z_power * sqrt(apart)) / (p1 - p2)) ** 2


def cases_needed(case_count: int, mde: float, wanted: float) -> int:
    """Cases with which the smallest visible change would be ``wanted``, all else equal.

    Args:
        case_count: Cases that gave ``mde``, at least 1.
        mde: What they can see, in any unit, for log metrics on the log scale.
        wanted: What should be seen, above 0, in the same unit.

    Returns:
        At least ``case_count``.
    Source: docs/statistics.md#sample-size
    """
    return max(case_count, ceil(case_count * (mde / wanted) ** 2 - 1e-9))
