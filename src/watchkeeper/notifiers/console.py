"""Messages on a terminal or in a log file."""

from __future__ import annotations

from typing import ClassVar, TextIO

from watchkeeper.domain.ports import Message, Receipt, Recipient
from watchkeeper.errors import NotifierFault
from watchkeeper.notifiers.layout import bullets, paragraph, verbatim
from watchkeeper.notifiers.text import for_encoding

WIDTH = 100


class ConsoleNotifier:
    """Writes messages as plain text; the receipt's id is the message's key."""

    kind: ClassVar[str] = "console"

    def __init__(self, out: TextIO) -> None:
        self._out = out

    async def send(self, message: Message, recipient: Recipient) -> Receipt:
        """Writes a message.

        Raises:
            NotifierFault: The output is closed or cannot be written.
        """
        shown = render(message, recipient)
        try:
            self._out.write(for_encoding(shown, self._out.encoding))
            self._out.flush()
        except (OSError, ValueError) as error:
            raise NotifierFault(
                f"the message {message.key} could not be written to the console: {error}",
                kind="unwritable",
                is_transient=False,
            ) from error
        return Receipt(channel=self.kind, message_id=message.key)


def render(message: Message, recipient: Recipient, width: int = WIDTH) -> str:
    """A message as text that no terminal can be harmed by, ending with a blank line."""
    where = f", in the thread of {message.thread.message_id}" if message.thread else ""
    lines = paragraph(f"[{message.severity} for {recipient.owner}{where}]", width)
    lines += paragraph(message.title, width)
    for section in message.sections:
        lines += ["", *paragraph(section.heading, width)]
        lines += verbatim(section.lines) if section.is_verbatim else bullets(section.lines, width)
    if message.actions:
        lines += ["", "Commands"]
        lines += [line for action in message.actions for line in verbatim_action(action)]
    return "\n".join([*lines, "", ""])


def verbatim_action(action: str) -> list[str]:
    """A command on a line of its own, unwrapped, so that it can be pasted."""
    return paragraph(action, 10_000, "  $ ")
