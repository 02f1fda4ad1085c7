"""A Prefect server with a home folder of its own, started once and used by all these tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings
from watchkeeper.flows.server import prefect_server

from tests.flows.prefect_view import Prefect


@dataclass(frozen=True)
class PrefectHomes:
    """Home folders whose database has its tables already, which takes a new one ten seconds."""

    used: Path
    spare: Path


@pytest.fixture(scope="session")
def prefect_homes(tmp_path_factory: pytest.TempPathFactory) -> PrefectHomes:
    """Two home folders: one for the common server, one for a test that starts its own."""
    homes = PrefectHomes(tmp_path_factory.mktemp("prefect"), tmp_path_factory.mktemp("spare"))
    with temporary_settings({PREFECT_HOME: homes.used}, restore_defaults={PREFECT_API_URL}):
        with prefect_server():
            pass
    shutil.copytree(homes.used, homes.spare, dirs_exist_ok=True)
    return homes


@pytest.fixture(scope="session")
def api_url(prefect_homes: PrefectHomes) -> Iterator[str]:
    """The address of a server that the code under test takes for a configured one."""
    with temporary_settings({PREFECT_HOME: prefect_homes.used}, restore_defaults={PREFECT_API_URL}):
        with prefect_server() as address:
            yield address


@pytest.fixture
def prefect(api_url: str) -> Prefect:
    """Prefect's own view of what happened."""
    return Prefect(api_url)
