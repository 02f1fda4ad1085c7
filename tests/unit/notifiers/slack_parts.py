Xfrom __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.servers.loopback import LoopbackServer, Reply, Request
from tests.servers.slack_replies import dropped, hang, rate_limited, refused, server_error
from tests.servers.slack_server import TOKEN, SlackServer, slack_server
from tests.unit.notifiers.example_verdicts import THREAD, find_files_night, incident
from tests.unit.notifiers.hostile import HOSTILE
from watchkeeper.domain.ports import Message, Receipt, Recipient, Section
from watchkeeper.errors import NotifierFault, UsageError
from watchkeeper.notifiers.blocks import blocks_of
from watchkeeper.notifiers.message import page_message, update_message
from watchkeeper.notifiers.slack import SlackNotifier

OWNER = Recipient("tools-team", slack_channel="C0123", mention="<@U77>")
PAGE = page_message(find_files_night(), incident())
POST = "chat.postMessage"


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    """A Slack on loopback that no proxy of this machine stands before."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with slack_server() as server:
        yield server


class _Portal(LoopbackServer):
    """Something else than Slack, which answers everything alike."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._reply = reply

    def answer(self, request: Request) -> Reply:
        return self._reply


def _notifier(slack: SlackServer, token: str = TOKEN, **given: float) -> SlackNotifier:
    return SlackNotifier(
        token,
        base_url=slack.base_url,
        timeout_s=1,
        backoff_s=0.01,
        **given,  # type: ignore[arg-type]
    )


async def _fault(notifier: SlackNotifier, message: Message = PAGE) -> NotifierFault:
    with pytest.raises(NotifierFault) as caught:
        await notifier.send(message, OWNER)
    return caught.value


