"""Where the public files are, and a test's reason for having none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("WATCHKEEPER_PUBLIC_DATA", ROOT.parent / "shared/data"))
TAU_BENCH = FOLDER / "taubench/gpt-4o-airline-tasks-0-9.json.gz"
SWE_AGENT = FOLDER / "sweagent"
INSPECT = FOLDER / "inspect_logs"


def needs(path: Path) -> pytest.MarkDecorator:
    """Skips a test where the public data is not on this machine."""
    return pytest.mark.skipif(
        not path.exists(),
        reason=f"{path} is not here; WATCHKEEPER_PUBLIC_DATA names the folder of the public data",
    )
