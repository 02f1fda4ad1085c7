"""Real suite files of other systems are refused with reasons, never with a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.loading.example import FILES, faults_of, write

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("WATCHKEEPER_PUBLIC_DATA", ROOT.parent / "shared/data")) / "suites"
FOUND = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.skipif(
    not FOUND, reason=f"no suite files in {FOLDER}; WATCHKEEPER_PUBLIC_DATA names the data's folder"
)
def test_foreign_suites_are_refused_with_reasons(tmp_path: Path) -> None:
    """Each file is told what a suite needs and which of its own keys none has."""
    foreign = {f"config/suites/{path.name}": path.read_text() for path in FOUND}
    faults = faults_of(write(tmp_path, {**FILES, **foreign}))
    for file in foreign:
        told = [one.message for one in faults if one.file == file]
        assert any(message.startswith("key 'suite' is missing") for message in told), told
        assert any(message.startswith("unknown key '") for message in told), told
    assert {one.file for one in faults} == set(foreign)
