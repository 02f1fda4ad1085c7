"""A Slack on loopback for these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.slack_server import SlackServer, slack_server


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    """A Slack on loopback that no proxy of this machine stands before."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with slack_server() as server:
        yield server
