"""Dollars from tokens, by a dated table. A model without a price is unpriced, never free."""

from __future__ import annotations

from datetime import datetime

from watchkeeper.domain.endpoint import Price, PriceBand, PriceTable
from watchkeeper.domain.trajectory import Usage

_MILLION = 1_000_000


def price_of(table: PriceTable, model: str | None, at: datetime) -> Price | None:
    """The price in force for ``model`` at a time, or ``None``: it is unpriced.

    A dated model id (``name-20260301``) that the table does not list is priced as its undated
    name, the way providers publish it.
    """
    if model is None:
        return None
    prices = table.prices.get(model)
    if prices is None:
        name, _, suffix = model.rpartition("-")
        if not (suffix.isdigit() and len(suffix) == 8):
            return None
        prices = table.prices.get(name, ())
    valid = [price for price in prices if price.valid_from <= at]
    return max(valid, key=lambda price: price.valid_from, default=None)


def cost_usd(usage: Usage, price: Price | None) -> float | None:
    """What these tokens cost, in dollars.

    Returns:
        ``None`` where the model is unpriced or the provider did not count input or output.
    """
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
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
    return (weighted_input * band.input_usd + usage.output_tokens * band.output_usd) / _MILLION


def _band(price: Price, prompt_tokens: int) -> PriceBand:
    for band in price.bands:
        if band.up_to_input_tokens is None or prompt_tokens <= band.up_to_input_tokens:
            return band
    return price.bands[-1]
