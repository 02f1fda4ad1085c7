"""What must hold of a comparison whatever the data: symmetry, order, bounds, slow versions."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb, inf, isfinite, isnan, log, nan, prod, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from watchkeeper.stats.bootstrap import (
    bootstrap_bca_ratio_of_means,
)
from watchkeeper.stats.tests import (
    Sample,
    TestResult,
    default_zero_offset,
    rank_permutation_greater,
    ratio_of_totals,
    stratified_exact,
    stratified_rank_sum,
)

seeded = settings(deadline=None, derandomize=True)

Rows = list[list[float]]


def tables(values: st.SearchStrategy[float], most_trials: int = 5) -> st.SearchStrategy[Rows]:
    """Rows of up to ``most_trials`` trials, some of them NaN and some rows empty."""
    trial = st.one_of(values, values, values, st.just(nan))
    return st.lists(st.lists(trial, max_size=most_trials), min_size=1, max_size=6)


def two_sides(
    values: st.SearchStrategy[float], most_trials: int = 5
) -> st.SearchStrategy[tuple[Rows, Rows]]:
    """Two tables over the same cases."""
    return st.tuples(tables(values, most_trials), tables(values, most_trials)).map(
        lambda sides: (
            sides[0][: min(map(len, sides))],
            sides[1][: min(map(len, sides))],
        )
    )


VERDICTS = st.sampled_from([0.0, 1.0])
ROUNDS = st.sampled_from([1.0, 2.0, 3.0, 5.0, 8.0, 13.5])
PHI = st.sampled_from([1.0, 1.7, 6.0])


def measured(rows: Rows) -> Rows:
    """The same rows without NaN."""
    return [[value for value in row if not isnan(value)] for row in rows]


def samples(sides: tuple[Rows, Rows]) -> tuple[Sample, Sample]:
    """Both tables as the tests take them."""
    return Sample.from_rows(sides[0]), Sample.from_rows(sides[1])


def both(before: Rows, after: Rows) -> list[tuple[list[float], list[float]]]:
    """The matched cases, without NaN."""
    return [(b, c) for b, c in zip(measured(before), measured(after), strict=True) if b and c]


def same_numbers(one: TestResult | None, other: TestResult | None) -> bool:
    """Whether two results agree in every field, up to rounding."""
    if one is None or other is None:
        return one is other
    for field in fields(TestResult):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if (mine is None) != (theirs is None):
            return False
        if mine is not None and mine != pytest.approx(theirs, rel=1e-9, abs=1e-9):
            return False
    return True


def check_bounds(result: TestResult) -> None:
    """Every number is finite, probabilities are probabilities, the interval has a width."""
    assert all(
        isfinite(getattr(result, field.name))
        for field in fields(TestResult)
        if getattr(result, field.name) is not None
    )
    for p in (result.p_worse, result.p_better, result.exact_p, result.exact_p_better):
        assert p is None or 0 <= p <= 1
    assert result.p_worse + result.p_better == pytest.approx(1)
    assert result.low <= result.estimate <= result.high
    assert result.high - result.low > 1e-3
    assert result.lower_bound() < result.estimate < result.upper_bound()
    assert result.standard_error > 0
    assert result.degrees_of_freedom >= 3


class TestStratifiedExact:
    """Pass rates."""

    @seeded
    @given(two_sides(VERDICTS), PHI)
    def test_bounds(self, sides: tuple[Rows, Rows], phi: float) -> None:
        """Without a matched case there is no result; with one, every number is in range."""
        before, after = sides
        result = stratified_exact(Sample.from_rows(before), Sample.from_rows(after), phi)
        cases = both(before, after)
        if not cases:
            assert result is None
            return
        assert result is not None
        check_bounds(result)
        assert -1 <= result.low <= result.high <= 1
        assert result.case_count == len(cases)
        assert result.baseline_trial_count == sum(len(b) for b, _ in cases)
        assert result.candidate_trial_count == sum(len(c) for _, c in cases)
        assert result.informative_case_count == sum(len(set(b + c)) > 1 for b, c in cases)

    @seeded
    @given(two_sides(VERDICTS), PHI)
    def test_swapping_sides_flips_the_sign(self, sides: tuple[Rows, Rows], phi: float) -> None:
        """What is worse one way round is better, by as much, the other way round."""
        before, after = samples(sides)
        result, swapped = stratified_exact(before, after, phi), stratified_exact(after, before, phi)
        assume(result is not None)
        assert result is not None
        assert swapped is not None
        assert swapped.estimate == pytest.approx(-result.estimate)
        assert swapped.z == pytest.approx(-result.z, abs=1e-9)
        assert swapped.p_worse == pytest.approx(result.p_better)
        assert swapped.exact_p == pytest.approx(result.exact_p_better)
        assert (swapped.low, swapped.high) == pytest.approx((-result.high, -result.low))

    @seeded
    @given(two_sides(VERDICTS), st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, sides: tuple[Rows, Rows], random: Random) -> None:
        """Cases and trials may come in any order, padded or not."""
        before, after = sides
        shuffle = random.shuffle
        order = list(range(len(before)))
        shuffle(order)
        shuffled = []
        for side in (before, after):
            rows = [list(side[case]) for case in order]
            for row in rows:
                shuffle(row)
            shuffled.append(Sample.from_rows([*rows, []]))
        assert same_numbers(
            stratified_exact(Sample.from_rows(before), Sample.from_rows(after)),
            stratified_exact(shuffled[0], shuffled[1]),
        )

    @seeded
    @given(two_sides(VERDICTS))
    def test_missing_trials_and_cases_are_as_if_never_listed(
        self, sides: tuple[Rows, Rows]
    ) -> None:
        """NaN trials are ignored; a case that one side lacks is dropped."""
        cases = both(*sides)
        assert same_numbers(
            stratified_exact(*samples(sides)),
            stratified_exact(
                Sample.from_rows([b for b, _ in cases]), Sample.from_rows([c for _, c in cases])
            ),
        )

    @settings(seeded, max_examples=60)
    @given(two_sides(VERDICTS, most_trials=4))
    def test_slow_plain_version(self, sides: tuple[Rows, Rows]) -> None:
        """Listing every way to deal each case's passes to its two sides gives the same p."""
        cases = both(*sides)
        assume(cases)
        cases = cases[:3]
        observed = sum(sum(c) for _, c in cases)
        lower = same = Fraction(0)
        deals = [list(combinations(b + c, len(c))) for b, c in cases]
        for deal in product(*deals):
            total = sum(sum(drawn) for drawn in deal)
            lower += total <= observed
            same += total == observed
        ways = prod(map(len, deals))
        result = stratified_exact(
            Sample.from_rows([b for b, _ in cases]), Sample.from_rows([c for _, c in cases])
        )
        assert result is not None
        assert result.exact_p == pytest.approx(float(lower / ways), rel=1e-12)
        assert result.p_worse == pytest.approx(float((lower - same / 2) / ways), rel=1e-9)

    @pytest.mark.parametrize(("verdict", "count"), [(1.0, 3), (0.0, 3), (1.0, 1)])
    def test_identical_data_say_nothing(self, verdict: float, count: int) -> None:
        """All alike on both sides: z is 0, p one half, and the interval still has a width."""
        rows = [[verdict] * count] * 4
        result = stratified_exact(Sample.from_rows(rows), Sample.from_rows(rows))
        assert result is not None
        assert (result.estimate, result.z, result.p_worse) == (0.0, 0.0, 0.5)
        assert (result.exact_p, result.informative_case_count) == (1.0, 0)
        assert result.low < 0 < result.high

    def test_normal_approximation_takes_over_and_agrees(self) -> None:
        """From a variance of 6 the p is a normal one, close to the counted mid-p."""
        before, after = [[1.0] * 7 + [0.0] * 3] * 12, [[1.0] + [0.0] * 2] * 12
        large = stratified_exact(Sample.from_rows(before), Sample.from_rows(after))
        small = stratified_exact(Sample.from_rows(before[:10]), Sample.from_rows(after[:10]))
        assert large is not None
        assert small is not None
        assert large.exact_p is None
        assert small.exact_p is not None
        expected = sum(3 * 10 * 8 * 5 / (13**2 * 12) for _ in range(12))
        assert large.z == pytest.approx(12 * (3 * 8 / 13 - 1) / sqrt(expected))
        assert small.z == pytest.approx(large.z * sqrt(10 / 12), rel=0.05)

    @seeded
    @given(two_sides(VERDICTS))
    def test_phi_divides_z_and_widens_the_interval(self, sides: tuple[Rows, Rows]) -> None:
        """Phi 4 halves z, doubles the standard error, and leaves estimate and raw z alone."""
        before, after = samples(sides)
        plain, wide = stratified_exact(before, after), stratified_exact(before, after, 4.0)
        assume(plain is not None)
        assert plain is not None
        assert wide is not None
        assert wide.z == pytest.approx(plain.z / 2)
        assert wide.standard_error == pytest.approx(2 * plain.standard_error)
        assert (wide.estimate, wide.unscaled_z) == (plain.estimate, plain.unscaled_z)

    def test_refuses_what_is_not_a_verdict(self) -> None:
        """Only 0, 1 and NaN are verdicts; phi is at least 1; both sides list the same cases."""
        ones = Sample.from_rows([[1.0]])
        with pytest.raises(ValueError, match="0 \\(failed\\), 1 \\(passed\\)"):
            stratified_exact(ones, Sample.from_rows([[0.5]]))
        for phi in (0.5, nan):
            with pytest.raises(ValueError, match="phi"):
                stratified_exact(ones, ones, phi)
        with pytest.raises(ValueError, match="same cases"):
            stratified_exact(ones, Sample.from_rows([[1.0], [1.0]]))


