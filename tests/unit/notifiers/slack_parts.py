"""What the tests of the Slack notifier share."""

from __future__ import annotations

import pytest

from tests.servers.loopback import LoopbackServer, Reply, Request
from tests.servers.slack_server import TOKEN, SlackServer
from tests.unit.notifiers.example_verdicts import find_files_night, incident
from watchkeeper.domain.ports import Message, Recipient
from watchkeeper.errors import NotifierFault
from watchkeeper.notifiers.message import page_message
from watchkeeper.notifiers.slack import SlackNotifier

OWNER = Recipient("tools-team", slack_channel="C0123", mention="<@U77>")
PAGE = page_message(find_files_night(), incident())
POST = "chat.postMessage"


class Portal(LoopbackServer):
    """Something else than Slack, which answers everything alike."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._reply = reply

    def answer(self, request: Request) -> Reply:
        """The same reply to everything."""
        return self._reply


def notifier_for(slack: SlackServer, token: str = TOKEN, **given: float) -> SlackNotifier:
    """A notifier that is quick to give up."""
    return SlackNotifier(
        token,
        base_url=slack.base_url,
        timeout_s=1,
        backoff_s=0.01,
        **given,  # type: ignore[arg-type]
    )


async def fault_of(notifier: SlackNotifier, message: Message = PAGE) -> NotifierFault:
    """What sending raises."""
    with pytest.raises(NotifierFault) as caught:
        await notifier.send(message, OWNER)
    return caught.value
