"""The images and files of a user's turn, read when they are sent, and only as they were loaded."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from watchkeeper.domain.content import Attachment, UserTurn
from watchkeeper.domain.redaction import whole_text

IMAGES = ("image/gif", "image/jpeg", "image/png", "image/webp")
PDF = "application/pdf"
TEXTS = (
    "text/*",
    "application/json",
    "application/toml",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
)
"""Media types of files that are sent as text; they have to be UTF-8."""


class Unsendable(ValueError):
    """A file cannot be sent; ``kind`` is the fault's word for it."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file with its bytes; ``text`` where it is sent as text."""

    name: str
    media_type: str
    content: bytes
    text: str | None = None

    @property
    def base64(self) -> str:
        """The bytes as the APIs take them."""
        return base64.b64encode(self.content).decode()

    @property
    def data_url(self) -> str:
        """The bytes as an address that holds them."""
        return f"data:{self.media_type};base64,{self.base64}"

    @property
    def titled_text(self) -> str:
        """A text file as part of a conversation, below its name."""
        return f"{self.name}:\n\n{self.text}"

    @property
    def is_image(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")


SentPart = str | SentFile


def is_accepted(media_type: str, accepted: Iterable[str]) -> bool:
    """Whether a media type is among some, which may end in ``/*``."""
    return any(fnmatchcase(media_type, pattern) for pattern in accepted)


def refuse_media(attachments: Iterable[Attachment], accepted: Iterable[str]) -> None:
    """Checks media types before anything is sent.

    Raises:
        Unsendable: One is not among the accepted ones.
    """
    known = tuple(accepted)
    for one in attachments:
        if not is_accepted(one.media_type, known):
            what = f"'{one.name}' is {one.media_type}, which the API does not take"
            raise Unsendable("media_refused", f"{what}; it takes {', '.join(known)}")


async def sent_parts(turn: UserTurn) -> tuple[SentPart, ...]:
    """What a turn is made of, with the bytes of its files; blank texts are left out.

    Raises:
        Unsendable: A file is gone, is not what it was, or is text in another alphabet than UTF-8.
    """
    if not turn.parts:
        return (whole_text(turn.text),)
    parts: list[SentPart] = []
    for part in turn.parts:
        if isinstance(part, Attachment):
            parts.append(await asyncio.to_thread(_read, part))
        elif part.strip():
            parts.append(whole_text(part))
    return tuple(parts)


def _read(one: Attachment) -> SentFile:
    try:
        content = one.path.read_bytes()
    except OSError as error:
        why = f"'{one.name}' cannot be read any more: {error.strerror}"
        raise Unsendable("attachment_changed", why) from error
    if hashlib.sha256(content).hexdigest() != one.sha256:
        why = f"'{one.name}' was changed since the case was loaded; start the run again"
        raise Unsendable("attachment_changed", why)
    text = None
    if is_accepted(one.media_type, TEXTS):
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            why = f"'{one.name}' is {one.media_type} but not UTF-8"
            raise Unsendable("media_refused", why) from error
    return SentFile(one.name, one.media_type, content, text)
