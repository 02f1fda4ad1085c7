from __future__ import annotations

import logging
import time

import pytest

from tests.servers.loopback import Reply
from tests.servers.slack_replies import dropped, hang, rate_limited, refused, server_error
from tests.servers.slack_server import TOKEN, SlackServer
from tests.unit.notifiers.slack_parts import OWNER, PAGE, POST, Portal, fault_of, notifier_for
from watchkeeper.domain.ports import Recipient
from watchkeeper.errors import NotifierFault, UsageError
from watchkeeper.notifiers.slack import SlackNotifier


@pytest.mark.parametrize(
    ("code", "is_transient"),
    [
        ("invalid_auth", False),
        ("token_revoked", False),
        ("account_inactive", False),
        ("channel_not_found", False),
        ("not_in_channel", False),
        ("missing_scope", False),
        ("invalid_blocks", False),
        ("internal_error", True),
        ("service_unavailable", True),
        ("ratelimited", True),
    ],
)
async def test_slacks_own_code_is_the_kind_of_the_fault(
    slack: SlackServer, code: str, is_transient: bool
) -> None:
    """What a person has to repair is told apart from what passes by itself."""
    slack.fail(POST, refused(code))
    fault = await fault_of(notifier_for(slack))
    assert fault.kind == ("rate_limited" if code == "ratelimited" else code)
    assert fault.is_transient is is_transient
    assert "C0123" in str(fault)
    assert fault.kind in str(fault)
    assert len(slack.calls_of(POST)) == 1


async def test_a_wrong_token_is_told_with_what_to_do(slack: SlackServer) -> None:
    """The owner of the platform reads where the token comes from, and not the token."""
    fault = await fault_of(notifier_for(slack, token="xoxb-9-wrong-and-secret"))
    assert fault.kind == "invalid_auth"
    assert "slack.token of watchkeeper.yaml" in str(fault)
    assert "xoxb-9" not in str(fault)


async def test_429_is_waited_out(slack: SlackServer) -> None:
    """Slack names the wait, and the message is delivered once."""
    slack.fail(POST, rate_limited(0), rate_limited(1))
    started = time.monotonic()
    await notifier_for(slack).send(PAGE, OWNER)
    assert time.monotonic() - started >= 1
    assert len(slack.messages["C0123"]) == 1


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (rate_limited(0), 3),
        (rate_limited(3600), 1),
        (Reply(status=429), 3),
        (Reply(status=429, headers={"retry-after": "soon"}), 3),
        (Reply(status=429, headers={"retry-after": "0.01"}), 3),
        (Reply(status=429, headers={"retry-after": "nan"}), 3),
        (Reply(status=429, headers={"retry-after": "-5"}), 3),
    ],
)
async def test_429_for_ever_ends_within_bounds(
    slack: SlackServer, reply: Reply, calls: int
) -> None:
    """Neither an hour's wait nor an unreadable one holds up the night."""
    slack.fail_always(POST, reply)
    started = time.monotonic()
    fault = await fault_of(notifier_for(slack))
    assert (fault.kind, fault.is_transient) == ("rate_limited", True)
    assert len(slack.calls_of(POST)) == calls
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("status", [500, 503])
async def test_a_server_error_is_tried_again(slack: SlackServer, status: int) -> None:
    """A short fault at Slack costs nothing; a long one leaves the message in the outbox."""
    slack.fail(POST, server_error(status))
    await notifier_for(slack).send(PAGE, OWNER)
    slack.fail_always(POST, server_error(status))
    fault = await fault_of(notifier_for(slack))
    assert (fault.kind, fault.is_transient) == ("bad_response", True)
    assert f"HTTP {status}" in str(fault)
    assert len(slack.calls_of(POST)) == 5


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"<html>sign in to the hotel wifi</html>"),
        Reply(body=b"{not json"),
        Reply(body=b"[1]", headers={"content-type": "application/json"}),
        Reply(body=b""),
        Reply(body=b"\xff\xfe{", headers={"content-type": "text/plain; charset=utf-8"}),
        Reply(body=b"ok", headers={"content-type": "text/plain; charset=klingon"}),
        Reply.json({"ok": True}),
        Reply.json({"ok": True, "channel": 7, "ts": None}),
        Reply.json({"ok": False}),
        Reply.json({"ok": False, "error": {"odd": 1}}),
        Reply.json({"ok": False, "error": f"no entry with {TOKEN}"}),
        Reply(status=404, body=b"nothing here"),
    ],
)
async def test_an_answer_that_is_not_slacks_is_a_bad_response(reply: Reply) -> None:
    """A portal, a broken proxy or junk is one kind of fault, and its text is not repeated."""
    with Portal(reply).running() as portal:
        notifier = SlackNotifier(TOKEN, base_url=f"{portal.url}/api/", timeout_s=1, backoff_s=0.01)
        fault = await fault_of(notifier)
    assert fault.kind == "bad_response"
    assert TOKEN not in str(fault)


