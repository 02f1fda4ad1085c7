"""One side of a comparison: the trials of each case, in an order both sides share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sample:
    """A table of trials per case; a trial that has no number is NaN and is never counted.

    ``values`` has shape [cases, trials]. Rows shorter than the longest are padded with NaN. The
    two sides of a comparison list the same cases in the same order; a case that one side has not
    run is a row of NaN there. The table is copied and cannot be written to afterwards.

    Raises:
        ValueError: the table is not two-dimensional or holds an infinite value.
    Source: docs/statistics.md#samples
    """

    values: Floats

    def __post_init__(self) -> None:
        table = np.array(self.values, dtype=np.float64)
        if table.ndim != 2:
            raise ValueError(f"values has {table.ndim} dimension(s); expected [cases, trials]")
        if np.isinf(table).any():
            raise ValueError("values holds an infinite number; an unmeasured trial is NaN")
        table.setflags(write=False)
        object.__setattr__(self, "values", table)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[float | None]]) -> Sample:
        """A sample from one list of trials per case; ``None`` is a trial without a number."""
        table = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
        for row, trials in zip(table, rows, strict=True):
            row[: len(trials)] = [np.nan if value is None else value for value in trials]
        return cls(table)

    @classmethod
    def from_counts(cls, passed: Sequence[int], resolved: Sequence[int]) -> Sample:
        """A sample of ones (passed) and zeros (failed) from counts per case.

        Args:
            passed: Passed trials per case.
            resolved: Passed plus failed trials per case, at least ``passed``.

        Raises:
            ValueError: the lists differ in length, or passed is not within 0 and resolved.
        """
        counts = list(zip(passed, resolved, strict=True))
        for passed_count, resolved_count in counts:
            if not 0 <= passed_count <= resolved_count:
                raise ValueError(f"{passed_count} passed of {resolved_count} is not possible")
        return cls.from_rows([[1.0] * s + [0.0] * (n - s) for s, n in counts])

    @property
    def case_count(self) -> int:
        """Rows of the table, those without any trial included."""
        return int(self.values.shape[0])

    @property
    def trial_counts(self) -> Floats:
        """Trials with a number, per case; whole numbers held as floats."""
        counts: Floats = (~np.isnan(self.values)).sum(axis=1).astype(np.float64)
        return counts

    @property
    def case_sums(self) -> Floats:
        """Sum over the trials with a number, per case; 0 for a case without one."""
        sums: Floats = np.where(np.isnan(self.values), 0.0, self.values).sum(axis=1)
        return sums

    @property
    def case_means(self) -> Floats:
        """Mean over the trials with a number, per case; NaN for a case without one."""
        counts = self.trial_counts
        return np.where(counts > 0, self.case_sums / np.maximum(counts, 1), np.nan)

    @property
    def squared_deviations(self) -> Floats:
        """Sum of squared deviations from the case's own mean, per case; 0 without a trial."""
        deviations = self.values - self.case_means[:, None]
        squares: Floats = np.where(np.isnan(deviations), 0.0, deviations**2).sum(axis=1)
        return squares

    def select(self, cases: Bools | NDArray[np.intp] | Sequence[int]) -> Sample:
        """The sample of some cases only: a mask over the rows, or their indices in any order."""
        chosen = np.asarray(cases)
        if chosen.size == 0:
            chosen = chosen.astype(np.intp)
        return Sample(self.values[chosen])

    def log(self, zero_offset: float | Floats = 0.0) -> Sample:
        """The sample of natural logarithms of ``values + zero_offset``.

        Args:
            zero_offset: What is added first, in the unit of the values: one number, or one per
                case. See docs/statistics.md#zeros.

        Raises:
            ValueError: something that has no logarithm: a value plus its offset is 0 or less.
        """
        shifted = self.values + np.broadcast_to(zero_offset, (self.case_count,))[:, None]
        if (shifted <= 0).any():
            raise ValueError("a value plus its zero offset is 0 or less and has no logarithm")
        return Sample(np.log(shifted))


def matched_cases(baseline: Sample, candidate: Sample) -> Bools:
    """Which cases have at least one trial with a number on both sides.

    Raises:
        ValueError: the two sides do not list the same number of cases.
    Source: docs/statistics.md#samples
    """
    if baseline.case_count != candidate.case_count:
        raise ValueError(
            f"baseline lists {baseline.case_count} cases and candidate {candidate.case_count}; "
            "both must list the same cases in the same order"
        )
    return (baseline.trial_counts > 0) & (candidate.trial_counts > 0)
