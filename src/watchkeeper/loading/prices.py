"""config/prices.yaml → dated prices."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path

from watchkeeper.domain.endpoint import Price, PriceBand, PriceTable
from watchkeeper.domain.identity import content_hash
from watchkeeper.errors import Fault
from watchkeeper.loading.models import PricesModel
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import read_mapping

PRICES_FILE = "config/prices.yaml"


def load_prices(root: Path, faults: list[Fault]) -> PriceTable:
    """The price table of a project, empty without the file; faults are appended."""
    if not (root / PRICES_FILE).exists():
        return PriceTable(content_hash({}), {})
    document = read_mapping(root / PRICES_FILE, PRICES_FILE, faults)
    if document is None:
        return PriceTable("", {})
    model = validated(PricesModel, document, (), document.value, faults)
    if model is None:
        return PriceTable("", {})
    prices: dict[str, tuple[Price, ...]] = {}
    for name, rows in model.models.items():
        if not rows:
            faults.append(document.fault(("models", name), f"{name}: expected at least one price"))
        parsed: list[Price] = []
        for index, row in enumerate(rows):
            path = ("models", name, index)
            try:
                valid_from = datetime.fromisoformat(row.valid_from).replace(tzinfo=UTC)
            except ValueError:
                faults.append(
                    document.fault(
                        (*path, "valid_from"), f"valid_from: '{row.valid_from}' is no date"
                    )
                )
                continue
            is_flat = row.input is not None and row.output is not None
            is_banded = row.bands is not None and row.input is None and row.output is None
            if not (is_flat and row.bands is None) and not is_banded:
                faults.append(
                    document.fault(path, "expected either input and output, or bands; not both")
                )
                continue
            if any(price.valid_from == valid_from for price in parsed):
                faults.append(
                    document.fault(path, f"{name} has two prices from {row.valid_from} on")
                )
                continue
            bands = (
                tuple(
                    PriceBand(band.input, band.output, band.up_to_input_tokens)
                    for band in row.bands
                )
                if row.bands
                else (PriceBand(row.input or 0.0, row.output or 0.0),)
            )
            limits = [band.up_to_input_tokens for band in bands]
            if any(limit is None for limit in limits[:-1]) or limits[-1] is not None:
                faults.append(
                    document.fault(
                        path, "every band but the last needs up_to_input_tokens, the last none"
                    )
                )
            known = [limit for limit in limits if limit is not None]
            if any(later <= earlier for earlier, later in itertools.pairwise(known)):
                faults.append(
                    document.fault(
                        (*path, "bands"), f"bands: found up to {known}; expected rising limits"
                    )
                )
            parsed.append(
                Price(
                    model=name,
                    valid_from=valid_from,
                    bands=bands,
                    cache_write_5m_factor=row.cache_write_5m_factor,
                    cache_write_1h_factor=row.cache_write_1h_factor,
                    cache_read_factor=row.cache_read_factor,
                    batch_discount=row.batch_discount,
                )
            )
        prices[name] = tuple(parsed)
    return PriceTable(content_hash(model.model_dump(mode="json")["models"]), prices)
