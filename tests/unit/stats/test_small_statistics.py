"""Small statistics against slow plain versions, their bounds, and what they refuse."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb, inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.stats.agreement import (
    brier_binary,
    cohen_kappa,
    confusion_matrix,
    flip_variance,
    observed_agreement,
)
from watchkeeper.stats.bootstrap import (
    bootstrap_percentile_mean,
    cluster_bootstrap_change,
    cluster_bootstrap_enumerated,
)
from watchkeeper.stats.intervals import (
    clopper_pearson_upper,
    effective_count,
    wilson_interval,
    zero_failure_upper,
)
from watchkeeper.stats.multiplicity import benjamini_hochberg, holm
from watchkeeper.stats.paired import (
    mcnemar_exact,
    paired_log_ratio,
    paired_t,
    sign_flip_permutation_lower,
)
from watchkeeper.stats.power import (
    cases_needed,
    mde80,
    mde80_of_ratio,
    n_per_arm_two_proportions,
    zero_failure_mde80,
)
from watchkeeper.stats.summaries import (
    cost_per_completed,
    overdispersion,
    pass_at_k,
    pass_hat_k,
    pass_hat_k_mean,
    scaled_phi,
    slice_means,
)
from watchkeeper.stats.tests import (
    Sample,
    stratified_exact,
)

seeded = settings(deadline=None, derandomize=True)


class TestBootstrap:
    """Resampling."""

    def test_too_little_to_resample(self) -> None:
        """One value, one cluster, no cluster: nothing to say, or refused."""
        assert bootstrap_percentile_mean([1.0], seed=1) is None
        one = Sample.from_rows([[1.0], [0.0]])
        assert cluster_bootstrap_change(one, one, ["a", "a"], seed=1) is None
        same = Sample.from_rows([[1.0], [1.0]])
        assert cluster_bootstrap_change(same, same, ["a", "b"], seed=1) is None
        with pytest.raises(ValueError, match="1 clusters for 2 cases"):
            cluster_bootstrap_change(one, one, ["a"], seed=1)
        for clusters in ([], [[1.0], []], [[1.0]] * 8):
            with pytest.raises(ValueError, match="expected 1 to 7"):
                cluster_bootstrap_enumerated(clusters)

    def test_clusters_that_move_together_widen_the_interval(self) -> None:
        """Forty cases in ten clusters that move as one are ten, not forty."""
        generator = np.random.default_rng(5)
        shift = np.repeat(generator.normal(0, 0.5, 10), 4)[:, None]
        before = Sample(generator.normal(0, 0.1, (40, 7)))
        after = Sample(shift + generator.normal(0, 0.1, (40, 3)))
        together = cluster_bootstrap_change(before, after, [i // 4 for i in range(40)], 1)
        apart = cluster_bootstrap_change(before, after, list(range(40)), 1)
        assert together is not None
        assert apart is not None
        assert together == cluster_bootstrap_change(before, after, [i // 4 for i in range(40)], 1)
        assert together[1] - together[0] > 1.5 * (apart[1] - apart[0])
        assert together[0] < float(shift.mean()) < together[1]


class TestIntervals:
    """Single rates."""

    @seeded
    @given(
        st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        st.sampled_from([1.0, 1.5, 6.0]),
    )
    def test_wilson(self, counts: tuple[int, int], phi: float) -> None:
        """Within [0, 1], around the rate, never 0 wide, mirrored, wider with fewer effective n."""
        successes, n = counts
        interval = wilson_interval(successes, n, effective_n=effective_count(n, phi))
        mirrored = wilson_interval(n - successes, n, effective_n=effective_count(n, phi))
        plain = wilson_interval(successes, n)
        assert interval is not None
        assert mirrored is not None
        assert plain is not None
        assert 0 <= interval[0] <= successes / n <= interval[1] <= 1
        assert interval[0] < interval[1]
        assert mirrored == pytest.approx((1 - interval[1], 1 - interval[0]))
        assert interval[1] - interval[0] >= plain[1] - plain[0] - 1e-12

    @seeded
    @given(st.integers(1, 400))
    def test_zero_failures_is_clopper_pearson_at_zero(self, n: int) -> None:
        """The closed form is the exact bound; all failures leave no bound but 1."""
        assert zero_failure_upper(n) == pytest.approx(clopper_pearson_upper(0, n))
        assert clopper_pearson_upper(n, n) == 1.0

    def test_no_trial_is_no_rate(self) -> None:
        """Zero denominators are undefined; impossible counts are refused."""
        assert wilson_interval(0, 0) is None
        assert zero_failure_upper(0) is None
        assert clopper_pearson_upper(0, 0) is None
        assert zero_failure_mde80(0) is None
        with pytest.raises(ValueError, match="3 of 2"):
            wilson_interval(3, 2)
        with pytest.raises(ValueError, match="confidence"):
            clopper_pearson_upper(0, 2, 1.0)
        with pytest.raises(ValueError, match="effective_n"):
            wilson_interval(1, 2, effective_n=0)


PROBABILITIES = st.lists(st.floats(0, 1), max_size=8)


class TestMultiplicity:
    """Several p values."""

    @seeded
    @given(PROBABILITIES, st.sampled_from([0.004, 0.05, 0.2]))
    def test_holm_slow_plain_version(self, p_values: list[float], alpha: float) -> None:
        """Stepping down by hand rejects the same hypotheses, ulps aside."""
        expected = [False] * len(p_values)
        ordered = sorted(range(len(p_values)), key=lambda i: p_values[i])
        for step, index in enumerate(ordered):
            if p_values[index] * (len(p_values) - step) > alpha:
                break
            expected[index] = True
        assert holm(p_values, alpha).reject.tolist() == expected

    @seeded
    @given(PROBABILITIES, st.sampled_from([0.05, 0.1, 0.5]))
    def test_bh_slow_plain_version(self, p_values: list[float], q: float) -> None:
        """Stepping up by hand rejects the same hypotheses, ulps aside."""
        ordered = sorted(p_values)
        count = len(p_values)
        passing = [p for i, p in enumerate(ordered, 1) if p * count / i <= q]
        limit = max(passing, default=-1.0)
        assert benjamini_hochberg(p_values, q).reject.tolist() == [p <= limit for p in p_values]

    @seeded
    @given(PROBABILITIES)
    def test_adjusted_p_are_p_and_holm_is_the_stricter(self, p_values: list[float]) -> None:
        """Adjusted values stay in [0, 1], never below the p, and Holm never below BH."""
        strict, mild = holm(p_values, 0.05).adjusted, benjamini_hochberg(p_values, 0.05).adjusted
        for p, one, other in zip(p_values, strict, mild, strict=True):
            assert p * (1 - 1e-12) <= other <= 1
            assert other * (1 - 1e-12) <= one <= 1

    def test_refuses_what_is_no_probability(self) -> None:
        """NaN and numbers outside [0, 1] are our own mistakes."""
        for bad in (nan, -0.1, 1.1):
            with pytest.raises(ValueError, match="outside"):
                holm([0.1, bad], 0.05)


class TestPaired:
    """One number a case on each side."""

    @seeded
    @given(st.integers(0, 12), st.integers(0, 12))
    def test_mcnemar_slow_plain_version(self, worse: int, better: int) -> None:
        """Summing binomial coefficients gives the same p; the test of one trial a side agrees."""
        changed = worse + better
        ways = [comb(changed, i) for i in range(changed + 1)]
        expected = Fraction(sum(ways[: better + 1]), 2**changed)
        got = mcnemar_exact(worse, better)
        assert got.one_sided_regression == pytest.approx(float(expected))
        assert 0 < got.mid_p_two_sided <= got.two_sided <= 1
        before = [[1.0]] * worse + [[0.0]] * better + [[1.0]]
        after = [[0.0]] * worse + [[1.0]] * better + [[1.0]]
        stratified = stratified_exact(Sample.from_rows(before), Sample.from_rows(after))
        assert stratified is not None
        assert stratified.exact_p is None or stratified.exact_p == pytest.approx(float(expected))

    @seeded
    @given(st.lists(st.integers(-3, 3), max_size=7))
    def test_sign_flips_slow_plain_version(self, differences: list[int]) -> None:
        """Listing every sign of every difference, zeros too, gives the same p."""
        signs = list(product([-1, 1], repeat=len(differences)))
        observed = sum(differences)
        lower = sum(
            sum(s * abs(d) for s, d in zip(sign, differences, strict=True)) <= observed
            for sign in signs
        )
        assert sign_flip_permutation_lower(differences) == pytest.approx(lower / len(signs))

    def test_refusals_and_absence(self) -> None:
        """Under two cases, or without spread, there is no t; wrong input is refused."""
        assert paired_t([1.0], [2.0]) is None
        assert paired_t([1.0, 2.0], [2.0, 3.0]) is None
        assert paired_log_ratio([], []) is None
        with pytest.raises(ValueError, match="no logarithm"):
            paired_log_ratio([1.0, 0.0], [1.0, 1.0])
        with pytest.raises(ValueError, match="2 baseline cases"):
            paired_t([1.0, 0.0], [1.0])
        with pytest.raises(ValueError, match="expected 0 or more"):
            mcnemar_exact(-1, 0)
        with pytest.raises(ValueError, match="too many"):
            sign_flip_permutation_lower([1.0] * 21)


class TestPower:
    """What could have been seen."""

    def test_mde(self) -> None:
        """(1.881 + 0.842) standard errors at the suite's screen level; a ratio for logarithms."""
        assert mde80(0.02, 0.03) == pytest.approx(0.02 * (1.8808 + 0.8416), abs=1e-5)
        assert mde80_of_ratio(0.02, 0.03) == pytest.approx(np.expm1(mde80(0.02, 0.03)))

    def test_cases_needed(self) -> None:
        """Half the visible change takes four times the cases; enough is enough."""
        assert cases_needed(40, 0.10, 0.05) == 160
        assert cases_needed(40, 0.03, 0.05) == 40

    def test_sample_size_is_symmetric_and_refuses_nothing_to_find(self) -> None:
        """Which rate is named first does not matter; equal rates cannot be told apart."""
        assert n_per_arm_two_proportions(0.9, 0.8) == n_per_arm_two_proportions(0.8, 0.9)
        with pytest.raises(ValueError, match="two different ones"):
            n_per_arm_two_proportions(0.9, 0.9)


