"""Exact comparison with files in ``snapshots/``, written only when asked for.

WATCHKEEPER_UPDATE_SNAPSHOTS=1 pytest tests/unit/notifiers
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"
UPDATE_VARIABLE = "WATCHKEEPER_UPDATE_SNAPSHOTS"


def assert_text(name: str, shown: str) -> None:
    """Fails unless ``shown`` is byte for byte what ``snapshots/<name>`` holds."""
    path = FOLDER / name
    if os.environ.get(UPDATE_VARIABLE) == "1":
        path.write_text(shown, encoding="utf-8", newline="\n")
    assert path.exists(), f"{path} is missing; {UPDATE_VARIABLE}=1 writes it"
    assert shown == path.read_bytes().decode(), f"{name} differs; {UPDATE_VARIABLE}=1 accepts it"


def assert_json(name: str, value: object) -> None:
    """The same for a JSON value, indented so that a change can be read."""
    assert_text(name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
