"""Dollars of tokens against examples that were computed by hand, shown beside each."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from watchkeeper.domain.endpoint import Price, PriceBand, PriceTable
from watchkeeper.domain.pricing import cost_usd, price_of, rounds_cost_usd
from watchkeeper.domain.trajectory import Round, Usage

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
FLAT = Price("flat", NEW_YEAR, (PriceBand(3.0, 15.0),), batch_discount=0.5)
BANDED = Price("banded", NEW_YEAR, (PriceBand(3.0, 15.0, 200_000), PriceBand(6.0, 22.5)))
OTHER_FACTORS = Price(
    "other",
    NEW_YEAR,
    (PriceBand(2.0, 8.0),),
    cache_write_5m_factor=0.0,
    cache_write_1h_factor=1.0,
    cache_read_factor=0.25,
)


@pytest.mark.parametrize(
    ("usage", "price", "dollars"),
    [
        # 1,000 × $3 + 200 × $15 = 3,000 + 3,000, by the million.
        (Usage(1_000, 0, 0, 0, 200, 0), FLAT, 0.006),
        # 150 of the 200 are thinking; they are in the 200 already.
        (Usage(1_000, 0, 0, 0, 200, 150), FLAT, 0.006),
        # 100 × 3 + 400 × 3 × 1.25 + 300 × 3 × 2 + 10,000 × 3 × 0.1 = 300 + 1,500 + 1,800 + 3,000;
        # 20 × 15 = 300 on top.
        (Usage(100, 400, 300, 10_000, 20, 0), FLAT, 0.0069),
        # 1,000 × 2 + 500 × 2 × 0 + 500 × 2 × 1 + 4,000 × 2 × 0.25 = 2,000 + 0 + 1,000 + 2,000;
        # 100 × 8 = 800.
        (Usage(1_000, 500, 500, 4_000, 100, 0), OTHER_FACTORS, 0.0058),
        # A class that the provider does not have is not used: 1,000 × 3 + 1,000 × 3 × 0.1.
        (Usage(1_000, None, None, 1_000, 0, None), FLAT, 0.0033),
        # Exactly the band's length is in it: 200,000 × 3 + 1,000 × 15 = 600,000 + 15,000.
        (Usage(200_000, 0, 0, 0, 1_000, 0), BANDED, 0.615),
        # One token more, and all of them cost the next band's price: 200,001 × 6 + 1,000 × 22.5.
        (Usage(200_001, 0, 0, 0, 1_000, 0), BANDED, 1.222506),
        # The prompt is the whole one: 1 + 100,000 + 50,000 + 50,000 = 200,001, of the next band.
        # 1 × 6 + 100,000 × 6 × 1.25 + 50,000 × 6 × 2 + 50,000 × 6 × 0.1 = 6 + 750,000 + 600,000
        # + 30,000.
        (Usage(1, 100_000, 50_000, 50_000, 0, 0), BANDED, 1.380006),
        # 200,000 with the cache is still the first: 0 × 3 + 200,000 × 3 × 0.1; output never moves
        # the band: 900,000 × 15.
        (Usage(0, 0, 0, 200_000, 900_000, 0), BANDED, 13.56),
        (Usage(0, 0, 0, 0, 0, 0), FLAT, 0.0),
    ],
)
def test_dollars_of_tokens(usage: Usage, price: Price, dollars: float) -> None:
    """Each class once, with its own factor, in the band of the whole prompt."""
    assert cost_usd(usage, price) == pytest.approx(dollars, abs=1e-12)


@pytest.mark.parametrize(
    ("usage", "price"),
    [
        (Usage(1_000, 0, 0, 0, 200, 0), None),
        (Usage(None, 0, 0, 0, 200, 0), FLAT),
        (Usage(1_000, 0, 0, 0, None, 0), FLAT),
        (Usage(), FLAT),
    ],
)
def test_what_is_not_known_costs_nothing_that_is_known(usage: Usage, price: Price | None) -> None:
    """No price, no input or no output: unknown, not 0."""
    assert cost_usd(usage, price) is None


def test_the_batch_interface_has_its_own_price() -> None:
    """Half of $0.006; where no discount is known, a batch call is unpriced."""
    usage = Usage(1_000, 0, 0, 0, 200, 0)
    assert cost_usd(usage, FLAT, is_batch=True) == pytest.approx(0.003)
    assert cost_usd(usage, BANDED, is_batch=True) is None


TABLE = PriceTable(
    "t",
    {
        "model": (
            Price("model", MARCH, (PriceBand(2.0, 2.0),)),
            Price("model", NEW_YEAR, (PriceBand(1.0, 1.0),)),
        ),
        "model-20260301": (Price("model-20260301", NEW_YEAR, (PriceBand(9.0, 9.0),)),),
    },
)


@pytest.mark.parametrize(
    ("model", "at", "dollars"),
    [
        ("model", datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC), 1.0),
        ("model", MARCH, 2.0),
        ("model", datetime(2026, 12, 1, tzinfo=UTC), 2.0),
        ("model", datetime(2025, 12, 31, tzinfo=UTC), None),
        ("model-20260105", MARCH, 2.0),
        ("model-20260301", MARCH, 9.0),
        ("model-latest", MARCH, None),
        ("model-2026", MARCH, None),
        ("other", MARCH, None),
        (None, MARCH, None),
    ],
)
def test_the_price_in_force(model: str | None, at: datetime, dollars: float | None) -> None:
    """From its first day on, whatever the order of the table; a dated id is its name's."""
    price = price_of(TABLE, model, at)
    assert (price.bands[0].input_usd if price else None) == dollars


def responses(*models: str | None) -> list[Round]:
    """A million input tokens of each model."""
    return [Round(usage=Usage(1_000_000, 0, 0, 0, 0, 0), served_model=model) for model in models]


def test_a_trial_has_the_prices_of_its_beginning() -> None:
    """A price that changes while it runs changes nothing about it."""
    before = datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    rounds = responses("model", "model")
    assert rounds_cost_usd(rounds, TABLE, "model", before) == pytest.approx(2.0)
    assert rounds_cost_usd(rounds, TABLE, "model", MARCH) == pytest.approx(4.0)


def test_the_served_model_is_paid_for() -> None:
    """The requested one only where nobody said; a fallback without a price is unpriced."""
    served = responses("model-20260301", None)
    assert rounds_cost_usd(served, TABLE, "model", MARCH) == pytest.approx(11.0)
    assert rounds_cost_usd(responses("stranger"), TABLE, "model", MARCH) is None
    assert rounds_cost_usd(responses("model", "stranger"), TABLE, None, MARCH) is None
    assert rounds_cost_usd([], TABLE, None, MARCH) == 0.0
