"""config/prices.yaml: what is read of it, and what is told with file:line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchkeeper.domain.endpoint import Price, PriceBand
from watchkeeper.errors import Fault
from watchkeeper.loading.prices import PRICES_FILE, load_prices

HEAD = 'source: "a test"\nmodels:\n  model-v1:\n'


def loaded(root: Path, rows: str) -> tuple[tuple[Price, ...], list[str]]:
    """The prices of one model, and what is told."""
    (root / "config").mkdir()
    (root / PRICES_FILE).write_text(HEAD + rows)
    faults: list[Fault] = []
    table = load_prices(root, faults)
    return table.prices.get("model-v1", ()), [str(fault) for fault in faults]


def test_every_key_of_a_price(tmp_path: Path) -> None:
    """Bands, factors of the cache, and the discount of the batch interface."""
    rows = (
        '    - valid_from: "2026-03-01"\n'
        "      bands: [{input: 3, output: 15, up_to_input_tokens: 200000}, {input: 6, output: 9}]\n"
        "      cache_write_5m_factor: 1.5\n"
        "      cache_write_1h_factor: 3\n"
        "      cache_read_factor: 0.2\n"
        "      batch_discount: 0.5\n"
        '    - {valid_from: "2026-01-01", input: 1, output: 2}\n'
    )
    prices, told = loaded(tmp_path, rows)
    assert told == []
    march, january = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 1))
    bands = (PriceBand(3, 15, 200_000), PriceBand(6, 9))
    assert prices == (
        Price("model-v1", march, bands, 1.5, 3.0, 0.2, 0.5),
        Price("model-v1", january, (PriceBand(1, 2),), 1.25, 2.0, 0.1, None),
    )


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            '    - {valid_from: "2026-01-01", input: 1, output: 2}\n'
            '    - {valid_from: "2026-02-01", input: 1, output: 2}\n'
            '    - {valid_from: "2026-01-01", input: 9, output: 9}\n',
            "config/prices.yaml:6: model-v1 has two prices from 2026-01-01 on",
        ),
        (
            '    - {valid_from: "2026-01-01", input: 1, output: 2, batch_discount: 50}\n',
            "config/prices.yaml:4: models.model-v1.0.batch_discount: found 50; expected at most 1",
        ),
        (
            '    - {valid_from: "2026-02-30", input: 1, output: 2}\n',
            "config/prices.yaml:4: valid_from: '2026-02-30' is no date",
        ),
    ],
)
def test_a_price_that_cannot_be_is_told(rows: str, says: str, tmp_path: Path) -> None:
    """At its line; two prices of one day overlap, whatever stands between them."""
    _, told = loaded(tmp_path, rows)
    assert len(told) == 1
    assert told[0].startswith(says), told
