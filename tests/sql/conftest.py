"""A store with two nights in it, made once for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.nights import NO, finding_files, meant, nights
from tests.projects import Bench, bench, script, write_project


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Two nights of four cases and three trials each, one case always wrong."""
    folder: Path = write_project(
        tmp_path_factory.mktemp("stored"),
        scripts={"agent": script(meant(NO, "case-3"), finding_files(2))},
    )
    nights(folder, 1, 2)
    return bench(folder)
