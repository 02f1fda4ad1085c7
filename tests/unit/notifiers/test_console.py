from __future__ import annotations

import io

import pytest

from tests.unit.notifiers.example_verdicts import THREAD, find_files_night, incident
from watchkeeper.domain.ports import Message, Receipt, Recipient, Section
from watchkeeper.errors import NotifierFault
from watchkeeper.notifiers.console import ConsoleNotifier
from watchkeeper.notifiers.message import page_message

OWNER = Recipient("tools-team", slack_channel="C0123", mention="<@U77>")


async def test_a_message_is_written_and_its_receipt_names_it() -> None:
    """Without Slack the page still appears, and the outbox learns that it was delivered."""
    out = io.StringIO()
    page = page_message(find_files_night(), incident())
    receipt = await ConsoleNotifier(out).send(page, OWNER)
    assert receipt == Receipt("console", page.key)
    assert out.getvalue().startswith("[page for tools-team]\ndemo-agent got worse on discovery: ")
    assert out.getvalue().endswith("\n\n")


async def test_verbatim_text_keeps_its_lines_and_acts_on_nothing() -> None:
    """What a tool said is shown behind a bar, escaped."""
    out = io.StringIO()
    section = Section("What the trace shows", ("one\ntwo \x1b[2J",), is_verbatim=True)
    message = Message("k", "critical", "o", "t\nt", (section,), thread=THREAD)
    await ConsoleNotifier(out).send(message, OWNER)
    assert "  | one\n  | two \\x1b[2J\n" in out.getvalue()
    assert "\nt\\nt\n" in out.getvalue()
    assert "in the thread of 1779417660.000100" in out.getvalue()


async def test_a_terminal_without_unicode_gets_plain_forms() -> None:
    """LANG=C is no reason to fail a night."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    await ConsoleNotifier(out).send(page_message(find_files_night(), incident()), OWNER)
    assert b"find_files 2 -> 8 calls per trial, rounds 3.1x (2.7-3.5)" in raw.getvalue()


async def test_a_closed_console_is_a_fault_of_the_notifier() -> None:
    """It is reported as undelivered; it never ends the pipeline by another exception."""
    out = io.StringIO()
    out.close()
    with pytest.raises(NotifierFault) as caught:
        await ConsoleNotifier(out).send(page_message(find_files_night(), incident()), OWNER)
    assert caught.value.kind == "unwritable"
    assert not caught.value.is_transient