class TestSummaries:
    """Descriptions."""

    @seeded
    @given(
        st.integers(0, 8).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        st.integers(1, 5),
    )
    def test_pass_at_and_hat_k_slow_plain_version(self, counts: tuple[int, int], k: int) -> None:
        """Listing every draw of k trials gives the same chances; too few trials are undefined."""
        passed, n = counts
        draws = list(combinations([1] * passed + [0] * (n - passed), k))
        if not draws:
            assert pass_at_k(n, passed, k) is None
            assert pass_hat_k(n, passed, k) is None
            return
        assert pass_at_k(n, passed, k) == pytest.approx(sum(map(any, draws)) / len(draws))
        assert pass_hat_k(n, passed, k) == pytest.approx(sum(map(all, draws)) / len(draws))

    def test_pass_hat_k_mean_leaves_out_short_cases(self) -> None:
        """A case with fewer than k trials is not counted; none at all is undefined."""
        assert pass_hat_k_mean([3, 2, 1], [3, 3, 1], 3) == pytest.approx(0.5)
        assert pass_hat_k_mean([1], [1], 3) is None

    def test_phi(self) -> None:
        """1 until 14 values, mean of min(z^2, 9) of the last 28 nights, clipped to [1, 6]."""
        assert overdispersion([]) == 1.0
        assert overdispersion([[3.0] * 13]) == 1.0
        assert overdispersion([[2.0] * 7, [nan, *[1.0] * 7]]) == pytest.approx(2.5)
        assert overdispersion([[9.0]] * 14) == 6.0
        assert overdispersion([[0.1]] * 14) == 1.0
        assert overdispersion([[3.0]] * 100 + [[1.5]] * 28) == pytest.approx(2.25)

    def test_scaled_phi(self) -> None:
        """A sample of a night's size has the night's phi, a smaller one less, a larger one more."""
        assert scaled_phi(2.0, 60, 60) == 2.0
        assert scaled_phi(2.0, 15, 60) == 1.25
        assert scaled_phi(2.0, 240, 60) == 5.0
        assert scaled_phi(1.0, 7, 60) == 1.0
        for phi, fresh_n, night_n in ((0.5, 1, 1), (2.0, -1, 1), (2.0, 1, 0)):
            with pytest.raises(ValueError, match="fresh trials"):
                scaled_phi(phi, fresh_n, night_n)

    def test_undefined_is_not_zero(self) -> None:
        """No completed trial, no trial, no slice: None, never 0."""
        assert cost_per_completed(3.0, 0) is None
        empty = slice_means([(0, 0)])
        assert (empty.pooled, empty.equal_slice, empty.weighted) == (None, None, None)
        assert slice_means([(1, 2), (0, 0)], [1.0, 0.0]).weighted == 0.5
        with pytest.raises(ValueError, match="expected 1"):
            slice_means([(1, 2)], [0.5])