class TestStratifiedRankSum:
    """Rounds, cost, tokens, latency."""

    @seeded
    @given(two_sides(st.sampled_from([0.0, 1.0, 2.0, 3.0, 8.0])), PHI)
    def test_bounds(self, sides: tuple[Rows, Rows], phi: float) -> None:
        """Without a matched case there is no result; with one, every number is in range."""
        before, after = sides
        result = stratified_rank_sum(Sample.from_rows(before), Sample.from_rows(after), phi)
        cases = both(before, after)
        if not cases:
            assert result is None
            return
        assert result is not None
        check_bounds(result)
        assert result.exact_p is None
        assert result.case_count == len(cases)
        assert result.baseline_trial_count == sum(len(b) for b, _ in cases)
        assert result.candidate_trial_count == sum(len(c) for _, c in cases)
        assert result.informative_case_count == sum(len(set(b + c)) > 1 for b, c in cases)

    @seeded
    @given(two_sides(ROUNDS), PHI, st.booleans())
    def test_swapping_sides_flips_the_sign(
        self, sides: tuple[Rows, Rows], phi: float, higher_is_worse: bool
    ) -> None:
        """What is worse one way round is better, by as much, the other way round."""
        before, after = samples(sides)
        result, swapped = (
            stratified_rank_sum(one, other, phi, higher_is_worse=higher_is_worse)
            for one, other in ((before, after), (after, before))
        )
        assume(result is not None)
        assert result is not None
        assert swapped is not None
        assert swapped.estimate == pytest.approx(-result.estimate, abs=1e-9)
        assert swapped.z == pytest.approx(-result.z, abs=1e-9)
        assert swapped.p_worse == pytest.approx(result.p_better)
        assert (swapped.low, swapped.high) == pytest.approx((-result.high, -result.low))

    @seeded
    @given(two_sides(ROUNDS))
    def test_direction_turns_z_and_nothing_else(self, sides: tuple[Rows, Rows]) -> None:
        """Whether higher is worse exchanges the p values; the estimate keeps its sign."""
        before, after = samples(sides)
        up = stratified_rank_sum(before, after)
        down = stratified_rank_sum(before, after, higher_is_worse=False)
        assume(up is not None)
        assert up is not None
        assert down is not None
        assert (down.z, down.p_worse) == pytest.approx((-up.z, up.p_better))
        assert (down.estimate, down.low, down.high) == (up.estimate, up.low, up.high)

    @seeded
    @given(two_sides(ROUNDS), st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, sides: tuple[Rows, Rows], random: Random) -> None:
        """Cases and trials may come in any order, padded or not."""
        before, after = sides
        shuffle = random.shuffle
        order = list(range(len(before)))
        shuffle(order)
        shuffled = []
        for side in (before, after):
            rows = [list(side[case]) for case in order]
            for row in rows:
                shuffle(row)
            shuffled.append(Sample.from_rows([*rows, []]))
        assert same_numbers(
            stratified_rank_sum(Sample.from_rows(before), Sample.from_rows(after)),
            stratified_rank_sum(shuffled[0], shuffled[1]),
        )

    @seeded
    @given(two_sides(ROUNDS))
    def test_missing_trials_and_cases_are_as_if_never_listed(
        self, sides: tuple[Rows, Rows]
    ) -> None:
        """NaN trials are ignored; a case that one side lacks is dropped."""
        cases = both(*sides)
        assert same_numbers(
            stratified_rank_sum(*samples(sides)),
            stratified_rank_sum(
                Sample.from_rows([b for b, _ in cases]), Sample.from_rows([c for _, c in cases])
            ),
        )

    @seeded
    @given(two_sides(ROUNDS))
    def test_slow_plain_version(self, sides: tuple[Rows, Rows]) -> None:
        """Counting pairs, with the textbook tie term, gives the same z."""
        cases = both(*sides)
        assume(cases)
        total = variance = 0.0
        for before, after in cases:
            n = len(before) + len(after)
            score = sum((c > b) - (c < b) for c in after for b in before)
            sizes = [(before + after).count(value) for value in set(before + after)]
            ties = sum(t**3 - t for t in sizes) / (n * (n - 1))
            total += score / (n + 1)
            variance += len(before) * len(after) / 3 * (n + 1 - ties) / (n + 1) ** 2
        result = stratified_rank_sum(*samples(sides))
        assert result is not None
        expected = total / sqrt(variance) if variance > 1e-12 else 0.0
        assert result.z == pytest.approx(expected, abs=1e-9)

    @settings(seeded, max_examples=30)
    @given(st.lists(ROUNDS, min_size=1, max_size=3), st.lists(ROUNDS, min_size=1, max_size=3))
    def test_variance_is_that_of_all_permutations(
        self, before: list[float], after: list[float]
    ) -> None:
        """The tie-corrected variance is exactly that of the score over every relabelling."""
        assume(len(set(before + after)) > 1)
        scores = []
        for relabelled in permutations(before + after):
            b, c = relabelled[: len(before)], relabelled[len(before) :]
            scores.append(sum((y > x) - (y < x) for y in c for x in b))
        score = sum((y > x) - (y < x) for y in after for x in before)
        result = stratified_rank_sum(Sample.from_rows([before]), Sample.from_rows([after]))
        assert result is not None
        assert np.mean(scores) == pytest.approx(0, abs=1e-9)
        assert result.z == pytest.approx(score / np.std(scores), abs=1e-9)

    @pytest.mark.parametrize("value", [0.0, 3.0])
    def test_identical_data_say_nothing(self, value: float) -> None:
        """All alike on both sides: z is 0, p one half, and the interval still has a width."""
        rows = [[value] * 3] * 4
        result = stratified_rank_sum(Sample.from_rows(rows), Sample.from_rows(rows))
        assert result is not None
        assert (result.z, result.p_worse, result.informative_case_count) == (0.0, 0.5, 0)
        assert result.estimate == pytest.approx(0)
        assert result.low < 0 < result.high

    @seeded
    @given(two_sides(ROUNDS), st.sampled_from([0.001, 0.5, 40.0]))
    def test_the_unit_does_not_matter(self, sides: tuple[Rows, Rows], factor: float) -> None:
        """Dollars or cents: the same ratio, the same p."""
        scaled = tuple([[value * factor for value in row] for row in side] for side in sides)
        assert same_numbers(
            stratified_rank_sum(*samples(sides)),
            stratified_rank_sum(*samples((scaled[0], scaled[1]))),
        )

    def test_estimate_is_the_geometric_mean_ratio(self) -> None:
        """Doubling one case of two is a ratio of the square root of 2."""
        before, after = [[2.0, 2.0, 2.0], [5.0, 5.0]], [[4.0], [5.0, 5.0]]
        result = stratified_rank_sum(Sample.from_rows(before), Sample.from_rows(after))
        assert result is not None
        assert result.estimate == pytest.approx(log(2) / 2)

    def test_zeros_move_the_estimate_only(self) -> None:
        """A zero gets 1 % of the median baseline for the logarithm; the ranks see a zero."""
        before, after = Sample.from_rows([[0.0, 4.0, 4.0]]), Sample.from_rows([[4.0, 4.0]])
        result = stratified_rank_sum(before, after)
        other = stratified_rank_sum(before, after, zero_offset=1.0)
        per_case = stratified_rank_sum(before, after, zero_offset=np.array([1.0]))
        assert result is not None
        assert other is not None
        assert default_zero_offset(before, after) == pytest.approx(0.04)
        assert result.estimate == pytest.approx((log(4.04) - log(0.04)) / 3)
        assert other.estimate == pytest.approx(log(5) / 3)
        assert same_numbers(other, per_case)
        assert result.z == other.z

    @pytest.mark.parametrize(
        ("before", "after", "offset"),
        [
            ([1.0, 3.0], [0.0], 0.02),
            ([0.0, 0.0, 0.0, 5.0], [1.0], 0.05),
            ([0.0, 0.0], [0.0, 7.0], 0.07),
            ([0.0, 0.0], [0.0], 1.0),
        ],
    )
    def test_zero_offset_falls_back(
        self, before: list[float], after: list[float], offset: float
    ) -> None:
        """A median of 0 gives way to that of the trials above 0, then to the candidate's."""
        result = default_zero_offset(Sample.from_rows([before]), Sample.from_rows([after]))
        assert result == pytest.approx(offset)

    def test_variance_is_shrunk_to_the_given_one(self) -> None:
        """s^2 = (SS + 6 v0) / (df + 6); SE^2 = phi * sum s^2 (1/n_c + 1/n_b) / N^2."""
        before, after = [[1.0, 4.0, 9.0], [3.0, 3.0]], [[2.0, 5.0], [6.0]]
        expected = 0.0
        for b, c in zip(before, after, strict=True):
            logs = [np.log(b), np.log(c)]
            deviations = sum(float(((side - side.mean()) ** 2).sum()) for side in logs)
            s2 = (deviations + 6 * 0.3) / (len(b) + len(c) - 2 + 6)
            expected += max(s2, 0.02) * (1 / len(b) + 1 / len(c))
        result = stratified_rank_sum(
            Sample.from_rows(before), Sample.from_rows(after), 2.0, pooled_log_variance=0.3
        )
        assert result is not None
        assert result.standard_error == pytest.approx(sqrt(2 * expected) / 2)

    def test_refuses_what_has_no_ratio(self) -> None:
        """A negative amount, or a zero that is not to be offset, has no logarithm."""
        ones = Sample.from_rows([[1.0]])
        with pytest.raises(ValueError, match="negative"):
            stratified_rank_sum(ones, Sample.from_rows([[-1.0]]))
        with pytest.raises(ValueError, match="no logarithm"):
            stratified_rank_sum(ones, Sample.from_rows([[0.0]]), zero_offset=0.0)


