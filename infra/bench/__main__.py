"""Measures Watchkeeper and its peers side by side.

python -m infra.bench                      everything, at full size: about an hour
python -m infra.bench --small              the same in a few minutes, to see that it works
python -m infra.bench --only agents --peers promptfoo,watchkeeper
python -m infra.bench --json build/bench/result.json --markdown build/bench/result.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from infra.bench.ceiling import requests_per_second
from infra.bench.contestants import Contestant, SdkAlone
from infra.bench.endurance import endurance_table
from infra.bench.peers import NotInstalled, contestants
from infra.bench.processes import ROOT, model_server
from infra.bench.report import Report, as_markdown, as_text
from infra.bench.scenarios import (
    SMALL,
    Sizes,
    Table,
    agents_table,
    faults_table,
    latency_table,
    one_round_tables,
)

PARTS = ("latency", "one-round", "agents", "endurance", "faults")


def main() -> int:
    """Prints the tables."""
    given = _arguments()
    sizes = SMALL if given.small else Sizes()
    sizes = replace(sizes, times=given.times or sizes.times)
    load = os.getloadavg()[0]
    here, missing = _installed(given.peers)
    report = Report(
        at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        machine=_machine(),
        load_at_start=load,
        is_busy=load > 0.3 * (os.cpu_count() or 1),
        sizes=asdict(sizes),
        versions={one.name: one.versions() for one in here},
        missing=missing,
        model_per_s=_ceiling(given.only),
        tables=_tables(given.only, here, sizes),
    )
    if given.json:
        given.json.write_text(json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n")
    if given.markdown:
        given.markdown.write_text(as_markdown(report))
    print(as_text(report))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m infra.bench")
    parser.add_argument("--small", action="store_true", help="little of everything, once")
    parser.add_argument("--times", type=int, help="how often each command runs; 3 by default")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be repeated")
    parser.add_argument("--peers", help="names with commas between; everyone by default")
    parser.add_argument("--json", type=Path, help="where the results go as JSON")
    parser.add_argument("--markdown", type=Path, help="where the tables go as Markdown")
    given = parser.parse_args()
    given.only = given.only or list(PARTS)
    return given


def _installed(named: str | None) -> tuple[list[Contestant], dict[str, str]]:
    """Who can take part, and why the others cannot."""
    here: list[Contestant] = []
    missing: dict[str, str] = {}
    wanted = set(named.split(",")) if named else None
    for contestant in contestants(ROOT / "build" / "bench"):
        if wanted is not None and contestant.name not in wanted:
            continue
        try:
            contestant.install()
        except NotInstalled as error:
            missing[contestant.name] = str(error)
            continue
        here.append(contestant)
    return here, missing


def _tables(parts: Sequence[str], here: Sequence[Contestant], sizes: Sizes) -> list[Table]:
    yardstick = [SdkAlone(), *here]
    tables: list[Table] = []
    if "latency" in parts:
        tables.append(latency_table(yardstick, sizes, _tell))
    if "one-round" in parts:
        tables.extend(one_round_tables(yardstick, sizes, _tell))
    if "agents" in parts:
        tables.append(agents_table(yardstick, sizes, _tell))
    if "endurance" in parts:
        tables.append(endurance_table(sizes, _tell))
    if "faults" in parts:
        tables.append(faults_table(here, sizes, _tell))
    return tables


def _ceiling(parts: Sequence[str]) -> float | None:
    if set(parts) == {"endurance"}:
        return None
    with model_server(latency_s=0.0, rounds=1) as server:
        return requests_per_second(server.url, 20_000)


def _machine() -> dict[str, object]:
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
