"""Printed 95 % intervals hold the truth about 95 times in 100, and a quiet night stays quiet.

Seeded worlds without night effects, small enough to run every time. An interval built for a
variance floor or a p~ away from 0 and 1 may cover more often, never much less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from watchkeeper.stats.bootstrap import cluster_bootstrap_change
from watchkeeper.stats.intervals import wilson_interval
from watchkeeper.stats.samples import Floats, Sample
from watchkeeper.stats.tests import ratio_of_totals, stratified_exact, stratified_rank_sum

WORLDS = 600


@dataclass(frozen=True)
class Shape:
    """Cases, baseline trials and candidate trials of a world."""

    cases: int
    baseline: int
    candidate: int


SHAPES = [
    pytest.param(Shape(40, 21, 3), id="40x3-against-7-nights"),
    pytest.param(Shape(10, 42, 3), id="category-of-10-against-14-nights"),
    pytest.param(Shape(40, 1, 1), id="one-run-against-one-run"),
    pytest.param(Shape(1, 14, 5), id="one-case"),
]


def verdicts(generator: np.random.Generator, rate: Floats, trials: int) -> Sample:
    """Trials that pass with each case's chance."""
    return Sample((generator.random((len(rate), trials)) < rate).astype(np.float64))


def log_normal(generator: np.random.Generator, mean: Floats, spread: Floats, trials: int) -> Sample:
    """Trials whose logarithm is normal around each case's mean with each case's spread."""
    return Sample(np.exp(mean + spread * generator.normal(size=(len(mean), trials))))


@pytest.mark.parametrize("change", [0.0, -0.05])
@pytest.mark.parametrize("shape", SHAPES)
def test_pass_rate_interval_covers(shape: Shape, change: float) -> None:
    """The interval of a change in pass rate holds the true mean change of these cases."""
    generator = np.random.default_rng(11)
    covered = 0
    for _ in range(WORLDS):
        rate = generator.uniform(0.7, 0.95, (shape.cases, 1))
        result = stratified_exact(
            verdicts(generator, rate, shape.baseline),
            verdicts(generator, rate + change, shape.candidate),
        )
        assert result is not None
        covered += result.low <= change <= result.high
    assert 0.90 <= covered / WORLDS <= 0.99


@pytest.mark.parametrize("change", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_log_ratio_interval_covers(shape: Shape, change: float) -> None:
    """The interval of a geometric mean ratio holds the true one, single trials included."""
    generator = np.random.default_rng(12)
    covered = 0
    for _ in range(WORLDS):
        mean = generator.uniform(0.5, 2.5, (shape.cases, 1))
        spread = generator.uniform(0.15, 0.45, (shape.cases, 1))
        result = stratified_rank_sum(
            log_normal(generator, mean, spread, shape.baseline),
            log_normal(generator, mean + change, spread, shape.candidate),
        )
        assert result is not None
        covered += result.low <= change <= result.high
    assert 0.90 <= covered / WORLDS <= 0.99


def test_log_ratio_interval_agrees_with_a_bootstrap_within_cases() -> None:
    """The formula's standard error is that of resampling the trials of each case."""
    generator = np.random.default_rng(13)
    mean, spread = generator.uniform(0.5, 2.5, (30, 1)), generator.uniform(0.2, 0.4, (30, 1))
    before = log_normal(generator, mean, spread, 21)
    after = log_normal(generator, mean, spread, 21)
    result = stratified_rank_sum(before, after)
    assert result is not None
    resampled = []
    for _ in range(2_000):
        sides = []
        for sample in (before, after):
            logs = np.log(sample.values)
            drawn = generator.integers(0, logs.shape[1], logs.shape)
            sides.append(np.take_along_axis(logs, drawn, axis=1).mean())
        resampled.append(sides[1] - sides[0])
    assert result.standard_error == pytest.approx(np.std(resampled), rel=0.1)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_nothing_changed_is_rarely_called_worse(shape: Shape) -> None:
    """Without a change, p <= 0.05 comes in about 5 of 100 worlds."""
    generator = np.random.default_rng(14)
    pass_hits = rank_hits = 0
    for _ in range(WORLDS):
        rate = generator.uniform(0.7, 0.95, (shape.cases, 1))
        passes = stratified_exact(
            verdicts(generator, rate, shape.baseline), verdicts(generator, rate, shape.candidate)
        )
        mean = generator.uniform(0.5, 2.5, (shape.cases, 1))
        spread = np.full((shape.cases, 1), 0.3)
        rounds = stratified_rank_sum(
            log_normal(generator, mean, spread, shape.baseline),
            log_normal(generator, mean, spread, shape.candidate),
        )
        assert passes is not None
        assert rounds is not None
        pass_hits += passes.p_worse <= 0.05
        rank_hits += rounds.p_worse <= 0.05
    assert 0.02 <= pass_hits / WORLDS <= 0.08
    assert 0.02 <= rank_hits / WORLDS <= 0.08


def test_wilson_interval_covers() -> None:
    """Over rates from 70 % to 99 % and 30 trials, about 95 of 100 intervals hold the rate."""
    generator = np.random.default_rng(15)
    covered = 0
    for _ in range(4 * WORLDS):
        rate = generator.uniform(0.7, 0.99)
        interval = wilson_interval(int(generator.binomial(30, rate)), 30)
        assert interval is not None
        covered += interval[0] <= rate <= interval[1]
    assert 0.93 <= covered / (4 * WORLDS) <= 0.98


def test_invoice_interval_covers() -> None:
    """The interval of a ratio of totals holds the ratio of the cases' population."""
    generator = np.random.default_rng(16)
    covered, worlds = 0, 300
    for world in range(worlds):
        mean = generator.uniform(0.5, 2.5, (60, 1))
        spread = np.full((60, 1), 0.3)
        result = ratio_of_totals(
            log_normal(generator, mean, spread, 21),
            log_normal(generator, mean + np.log(1.1), spread, 3),
            seed=world,
            draws=500,
        )
        assert result is not None
        assert result.low is not None
        assert result.high is not None
        covered += result.low <= 1.1 <= result.high
    assert 0.88 <= covered / worlds <= 0.99


def test_cluster_interval_covers_a_cluster_effect() -> None:
    """With effects shared within clusters the cluster interval still holds the true change."""
    generator = np.random.default_rng(17)
    covered, worlds = 0, 150
    clusters = [case // 4 for case in range(60)]
    for world in range(worlds):
        shared = np.repeat(generator.normal(0, 0.3, 15), 4)[:, None]
        interval = cluster_bootstrap_change(
            Sample(generator.normal(0, 0.3, (60, 7))),
            Sample(0.2 + shared + generator.normal(0, 0.3, (60, 3))),
            clusters,
            seed=world,
            draws=300,
        )
        assert interval is not None
        covered += interval[0] <= 0.2 <= interval[1]
    assert 0.88 <= covered / worlds <= 0.995
