"""A Prefect server with a home folder of its own, started once and used by all these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.prefect_view import Prefect, own_prefect
from watchkeeper.flows.server import prefect_server


@pytest.fixture(scope="session")
def api_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that the code under test takes for a configured one."""
    with own_prefect(tmp_path_factory.mktemp("prefect")), prefect_server() as address:
        yield address


@pytest.fixture(scope="session")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder for tests that start their own server.

    Its database has its tables already, which takes a new one many seconds.
    """
    home = tmp_path_factory.mktemp("own-prefect")
    with own_prefect(home), prefect_server():
        pass
    return home


@pytest.fixture
def prefect(api_url: str) -> Prefect:
    """Prefect's own view of what happened."""
    return Prefect(api_url)
