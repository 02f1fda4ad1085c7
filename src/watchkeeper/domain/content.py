"""What a user says: text, images and files, each file known by the hash of its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a file that the user sends.

    ``name`` is what the agent is told, ``path`` where the bytes lie, ``sha256`` what they were
    when the case was loaded (64 hexadecimal digits).
    """

    name: str
    media_type: str
    sha256: str
    byte_count: int
    path: Path

    @property
    def is_image(self) -> bool:
        """Whether its media type is that of a picture."""
        return self.media_type.startswith("image/")


Part = str | Attachment


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The user says something.

    ``parts`` are texts and attachments in the order in which they are said; empty where ``text``
    is all there is. ``text`` is always the whole text.
    """

    text: str
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, parts: tuple[Part, ...]) -> UserTurn:
        """The turn with these parts; one of text alone has none."""
        text = "\n".join(part for part in parts if isinstance(part, str))
        return cls(text, parts if any(isinstance(part, Attachment) for part in parts) else ())

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The images and files, in order."""
        return tuple(part for part in self.parts if isinstance(part, Attachment))

    def identity(self) -> object:
        """What an execution hash takes of it: the text, or every part, of files the hash."""
        if not self.parts:
            return self.text
        return [
            part if isinstance(part, str) else [part.name, part.media_type, part.sha256]
            for part in self.parts
        ]