class TestAgreement:
    """Judges and people."""

    @seeded
    @given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("xyz")), max_size=12))
    def test_kappa(self, pairs: list[tuple[str, str]]) -> None:
        """Kappa is symmetric and at most the raw agreement; the matrix holds every item."""
        a, b = [one for one, _ in pairs], [other for _, other in pairs]
        kappa, agreement = cohen_kappa(a, b), observed_agreement(a, b)
        assert cohen_kappa(b, a) == pytest.approx(kappa)
        assert sum(map(sum, confusion_matrix(a, b).counts)) == len(pairs)
        if agreement is None or kappa is None:
            assert not pairs or len(set(a + b)) == 1
        else:
            assert -1 <= kappa <= agreement + 1e-12

    def test_edges(self) -> None:
        """No forecast has no score; a fair coin of a judge adds a quarter."""
        assert brier_binary([], []) is None
        assert flip_variance(0.5) == 0.25


class TestSample:
    """The table of trials."""

    def test_is_a_copy_that_cannot_be_written(self) -> None:
        """What is tested tonight is not changed by whoever holds the array."""
        array = np.array([[1.0, nan]])
        sample = Sample(array)
        array[0, 0] = 5.0
        assert sample.values[0, 0] == 1.0
        with pytest.raises(ValueError, match="read-only"):
            sample.values[0, 0] = 2.0

    def test_rows_counts_and_selection(self) -> None:
        """None and padding are NaN; counts become ones and zeros; a mask or indices select."""
        sample = Sample.from_rows([[1.0, None, 3.0], []])
        assert sample.trial_counts.tolist() == [2.0, 0.0]
        assert sample.case_means.tolist()[0] == 2.0
        assert np.isnan(sample.case_means[1])
        counted = Sample.from_counts([1, 0], [2, 0])
        assert counted.case_sums.tolist() == [1.0, 0.0]
        assert sample.select([1, 0]).trial_counts.tolist() == [0.0, 2.0]
        assert sample.select(np.array([True, False])).case_count == 1
        assert sample.select([]).case_count == 0
        assert Sample.from_rows([]).case_count == 0
        assert stratified_exact(Sample.from_rows([]), Sample.from_rows([])) is None

    def test_refuses_what_is_no_table(self) -> None:
        """One dimension, infinite values and impossible counts are refused."""
        with pytest.raises(ValueError, match="expected \\[cases, trials\\]"):
            Sample(np.array([1.0]))
        with pytest.raises(ValueError, match="infinite"):
            Sample(np.array([[inf]]))
        with pytest.raises(ValueError, match="3 passed of 2"):
            Sample.from_counts([3], [2])
