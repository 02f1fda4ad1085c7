from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.notifiers.verdict_parts import counts, finding, measured
from watchkeeper.domain.verdict import Metric
from watchkeeper.notifiers import wording


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (0.85, "85 %"),
        (67 / 72, "93 %"),
        (1.0, "100 %"),
        (0.0, "0 %"),
        (199 / 200, "99.5 %"),
        (0.99999, "99.999 %"),
        (0.001, "0.1 %"),
        (None, "unknown"),
        (math.nan, "unknown"),
    ],
)
def test_only_all_is_shown_as_100_percent_and_only_none_as_0(
    rate: float | None, shown: str
) -> None:
    """Rounding never turns one failure in 200 into a clean sheet."""
    assert wording.percent(rate) == shown


def test_a_rate_below_its_gate_never_reads_like_the_gate() -> None:
    """84.6 % under a gate of 85 % is shown with the decimal that explains the failure."""
    assert wording.fraction(11, 13, 0.85) == "11/13 = 84.6 %"
    assert wording.fraction(17, 20, 1.0) == "17/20 = 85 %"
    assert wording.fraction(17, 20, 0.85) == "17/20 = 85 %"


def test_a_zero_denominator_is_undefined() -> None:
    """Nothing graded is neither 0 % nor 100 %."""
    assert wording.fraction(0, 0) == "0/0 = undefined"


@pytest.mark.parametrize(
    ("change", "shown"),
    [(-0.10, "−10 points"), (0.025, "+2.5 points"), (-0.01, "−1 point"), (0.0, "0 points")],
)
def test_rate_points_carry_their_sign(change: float, shown: str) -> None:
    """Which way a rate went is never left to the reader."""
    assert wording.points(change) == shown
    assert wording.points(None) == "unknown"


@pytest.mark.parametrize(
    ("metric", "triple", "shown"),
    [
        ("rounds", (3.9, 3.2, 4.8), "3.9× (3.2–4.8)"),
        ("rounds", (1.12, 1.05, 1.2), "1.12× (1.05–1.20)"),
        ("cost_usd", (12.4, 8.1, 19.0), "12× (8–19)"),
        ("rounds", (2.1, 1.04, 4.2), "2.1× (1.04–4.20)"),
        ("rounds", (math.nan, 1.0, 2.0), "unknown (1–2)"),
        ("rounds", (2.0, math.nan, math.inf), "2.0× (interval unknown)"),
        ("pass_rate", (-0.104, -0.16, -0.048), "−10 points (−16 to −5)"),
        ("pass_rate", (-0.104, -0.2, -0.002), "−10 points (−20 to −0.2)"),
        ("pass_rate", (-0.033, -0.061, -0.005), "−3.3 points (−6.1 to −0.5)"),
    ],
)
def test_an_effect_is_shown_with_its_interval(
    metric: Metric, triple: tuple[float, float, float], shown: str
) -> None:
    """The side of 1, or of 0, on which a bound lies survives rounding."""
    assert wording.effect(metric, measured(*triple)) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (None, "unknown"),
        (0.0, "$0.00"),
        (3.1, "$3.10"),
        (1234.5, "$1,234.50"),
        (0.0313, "$0.031"),
        (0.000042, "$0.000042"),
    ],
)
def test_an_unknown_price_is_not_free(amount: float | None, shown: str) -> None:
    """Money that is not known is said to be unknown, and small money keeps its digits."""
    assert wording.dollars(amount) == shown


def test_plain_numbers() -> None:
    """Counts and means of counts read as people write them."""
    assert [wording.number(value) for value in (2.0, 8.25, 1204.0, None, math.inf, -0.01)] == [
        "2",
        "8.2",
        "1,204",
        "unknown",
        "unknown",
        "0",
    ]
    assert wording.count(1, "case") == "1 case"
    assert wording.count(1200, "case") == "1,200 cases"
    assert wording.listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert wording.probability(1e-9) == "below 0.0001"
    assert wording.probability(0.0123) == "0.01"


def test_sample_and_margin() -> None:
    """An effect always says what it rests on, and fresh trials are called so."""
    one = measured(3.1, 2.7, 3.5)
    assert wording.sample(one, is_fresh=True) == "12 cases, 36 fresh trials against 504"
    assert wording.margin(finding("rounds", "suite", "suite", "no_worse")) == "+10 %"
    assert wording.margin(finding("pass_rate", "category", "tone", "no_worse")) == "5 points"
    assert wording.detectable("pass_rate", 0.083) == "8.3 points"
    assert wording.detectable("rounds", 0.16) == "+16 %"
    assert wording.detectable("rounds", None) == "unknown"


def test_where_missing_trials_went() -> None:
    """Errors are counted apart from failures, each kind by name."""
    tally = counts(30, 1, harness_error=20, grader_error=1, missing=6)
    assert wording.missing_kinds(tally) == "20 harness errors, 1 grader error, 6 never recorded"
    assert wording.missing_kinds(counts(3)) == ""


def test_times_are_utc() -> None:
    """A time in another zone is converted; one without a zone is taken as UTC."""
    berlin = timezone(timedelta(hours=2))
    assert wording.when(datetime(2026, 5, 22, 4, 30, tzinfo=berlin)) == "2026-05-22 02:30 UTC"
    assert wording.when(datetime(2026, 5, 22, 2, 30)) == "2026-05-22 02:30 UTC"  # noqa: DTZ001
    assert wording.when(datetime(2026, 5, 22, 2, 30, tzinfo=UTC)) == "2026-05-22 02:30 UTC"
    assert wording.when(None) == "unknown"


@given(st.floats(), st.floats(), st.floats())
def test_no_number_makes_the_words_fail(first: float, second: float, third: float) -> None:
    """NaN, infinities and the very large and small are shown or said to be unknown."""
    one = measured(first, second, third, baseline_mean=first, candidate_mean=second)
    metrics: tuple[Metric, ...] = ("pass_rate", "rounds", "cost_usd")
    for metric in metrics:
        assert wording.effect(metric, one)
        assert wording.before_after(metric, one)
        assert wording.detectable(metric, third)
    for shown in (
        wording.percent(first),
        wording.dollars(second),
        wording.number(third),
        wording.percent_interval(first, second),
        wording.probability(first),
    ):
        assert "nan" not in shown
        assert "inf" not in shown
