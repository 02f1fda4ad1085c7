"""What a comparison returns: estimate, interval, z and p, and how much stood behind them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

from scipy.special import ndtr, stdtrit

from watchkeeper.stats.samples import Floats

FEWEST_DEGREES_OF_FREEDOM = 3.0


@dataclass(frozen=True, slots=True)
class TestResult:
    """What a comparison over at least one matched case says; phi is already in every number.

    ``estimate``, ``standard_error``, ``low`` and ``high`` are in the unit of the test: points of
    pass rate as a share (-0.05 is five points down), or natural log ratios (``exp(estimate)`` is
    the geometric mean ratio). They are always candidate minus baseline. ``low`` and ``high`` bound
    a two-sided 95 % interval and always differ.

    ``z`` and ``p_worse`` know which direction is bad: z > 0 is worse. ``unscaled_z`` is z at
    phi = 1; it, and never ``z``, is what ``summaries.overdispersion`` learns phi from.

    ``exact_p`` and ``exact_p_better`` are plain (not mid-p, phi not applied) exact p values where
    the distribution was counted, and ``None`` where it was approximated.

    ``informative_case_count`` is the number of cases with any difference between any two trials;
    at 0 the test has nothing to go by and says z = 0, p = 0.5.
    Source: docs/statistics.md#what-a-test-returns
    """

    __test__: ClassVar[bool] = False  # pytest would take the name for a test's

    estimate: float
    standard_error: float
    low: float
    high: float
    degrees_of_freedom: float
    z: float
    unscaled_z: float
    p_worse: float
    p_better: float
    exact_p: float | None
    exact_p_better: float | None
    case_count: int
    informative_case_count: int
    baseline_trial_count: int
    candidate_trial_count: int

    @classmethod
    def of(
        cls,
        *,
        change: Floats,
        variances: Floats,
        degrees_of_freedom: Floats,
        phi: float,
        unscaled_z: float,
        informative_case_count: int,
        baseline_trial_count: int,
        candidate_trial_count: int,
        exact_p: float | None = None,
        exact_p_better: float | None = None,
        limits: tuple[float, float] = (-inf, inf),
    ) -> TestResult:
        """A result from the difference of each case, its variance, and the z of the test.

        Args:
            change: Candidate minus baseline per case, at least one case.
            variances: Of each case's change from its own trials, above 0, phi not applied.
            degrees_of_freedom: Behind each case's variance, above 0.
            phi: Over-dispersion factor, at least 1.
            unscaled_z: z of the test at phi = 1, positive when worse.
            informative_case_count: Cases that are not constant.
            baseline_trial_count: Baseline trials that were compared.
            candidate_trial_count: Candidate trials that were compared.
            exact_p: Plain exact p of a worsening.
            exact_p_better: Plain exact p of an improvement.
            limits: Values that the estimate cannot leave; the interval is cut there.
        Source: docs/statistics.md#paired-change
        """
        total = float(variances.sum())
        freedom = max(
            total**2 / float((variances**2 / degrees_of_freedom).sum()), FEWEST_DEGREES_OF_FREEDOM
        )
        estimate = float(change.mean())
        standard_error = sqrt(phi * total) / len(change)
        reach = float(stdtrit(freedom, 0.975)) * standard_error
        z = unscaled_z / sqrt(phi)
        return cls(
            estimate=estimate,
            standard_error=standard_error,
            low=max(limits[0], estimate - reach),
            high=min(limits[1], estimate + reach),
            degrees_of_freedom=freedom,
            z=z,
            unscaled_z=unscaled_z,
            p_worse=float(ndtr(-z)),
            p_better=float(ndtr(z)),
            exact_p=exact_p,
            exact_p_better=exact_p_better,
            case_count=len(change),
            informative_case_count=informative_case_count,
            baseline_trial_count=baseline_trial_count,
            candidate_trial_count=candidate_trial_count,
        )

    def lower_bound(self, confidence: float = 0.95) -> float:
        """One-sided lower bound of the estimate, in its unit.

        Source: docs/statistics.md#no-worse
        """
        return self.estimate - self._reach(confidence)

    def upper_bound(self, confidence: float = 0.95) -> float:
        """One-sided upper bound of the estimate, in its unit.

        Source: docs/statistics.md#no-worse
        """
        return self.estimate + self._reach(confidence)

    def _reach(self, confidence: float) -> float:
        return float(stdtrit(self.degrees_of_freedom, confidence)) * self.standard_error
