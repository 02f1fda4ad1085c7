from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import replace

import pytest

from tests.servers.slack_replies import hang
from tests.servers.slack_server import TOKEN, SlackServer
from tests.unit.notifiers.example_verdicts import THREAD, find_files_night, incident
from tests.unit.notifiers.hostile import HOSTILE
from tests.unit.notifiers.slack_parts import OWNER, PAGE, POST, notifier_for
from watchkeeper.domain.ports import Message, Receipt, Section
from watchkeeper.errors import NotifierFault
from watchkeeper.notifiers.blocks import blocks_of
from watchkeeper.notifiers.message import update_message


async def test_a_page_is_posted_and_its_receipt_says_where(slack: SlackServer) -> None:
    """The blocks, the fallback text, the key and the switches arrive as they were meant."""
    receipt = await notifier_for(slack).send(PAGE, OWNER)
    (message,) = slack.messages["C0123"]
    assert receipt == Receipt("C0123", message["ts"])
    assert message["blocks"] == blocks_of(PAGE, OWNER)
    assert message["text"].startswith("<@U77> demo-agent got worse on discovery: find_files 2 → 8")
    assert message["metadata"] == {
        "event_type": "watchkeeper_message",
        "event_payload": {"key": PAGE.key, "severity": "page"},
    }
    (call,) = slack.calls_of(POST)
    assert call.token == TOKEN
    assert "token" not in call.body
    for switch in ("mrkdwn", "link_names", "unfurl_links", "unfurl_media"):
        assert call.body[switch] is False
    assert call.body["parse"] == "none"


async def test_the_same_message_always_carries_the_same_id(slack: SlackServer) -> None:
    """A retry can be told from a second message by whoever looks at the metadata."""
    notifier = notifier_for(slack)
    await notifier.send(PAGE, OWNER)
    await notifier.send(PAGE, OWNER)
    await notifier.send(replace(PAGE, key="another"), OWNER)
    ids = [call.body["client_msg_id"] for call in slack.calls_of(POST)]
    assert ids[0] == ids[1] != ids[2]


async def test_notes_join_the_thread_of_the_page(slack: SlackServer) -> None:
    """One incident, one thread."""
    notifier = notifier_for(slack)
    opened = await notifier.send(PAGE, OWNER)
    note = update_message(find_files_night(), incident(night_count=2, thread=opened))
    await notifier.send(note, replace(OWNER, slack_channel="C9999"))
    assert len(slack.thread("C0123", opened.message_id)) == 2


@pytest.mark.parametrize("thread", [Receipt("console", PAGE.key), Receipt("C0123", "odd"), None])
async def test_a_receipt_that_is_not_slacks_starts_a_new_message(
    slack: SlackServer, thread: Receipt | None
) -> None:
    """An incident that was first shown on a console can go on in Slack."""
    await notifier_for(slack).send(replace(PAGE, thread=thread), OWNER)
    assert "thread_ts" not in slack.calls_of(POST)[0].body


async def test_a_lost_thread_loses_no_message(slack: SlackServer) -> None:
    """Where the page was deleted, the note is posted on its own."""
    receipt = await notifier_for(slack).send(replace(PAGE, thread=THREAD), OWNER)
    assert receipt.message_id == slack.messages["C0123"][0]["ts"]
    assert [call.ok for call in slack.calls_of(POST)] == [False, True]


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_arrives_as_text(slack: SlackServer, text: str) -> None:
    """Slack takes the message, and the only mention in it is the owner's."""
    message = Message("k", "page", text, text, (Section(text, (text, text)),), (text,))
    await notifier_for(slack).send(message, OWNER)
    (sent,) = slack.messages["C0123"]
    assert "<!channel>" not in sent["text"]
    assert sent["text"].count("<") == 1
    assert "\x1b" not in str(sent["blocks"])


async def test_messages_at_once_do_not_mix(slack: SlackServer) -> None:
    """Two owners are told in parallel, each with a thread of its own."""
    notifier = notifier_for(slack)
    pages = [replace(PAGE, key=f"key-{index}") for index in range(10)]
    receipts = await asyncio.gather(*(notifier.send(page, OWNER) for page in pages))
    assert len({receipt.message_id for receipt in receipts}) == 10
    keys = [message["metadata"]["event_payload"]["key"] for message in slack.messages["C0123"]]
    assert sorted(keys) == sorted(page.key for page in pages)


def test_a_slack_that_never_answers_does_not_hold_up_the_end(slack: SlackServer) -> None:
    """The loop closes at once though the call is still open, and nothing is raised later."""
    slack.fail_always(POST, hang(2))
    started = time.monotonic()

    async def give_up() -> None:
        with pytest.raises(NotifierFault):
            await notifier_for(slack, deadline_s=0.1).send(PAGE, OWNER)

    asyncio.run(give_up())
    assert time.monotonic() - started < 1
    time.sleep(1.2)
    gc.collect()
