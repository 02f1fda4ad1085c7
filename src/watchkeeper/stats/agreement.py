"""Whether graders agree: a judge with people, a judge with itself, a forecast with the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Label = str | int | bool


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """How often rater A said one label and rater B another.

    ``counts[i][j]`` items were ``labels[i]`` to A and ``labels[j]`` to B.
    """

    labels: tuple[Label, ...]
    counts: tuple[tuple[int, ...], ...]


def confusion_matrix(a: Sequence[Label], b: Sequence[Label]) -> ConfusionMatrix:
    """Counts of every pair of labels, in the labels' order of sorting as text.

    Args:
        a: Labels by one rater.
        b: Labels by the other rater, same items in the same order.

    Raises:
        ValueError: the raters did not label the same number of items.
    Source: docs/statistics.md#kappa
    """
    pairs = list(zip(a, b, strict=True))
    labels = tuple(sorted({label for pair in pairs for label in pair}, key=str))
    counts = tuple(tuple(pairs.count((one, other)) for other in labels) for one in labels)
    return ConfusionMatrix(labels, counts)


def observed_agreement(a: Sequence[Label], b: Sequence[Label]) -> float | None:
    """Share of items on which both raters agree, in [0, 1]; ``None`` without an item.

    Args:
        a: Labels by one rater.
        b: Labels by the other rater, same items in the same order.

    Raises:
        ValueError: the raters did not label the same number of items.
    Source: docs/statistics.md#kappa
    """
    same = [one == other for one, other in zip(a, b, strict=True)]
    return sum(same) / len(same) if same else None


def cohen_kappa(a: Sequence[Label], b: Sequence[Label]) -> float | None:
    """Agreement beyond chance, in [-1, 1]; ``None`` where undefined (degenerate).

    It is undefined without an item, and where both raters gave one and the same label throughout.

    Args:
        a: Labels by one rater.
        b: Labels by the other rater, same items in the same order.

    Raises:
        ValueError: the raters did not label the same number of items.
    Source: docs/statistics.md#kappa
    """
    return cohen_kappa_table(confusion_matrix(a, b).counts)


def cohen_kappa_table(table: Sequence[Sequence[int]]) -> float | None:
    """Cohen's kappa from a square table of counts; ``None`` where undefined.

    Args:
        table: ``table[i][j]`` items got label i from one rater and label j from the other.
    Source: docs/statistics.md#kappa
    """
    counts: NDArray[np.int64] = np.array(table, dtype=np.int64)
    items = int(counts.sum())
    by_chance = int((counts.sum(axis=1) * counts.sum(axis=0)).sum()) if items else 0
    if by_chance == items**2:
        return None
    return (items * int(counts.trace()) - by_chance) / (items**2 - by_chance)


def brier_binary(probabilities: Sequence[float], outcomes: Sequence[int]) -> float | None:
    """Mean squared error of forecasts of 0 or 1, in [0, 1]; ``None`` without a forecast.

    Args:
        probabilities: Forecast chance of a 1, each in [0, 1].
        outcomes: What came: 0 or 1, same order.

    Raises:
        ValueError: not as many outcomes as forecasts.
    Source: docs/statistics.md#brier
    """
    squares = [(p - y) ** 2 for p, y in zip(probabilities, outcomes, strict=True)]
    return sum(squares) / len(squares) if squares else None


def majority_of_3_error(per_vote_error: float) -> float:
    """Error rate of the majority of three votes that err independently, each at this rate.

    Optimistic: the votes of one judge are correlated.

    Args:
        per_vote_error: In [0, 1].
    Source: docs/statistics.md#majority-of-three
    """
    return per_vote_error**2 * (3 - 2 * per_vote_error)


def flip_variance(flip_rate: float) -> float:
    """Variance that a judge with this flip rate adds to each trial's verdict, in [0, 0.25].

    Args:
        flip_rate: Share of verdicts that differ when the same outputs are judged again.
    Source: docs/statistics.md#majority-of-three
    """
    return flip_rate * (1 - flip_rate)
