"""Two sides of trials, matched case by case, and one number for any group of cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.verdict import Measured, Metric
from watchkeeper.stats.power import mde80
from watchkeeper.stats.results import TestResult
from watchkeeper.stats.samples import Sample, matched_cases
from watchkeeper.stats.tests import stratified_exact, stratified_rank_sum

METRICS: tuple[Metric, ...] = ("pass_rate", "rounds", "cost_usd")


@dataclass(frozen=True, slots=True)
class Compared:
    """A test's full result beside the numbers that are stored of it."""

    result: TestResult
    measured: Measured

    def is_no_worse(self, metric: Metric, margin: float) -> bool:
        """Whether the one-sided 95 % bound of the loss is inside the margin.

        Source: docs/statistics.md#no-worse
        """
        if metric == "pass_rate":
            return self.result.lower_bound() > -margin
        return self.result.upper_bound() < math.log1p(margin)


class Comparison:
    """A candidate held against a baseline, over the cases that both can be compared on.

    Rounds and cost pair where the execution hashes are equal; pass rates where the grading hashes
    are equal too. ``unresolved_as`` counts the candidate's unresolved trials as passed (1) or
    failed (0), for the sensitivity of a verdict to what is not known.
    """

    def __init__(
        self, baseline: FactTable, candidate: FactTable, unresolved_as: float | None = None
    ) -> None:
        self.candidate = candidate
        self.case_ids = candidate.case_ids
        self._index = {case_id: row for row, case_id in enumerate(self.case_ids)}
        self.baseline_facts = [
            _comparable(baseline.of(case_id), candidate.of(case_id), same_grading=False)
            for case_id in self.case_ids
        ]
        graded = [
            _comparable(baseline.of(case_id), candidate.of(case_id), same_grading=True)
            for case_id in self.case_ids
        ]
        own = [candidate.of(case_id) for case_id in self.case_ids]
        self._samples: dict[Metric, tuple[Sample, Sample]] = {
            "pass_rate": (_sample(graded, _passed), _sample(own, _passed_or(unresolved_as))),
            "rounds": (_sample(self.baseline_facts, _rounds), _sample(own, _rounds)),
            "cost_usd": (_sample(self.baseline_facts, _cost), _sample(own, _cost)),
        }
        self._log_variance = {
            metric: _pooled_log_variance(self._samples[metric][0])
            for metric in ("rounds", "cost_usd")
        }

    def samples(self, metric: Metric, cases: Sequence[str]) -> tuple[Sample, Sample]:
        """Baseline and candidate trials of some cases."""
        rows = [self._index[case_id] for case_id in cases if case_id in self._index]
        before, after = self._samples[metric]
        return before.select(rows), after.select(rows)

    def matched(self, metric: Metric, cases: Sequence[str]) -> tuple[str, ...]:
        """The cases with a trial on both sides."""
        known = [case_id for case_id in cases if case_id in self._index]
        if not known:
            return ()
        before, after = self.samples(metric, known)
        mask = matched_cases(before, after)
        return tuple(case_id for case_id, is_matched in zip(known, mask, strict=True) if is_matched)

    def compare(
        self, metric: Metric, cases: Sequence[str], phi: float, screen_level: float
    ) -> Compared | None:
        """The change of a metric over a group of cases, or ``None`` without a matched case.

        Args:
            metric: What is compared.
            cases: The group.
            phi: Over-dispersion factor, at least 1.
            screen_level: The level that the smallest detectable change is stated for.
        """
        matched = self.matched(metric, cases)
        if not matched:
            return None
        before, after = self.samples(metric, matched)
        if metric == "pass_rate":
            result = stratified_exact(before, after, phi)
        else:
            result = stratified_rank_sum(before, after, phi, self._log_variance.get(metric))
        if result is None:
            return None
        return Compared(result, _measured(metric, result, before, after, screen_level))


def _comparable(
    baseline: Sequence[TrialFact], candidate: Sequence[TrialFact], *, same_grading: bool
) -> list[TrialFact]:
    if not candidate:
        return []
    execution, grading = candidate[0].execution_hash, candidate[0].grading_hash
    return [
        fact
        for fact in baseline
        if fact.execution_hash == execution and (not same_grading or fact.grading_hash == grading)
    ]


def _sample(
    rows: Sequence[Sequence[TrialFact]], value: Callable[[TrialFact], float | None]
) -> Sample:
    return Sample.from_rows([[value(fact) for fact in facts] for facts in rows])


def _passed(fact: TrialFact) -> float | None:
    return float(fact.outcome == "passed") if fact.is_resolved else None


def _passed_or(unresolved: float | None) -> Callable[[TrialFact], float | None]:
    def value(fact: TrialFact) -> float | None:
        return float(fact.outcome == "passed") if fact.is_resolved else unresolved

    return value


def _rounds(fact: TrialFact) -> float | None:
    return float(fact.round_count) if fact.is_resolved else None


def _cost(fact: TrialFact) -> float | None:
    return fact.cost_usd


def _pooled_log_variance(baseline: Sample) -> float | None:
    """Mean within-case variance of log values over the whole baseline; unknown without repeats.

    Source: docs/statistics.md#log-variance
    """
    positive = Sample(np.where(baseline.values > 0, baseline.values, np.nan))
    logs = positive.log()
    freedom = float(np.maximum(logs.trial_counts - 1, 0).sum())
    if freedom < max(3, baseline.case_count - 1):
        return None
    return float(logs.squared_deviations.sum()) / freedom


def _measured(
    metric: Metric, result: TestResult, before: Sample, after: Sample, screen_level: float
) -> Measured:
    is_ratio = metric != "pass_rate"
    shown = math.exp if is_ratio else float
    smallest = mde80(result.standard_error, screen_level)
    totals_before, totals_after = _mean_of_cases(before), _mean_of_cases(after)
    return Measured(
        estimate=shown(result.estimate),
        low=shown(result.low),
        high=shown(result.high),
        z=result.unscaled_z,
        p_worse=result.p_worse,
        p_better=result.p_better,
        case_count=result.case_count,
        baseline_trial_count=result.baseline_trial_count,
        candidate_trial_count=result.candidate_trial_count,
        baseline_mean=totals_before,
        candidate_mean=totals_after,
        smallest_detectable=math.expm1(smallest) if is_ratio else smallest,
        total_ratio=(
            totals_after / totals_before
            if is_ratio and totals_before and totals_after is not None
            else None
        ),
    )


def _mean_of_cases(sample: Sample) -> float | None:
    """Mean over the cases of each case's mean: every case weighs the same."""
    means = sample.case_means
    known = means[~np.isnan(means)]
    return float(known.mean()) if known.size else None
