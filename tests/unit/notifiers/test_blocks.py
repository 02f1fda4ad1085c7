from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.slack_replies import faults_of
from tests.unit.notifiers.example_verdicts import THREAD
from tests.unit.notifiers.hostile import HOSTILE, any_text
from tests.unit.notifiers.snapshot import assert_json
from tests.unit.notifiers.test_message import MESSAGES
from watchkeeper.domain.ports import Message, Recipient, Section
from watchkeeper.notifiers.blocks import (
    HEADER_LIMIT,
    MOST_BLOCKS,
    SECTION_LIMIT,
    TOTAL_LIMIT,
    Block,
    blocks_of,
    fallback_text,
    is_mention,
)
from watchkeeper.notifiers.text import one_line, utf16_length

OWNER = Recipient("tools-team", slack_channel="C0123", mention="<@U77>")


def _elements(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from _elements(one)
    elif isinstance(value, list):
        for one in value:
            yield from _elements(one)


def _texts(blocks: Sequence[Block]) -> list[str]:
    return [str(one["text"]) for one in _elements(list(blocks)) if isinstance(one.get("text"), str)]


def _check_limits(message: Message, recipient: Recipient) -> list[Block]:
    blocks = blocks_of(message, recipient)
    assert 1 <= len(blocks) <= MOST_BLOCKS
    assert len(json.dumps(blocks, ensure_ascii=False).encode()) <= TOTAL_LIMIT
    for block in blocks:
        texts = _texts([block])
        assert all(texts), "Slack refuses an empty text"
        limit = HEADER_LIMIT if block["type"] == "header" else SECTION_LIMIT
        assert sum(utf16_length(text) for text in texts) <= limit
    assert faults_of({"text": fallback_text(message, recipient), "blocks": blocks}) is None
    return blocks


@pytest.mark.parametrize("name", MESSAGES)
def test_blocks_are_exactly_these(name: str) -> None:
    """What Slack is sent for every kind of message is pinned."""
    assert_json(f"blocks_{name}.json", _check_limits(MESSAGES[name], OWNER))


def test_the_first_line_of_the_page_is_all_that_a_phone_must_show() -> None:
    """Header and notification name the endpoint, what moved, and by how much."""
    page = MESSAGES["page_find_files"]
    first = blocks_of(page, OWNER)[0]
    said = (
        "demo-agent got worse on discovery: find_files 2 → 8 calls per trial, rounds 3.1× (2.7–3.5)"
    )
    assert first["text"] == {"type": "plain_text", "text": said, "emoji": False}
    assert fallback_text(page, OWNER) == f"<@U77> {said}"


messages = st.builds(
    Message,
    key=any_text,
    severity=st.sampled_from(["page", "critical", "note", "broken"]),
    owner=any_text,
    title=any_text,
    sections=st.lists(
        st.builds(
            Section,
            heading=any_text,
            lines=st.lists(any_text, max_size=12).map(tuple),
            is_verbatim=st.booleans(),
        ),
        max_size=8,
    ).map(tuple),
    actions=st.lists(any_text, max_size=6).map(tuple),
    thread=st.sampled_from([None, THREAD]),
)
recipients = st.builds(
    Recipient, owner=any_text, slack_channel=st.just("C0123"), mention=st.none() | any_text
)


@given(messages, recipients)
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_a_limit_of_slack(message: Message, recipient: Recipient) -> None:
    """Whatever a model said, Slack takes the message: it is shortened, and nothing raises."""
    _check_limits(message, recipient)


@given(messages, recipients)
@settings(max_examples=100, deadline=None)
def test_untrusted_text_is_never_markup(message: Message, recipient: Recipient) -> None:
    """The one ``mrkdwn`` text is a checked mention, and the fallback holds no other control."""
    blocks = blocks_of(message, recipient)
    for element in _elements(list(blocks)):
        if element.get("type") == "mrkdwn":
            assert is_mention(str(element["text"]))
        assert element.get("type") not in {"user", "usergroup", "broadcast", "link", "channel"}
    text = fallback_text(message, recipient)
    mention = recipient.mention or ""
    rest = text.removeprefix(mention) if is_mention(mention) else text
    assert not set("<>") & set(rest)
    assert utf16_length(text) <= 500
    joined = "".join(_texts(blocks)) + text
    assert not any(ord(char) < 32 and char != "\n" for char in joined)
    joined.encode()


@pytest.mark.parametrize("count", [0, 1, 49, 50, 500])
def test_too_many_sections_are_counted_and_not_lost(count: int) -> None:
    """Slack takes 50 blocks; the message says how many sections and lines it leaves out."""
    sections = tuple(Section(f"part {index}", ("a line",)) for index in range(count))
    blocks = _check_limits(Message("k", "page", "o", "t", sections, ("one",)), OWNER)
    shown = sum("part " in text for text in _texts(blocks))
    left_out = count - shown
    said = [text for text in _texts(blocks) if "left out" in text]
    if left_out:
        plural = "" if left_out == 1 else "s"
        assert said[0].startswith(f"… {left_out} more section{plural} with {left_out} line")
    else:
        assert not said


@pytest.mark.parametrize("is_verbatim", [True, False])
def test_too_many_lines_are_counted_and_not_lost(is_verbatim: bool) -> None:
    """A section that is too long says how many lines are missing."""
    lines = tuple(f"line {index:05d} " + "x" * 50 for index in range(3_000))
    section = Section("many", lines, is_verbatim=is_verbatim)
    blocks = _check_limits(Message("k", "page", "o", "t", (section,)), OWNER)
    text = "\n".join(_texts(blocks))
    shown = text.count("line 0")
    assert f"… {3_000 - shown:,} more lines left out" in text
    assert shown > 20


def test_a_long_title_is_whole_below_the_header() -> None:
    """Slack's header holds 150 characters; the rest of the title is not lost."""
    title = "support-agent " + "got worse " * 30
    blocks = _check_limits(Message("k", "page", "o", title, ()), OWNER)
    texts = _texts(blocks)
    assert "characters)" in texts[0]
    assert one_line(title) in texts


@pytest.mark.parametrize(
    ("mention", "good"),
    [
        ("<@U77>", True),
        ("<@W012ABC>", True),
        ("<!subteam^S0614TZR7>", True),
        ("<!channel>", False),
        ("<!here>", False),
        ("<!everyone>", False),
        ("<@U77> <!channel>", False),
        ("<@U77|name>", False),
        ("@tools", False),
        ("<@u77>", False),
        ("<https://evil.example|x>", False),
        ("<@U77>\n", False),
        ("", False),
    ],
)
def test_only_one_person_or_one_group_can_be_mentioned(mention: str, good: bool) -> None:
    """A mention that is anything else is shown as text, and the page says that it pings nobody."""
    assert is_mention(mention) is good
    recipient = Recipient("o", slack_channel="C0123", mention=mention)
    blocks = blocks_of(MESSAGES["page_find_files"], recipient)
    markup = [one["text"] for one in _elements(list(blocks)) if one.get("type") == "mrkdwn"]
    assert markup == ([mention] if good else [])
    assert any("nobody is mentioned" in text for text in _texts(blocks)) is not good


def test_notes_mention_nobody() -> None:
    """Repeats and recoveries update the thread without waking anyone."""
    for name in ("update_worse", "update_quiet", "recovered"):
        assert "<@U77>" not in json.dumps(blocks_of(MESSAGES[name], OWNER))
        assert "<@U77>" not in fallback_text(MESSAGES[name], OWNER)


@pytest.mark.parametrize("text", HOSTILE)
def test_verbatim_text_is_preformatted(text: str) -> None:
    """What a model or a tool said goes where Slack interprets nothing."""
    message = Message("k", "page", "o", "t", (Section("said", (text,), is_verbatim=True),))
    blocks = _check_limits(message, OWNER)
    parts = [one for one in _elements(list(blocks)) if one.get("type") == "rich_text_preformatted"]
    assert len(parts) == 1