async def test_silence_ends_after_the_timeout(slack: SlackServer) -> None:
    """A hung Slack is unreachable; the message is not sent a second time blindly."""
    slack.fail_always(POST, hang(30))
    started = time.monotonic()
    fault = await fault_of(notifier_for(slack))
    assert (fault.kind, fault.is_transient) == ("unreachable", True)
    assert time.monotonic() - started < 4
    assert len(slack.calls_of(POST)) == 1


async def test_the_deadline_holds_for_everything_together(slack: SlackServer) -> None:
    """Many short waits cannot add up to a night."""
    slack.fail_always(POST, rate_limited(2))
    started = time.monotonic()
    fault = await fault_of(notifier_for(slack, deadline_s=0.3))
    assert fault.kind == "unreachable"
    assert "no answer within 0.3 s" in str(fault)
    assert time.monotonic() - started < 1.5


async def test_a_dropped_connection_is_tried_again(slack: SlackServer) -> None:
    """One lost connection costs nothing; lost ones for ever are told."""
    slack.fail(POST, dropped())
    await notifier_for(slack).send(PAGE, OWNER)
    slack.fail_always(POST, dropped())
    fault = await fault_of(notifier_for(slack))
    assert (fault.kind, fault.is_transient) == ("unreachable", True)
    assert len(slack.calls_of(POST)) == 5


async def test_a_lost_answer_may_send_twice_but_under_one_key(slack: SlackServer) -> None:
    """Delivery is at least once: Slack dedupes nothing for bots, so the key tells them apart."""
    slack.lose_answers(POST)
    await notifier_for(slack).send(PAGE, OWNER)
    sent = slack.messages["C0123"]
    assert len(sent) == 2
    assert sent[0]["metadata"] == sent[1]["metadata"]


async def test_nobody_listening_is_unreachable() -> None:
    """A wrong address is told as such."""
    notifier = SlackNotifier(TOKEN, base_url="http://127.0.0.1:9/api/", timeout_s=1, backoff_s=0.01)
    fault = await fault_of(notifier)
    assert (fault.kind, fault.is_transient) == ("unreachable", True)
    assert "refused" in str(fault).lower()


async def test_an_owner_without_a_channel_is_told_so(slack: SlackServer) -> None:
    """The message stays in the outbox and somebody reads which owner lacks what."""
    with pytest.raises(NotifierFault, match="support has no slack_channel") as caught:
        await notifier_for(slack).send(PAGE, Recipient("support"))
    assert caught.value.kind == "no_channel"
    assert not caught.value.is_transient


@pytest.mark.parametrize(
    "reply",
    [
        refused("token_revoked"),
        server_error(),
        dropped(),
        rate_limited(0),
        Reply.json({"ok": False, "error": TOKEN}),
        Reply.json({"ok": False, "error": [TOKEN]}),
    ],
)
async def test_the_token_is_nowhere(
    slack: SlackServer, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the exception, not in what it hangs on, not in a log at any level."""
    caplog.set_level(logging.DEBUG)
    slack.fail_always(POST, reply)
    notifier = notifier_for(slack)
    fault = await fault_of(notifier)
    assert fault.__cause__ is None
    assert fault.__context__ is None
    assert TOKEN not in f"{fault!r} {fault.__dict__} {notifier!r} {caplog.text}"


@pytest.mark.parametrize("token", ["", "  ", "xoxb-1\nsecret", "xoxb 1", "xoxb-ü"])
def test_a_malformed_token_is_refused_without_being_shown(token: str) -> None:
    """An HTTP library would put it into its error message; ours is found before the first call."""
    with pytest.raises(UsageError) as caught:
        SlackNotifier(token)
    assert "slack.token" in str(caught.value)
    assert not token.strip() or token.strip() not in str(caught.value)


@pytest.mark.parametrize("url", ["http://slack.example/api/", "ftp://slack.com/", "slack.com"])
def test_the_token_is_not_sent_in_the_clear(url: str) -> None:
    """Plain http is for tests on this machine only."""
    with pytest.raises(UsageError, match="not https"):
        SlackNotifier(TOKEN, base_url=url)