class TestRankPermutation:
    """Rounds of a single case."""

    @settings(seeded, max_examples=60)
    @given(st.lists(ROUNDS, max_size=4), st.lists(ROUNDS, max_size=5))
    def test_slow_plain_version(self, fresh: list[float], baseline: list[float]) -> None:
        """Listing every split of the trials gives the same p."""
        everything = fresh + baseline
        rank = [
            sum(other < value for other in everything)
            + (sum(other == value for other in everything) + 1) / 2
            for value in everything
        ]
        observed = sum(rank[: len(fresh)])
        sums = [sum(chosen) for chosen in combinations(rank, len(fresh))]
        expected = Fraction(sum(total >= observed for total in sums), len(sums))
        got = rank_permutation_greater(fresh, baseline)
        assert got == pytest.approx(float(expected), rel=1e-12)
        assert got == rank_permutation_greater([*fresh[::-1], nan], [nan, *baseline[::-1]])
        assert 0 < got <= 1

    def test_smallest_p_of_five_against_fourteen(self) -> None:
        """All five above all fourteen is one split of 11,628."""
        p = rank_permutation_greater([9, 9, 9, 9, 9], [1, 2, 3, 4, 5, 6, 7] * 2)
        assert p == pytest.approx(1 / comb(19, 5))

    def test_identical_trials_say_nothing(self) -> None:
        """Ties everywhere: every split ranks at least as high."""
        assert rank_permutation_greater([3, 3], [3, 3, 3]) == 1.0

    def test_too_many_to_count(self) -> None:
        """More than 1,000 trials are refused."""
        with pytest.raises(ValueError, match="too many"):
            rank_permutation_greater([1.0] * 501, [1.0] * 500)


