"""Dollars from tokens, by a dated table. A model without a price is unpriced, never free."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from watchkeeper.domain.endpoint import Price, PriceBand, PriceTable
from watchkeeper.domain.trajectory import Round, Usage

_MILLION = 1_000_000
_DATE = re.compile(r"-[0-9]{4}-?[0-9]{2}-?[0-9]{2}$")


def price_of(table: PriceTable, model: str | None, at: datetime) -> Price | None:
    """The price in force for ``model`` at a time, or ``None``: it is unpriced.

    A dated model id (``name-20260301`` or ``name-2026-03-01``) that the table does not list is
    priced as its undated name, the way providers publish it.
    """
    if model is None:
        return None
    prices = table.prices.get(model)
    if prices is None:
        prices = table.prices.get(_undated(model), ())
    valid = [price for price in prices if price.valid_from <= at]
    return max(valid, key=lambda price: price.valid_from, default=None)


def cost_usd(usage: Usage, price: Price | None, *, is_batch: bool = False) -> float | None:
    """What these tokens cost, in dollars.

    The band is that of the whole prompt, cached tokens included, and holds for all its tokens. A
    cache class that the provider does not report is taken for unused; thinking is part of output.

    Args:
        usage: The tokens of one response.
        price: The price in force; ``None`` where the model is unpriced.
        is_batch: Whether the response came through the provider's batch interface.

    Returns:
        ``None`` where the model, or its batch interface, is unpriced or the provider did not
        count input or output.
    """
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    discount = price.batch_discount if is_batch else 0.0
    if discount is None:
        return None
    write_5m, write_1h, read = (
        count or 0
        for count in (
            usage.cache_write_5m_tokens,
            usage.cache_write_1h_tokens,
            usage.cache_read_tokens,
        )
    )
    band = _band(price, usage.input_tokens + write_5m + write_1h + read)
    weighted_input = (
        usage.input_tokens
        + write_5m * price.cache_write_5m_factor
        + write_1h * price.cache_write_1h_factor
        + read * price.cache_read_factor
    )
    dollars = (weighted_input * band.input_usd + usage.output_tokens * band.output_usd) / _MILLION
    return dollars * (1 - discount)


def rounds_cost_usd(
    rounds: Iterable[Round],
    table: PriceTable,
    requested_model: str | None,
    started_at: datetime,
    *,
    is_batch: bool = False,
) -> float | None:
    """What some rounds of one trial cost, in dollars; ``None`` where one of them is unpriced.

    Each round has the price of the model that served it, as it stood when the trial began; of the
    requested one where nobody said which model served. A served model without a price, such as a
    fallback, is not taken for the requested one.
    """
    total = 0.0
    for one in rounds:
        price = price_of(table, one.served_model or requested_model, started_at)
        cost = cost_usd(one.usage, price, is_batch=is_batch)
        if cost is None:
            return None
        total += cost
    return total


def _undated(model: str) -> str:
    return _DATE.sub("", model)


def _band(price: Price, prompt_tokens: int) -> PriceBand:
    for band in price.bands:
        if band.up_to_input_tokens is None or prompt_tokens <= band.up_to_input_tokens:
            return band
    return price.bands[-1]
