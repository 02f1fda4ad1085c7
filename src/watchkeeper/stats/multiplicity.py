"""Which of several p values still count once it is remembered that there were several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watchkeeper.stats.samples import Bools, Floats


class Adjusted(NamedTuple):
    """In the order of the p values: which are rejected, and the p adjusted for their number."""

    reject: Bools
    adjusted: Floats


def holm(p_values: Sequence[float] | Floats, alpha: float) -> Adjusted:
    """Rejections that keep the chance of a single false one at ``alpha`` (step-down).

    Args:
        p_values: Of every hypothesis, those that were dropped on the way included (as 1.0).
        alpha: Family-wise error rate, in [0, 1].

    Raises:
        ValueError: a p outside [0, 1].
    Source: docs/statistics.md#holm
    """
    p, order, count = _sorted(p_values)
    stepped = np.maximum.accumulate(p[order] * (count - np.arange(count)))
    return _in_given_order(stepped, order, alpha)


def benjamini_hochberg(p_values: Sequence[float] | Floats, q: float) -> Adjusted:
    """Rejections of which a share of at most ``q`` is false on average (step-up).

    For lists that people read; never a paging rule.

    Args:
        p_values: Of every hypothesis.
        q: False discovery rate, in [0, 1].

    Raises:
        ValueError: a p outside [0, 1].
    Source: docs/statistics.md#benjamini-hochberg
    """
    p, order, count = _sorted(p_values)
    scaled = p[order] * count / np.arange(1, count + 1)
    stepped = np.minimum.accumulate(scaled[::-1])[::-1]
    return _in_given_order(stepped, order, q)


def _sorted(
    p_values: Sequence[float] | Floats,
) -> tuple[Floats, NDArray[np.intp], int]:
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("a p value is outside [0, 1]")
    return p, np.argsort(p, kind="stable"), len(p)


def _in_given_order(stepped: Floats, order: NDArray[np.intp], level: float) -> Adjusted:
    adjusted = np.empty(len(stepped))
    adjusted[order] = np.minimum(stepped, 1.0)
    return Adjusted(adjusted <= level, adjusted)