class TestRatioOfTotals:
    """The invoice."""

    @settings(seeded, max_examples=50)
    @given(two_sides(st.sampled_from([0.0, 0.5, 2.0, 30.0])))
    def test_bounds_and_order(self, sides: tuple[Rows, Rows]) -> None:
        """Undefined is None; an interval that is printed has a width; order does not matter."""
        before, after = samples(sides)
        cases = both(*sides)
        result = ratio_of_totals(before, after, seed=7, draws=200)
        total = sum(sum(b) / len(b) for b, _ in cases)
        if total == 0:
            assert result is None
            return
        assert result is not None
        assert result.ratio == pytest.approx(sum(sum(c) / len(c) for _, c in cases) / total)
        assert result.case_count == len(cases)
        assert (result.low is None) == (result.high is None)
        if result.low is not None and result.high is not None:
            assert 0 <= result.low < result.high < inf
        reverse = [Sample.from_rows([row[::-1] for row in side[::-1]]) for side in sides]
        backwards = ratio_of_totals(reverse[0], reverse[1], seed=7, draws=200)
        assert backwards is not None
        assert backwards.low == pytest.approx(result.low)
        assert backwards.high == pytest.approx(result.high)

    def test_one_factor_for_all_cases_has_no_interval(self) -> None:
        """Cases that all doubled, or a single case, tell nothing about other cases."""
        before, after = [[1.0], [2.0], [7.0]], [[2.0], [4.0], [14.0]]
        result = ratio_of_totals(Sample.from_rows(before), Sample.from_rows(after), seed=1)
        assert result is not None
        assert (result.ratio, result.low, result.high) == (2.0, None, None)
        single = ratio_of_totals(Sample.from_rows([[1.0]]), Sample.from_rows([[3.0]]), seed=1)
        assert single is not None
        assert (single.ratio, single.low, single.case_count) == (3.0, None, 1)

    def test_negative_totals_are_refused(self) -> None:
        """Nobody is billed a negative amount; sides are of equal length."""
        with pytest.raises(ValueError, match="0 or more"):
            bootstrap_bca_ratio_of_means([1.0, 2.0], [1.0, -1.0], seed=1)
        with pytest.raises(ValueError, match="2 baseline cases"):
            bootstrap_bca_ratio_of_means([1.0, 2.0], [1.0], seed=1)
