"""A message as Slack blocks, within Slack's limits whatever the text.

Untrusted text goes only where Slack reads it literally (``plain_text`` and ``rich_text``), never
into ``mrkdwn``; the one ``mrkdwn`` block holds the mention, which comes from configuration and has
been checked. What does not fit is shortened, and the message says what was left out.
"""

from __future__ import annotations

import json
import re

from watchkeeper.domain.ports import Message, Recipient, Section
from watchkeeper.notifiers.text import harmless, one_line, shorten, utf16_length
from watchkeeper.notifiers.wording import count

Block = dict[str, object]

MOST_BLOCKS = 50
SECTION_LIMIT = 3_000
HEADER_LIMIT = 150
# Slack refuses a message as msg_blocks_too_long from about 11,300 characters of text on, which
# its documentation does not say (github.com/slackapi/bolt-js issues 2509 and 2867). Counted here
# in bytes of JSON, containers included, so that other alphabets stay below it too.
TOTAL_LIMIT = 10_000
FALLBACK_LIMIT = 400
_LINE_LIMIT = 1_000
_COMMANDS_LIMIT = 1_500
_LEAST_SECTION = 800
_MENTION = re.compile(r"<@[UW][A-Z0-9]{1,30}>|<!subteam\^S[A-Z0-9]{1,30}>")
_PINGING = frozenset({"page", "critical", "broken"})


def is_mention(text: str) -> bool:
    """Whether ``text`` is a mention of one person or one group, and nothing else."""
    return _MENTION.fullmatch(text) is not None


def blocks_of(message: Message, recipient: Recipient) -> list[Block]:
    """The blocks of a message: title, mention, sections, commands.

    Only pages and the like mention their owner; a note in a thread wakes nobody.
    """
    title = one_line(message.title) or "(no title)"
    head: list[Block] = [_header(shorten(title, HEADER_LIMIT, utf16_length))]
    head += _mention(message, recipient)
    if utf16_length(title) > HEADER_LIMIT:
        head.append(_rich_text([_plain(shorten(title, _LINE_LIMIT, _weight))]))
    tail = _commands(message.actions)
    body: list[Block] = []
    room = TOTAL_LIMIT - _size([*head, *tail]) - _LEAST_SECTION
    for index, section in enumerate(message.sections):
        is_full = len(head) + len(body) + len(tail) + 1 >= MOST_BLOCKS
        if is_full or room < _LEAST_SECTION:
            body.append(_left_out(message.sections[index:]))
            break
        block = _section(section, room)
        body.append(block)
        room -= _size([block])
    return [*head, *body, *tail]


def fallback_text(message: Message, recipient: Recipient) -> str:
    """The line that notifications and screen readers get, safe as Slack's own markup."""
    title = shorten(one_line(message.title) or "(no title)", FALLBACK_LIMIT, _escaped_length)
    mention = recipient.mention or ""
    pings = message.severity in _PINGING and is_mention(mention)
    return f"{mention} {_escape(title)}" if pings else _escape(title)


def _escape(text: str) -> str:
    """``text`` without anything that Slack reads as a link, a mention or a command."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped_length(text: str) -> int:
    return utf16_length(_escape(text))


def _mention(message: Message, recipient: Recipient) -> list[Block]:
    if message.severity not in _PINGING:
        return []
    owner = f"{message.severity} for {one_line(recipient.owner)}"
    block = _rich_text([_plain(shorten(owner, _LINE_LIMIT, _weight))])
    if recipient.mention is None:
        return [block]
    if is_mention(recipient.mention):
        text = {"type": "mrkdwn", "text": recipient.mention}
        return [{"type": "section", "text": text}, block]
    wrong = shorten(one_line(recipient.mention), 100)
    said = f"; nobody is mentioned: {wrong} is not like <@U123> or <!subteam^S123>"
    return [_rich_text([_plain(shorten(f"{owner}{said}", _LINE_LIMIT, _weight))])]


def _section(section: Section, room: int) -> Block:
    """A heading and as many of the lines as fit, the others counted.

    ``room`` is what is left of the whole message, in bytes of JSON.
    """
    heading = shorten(one_line(section.heading) or "(no heading)", 200, _weight)
    start = _rich_section([_text(heading, is_bold=True)])

    def fits(shown_count: int) -> bool:
        block = _with_lines(start, section, shown_count)
        return _text_length(block) <= SECTION_LIMIT and _size([block]) <= room

    low, high = 0, len(section.lines)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return _with_lines(start, section, low)


def _with_lines(start: Block, section: Section, shown_count: int) -> Block:
    clean = harmless if section.is_verbatim else one_line
    lines = [shorten(clean(line), _LINE_LIMIT, _weight) for line in section.lines[:shown_count]]
    left_out = len(section.lines) - shown_count
    if left_out:
        lines.append(f"… {count(left_out, 'more line')} left out")
    if not lines:
        return _rich_text([start])
    shown = _preformatted("\n".join(lines)) if section.is_verbatim else _bullets(lines)
    return _rich_text([start, shown])


def _commands(actions: tuple[str, ...]) -> list[Block]:
    """Commands as they can be copied; one that is too long to copy is shortened."""
    shown: list[str] = []
    for action in actions:
        line = shorten(one_line(action), _LINE_LIMIT, _weight) or " "
        if _weight("\n".join([*shown, line])) > _COMMANDS_LIMIT:
            break
        shown.append(line)
    left_out = len(actions) - len(shown)
    if left_out:
        shown.append(f"… {count(left_out, 'more command')} left out")
    return [_rich_text([_preformatted("\n".join(shown))])] if shown else []


def _left_out(sections: tuple[Section, ...]) -> Block:
    lines = sum(len(section.lines) for section in sections)
    said = f"{count(len(sections), 'more section')} with {count(lines, 'line')} left out"
    return _rich_text([_plain(f"… {said}; the first command shows everything")])


def _header(text: str) -> Block:
    return {"type": "header", "text": {"type": "plain_text", "text": text, "emoji": False}}


def _rich_text(elements: list[Block]) -> Block:
    return {"type": "rich_text", "elements": elements}


def _rich_section(elements: list[Block]) -> Block:
    return {"type": "rich_text_section", "elements": elements}


def _plain(text: str) -> Block:
    return _rich_section([_text(text)])


def _bullets(lines: list[str]) -> Block:
    return {"type": "rich_text_list", "style": "bullet", "elements": [_plain(one) for one in lines]}


def _preformatted(text: str) -> Block:
    return {"type": "rich_text_preformatted", "elements": [_text(text)]}


def _text(text: str, *, is_bold: bool = False) -> Block:
    element: Block = {"type": "text", "text": text or " "}  # Slack refuses an empty text
    if is_bold:
        element["style"] = {"bold": True}
    return element


def _weight(text: str) -> int:
    """Bytes that a text takes inside JSON; never less than its characters as Slack counts them."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def _size(blocks: list[Block]) -> int:
    """Bytes that the blocks take as JSON."""
    return len(json.dumps(blocks, ensure_ascii=False).encode())


def _text_length(value: object) -> int:
    """UTF-16 units of all the text in a block."""
    if isinstance(value, dict):
        own = value.get("text")
        length = utf16_length(own) if isinstance(own, str) else 0
        return length + sum(_text_length(one) for one in value.values())
    return sum(_text_length(one) for one in value) if isinstance(value, list) else 0
