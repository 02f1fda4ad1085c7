"""Lines for a terminal: harmless, and wrapped with a hanging indent."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from watchkeeper.notifiers.text import harmless, one_line

NARROWEST = 40


def paragraph(line: str, width: int, indent: str = "", hanging: str | None = None) -> list[str]:
    """One untrusted line as the terminal lines that show all of it.

    Words are not broken, so that ids and commands can be copied; a longer one sticks out.
    """
    return textwrap.wrap(
        one_line(line),
        max(width, NARROWEST),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [indent.rstrip()]


def bullets(lines: Iterable[str], width: int) -> list[str]:
    """Each line as a point of a list."""
    return [shown for line in lines for shown in paragraph(line, width, "  - ", "    ")]


def verbatim(lines: Iterable[str]) -> list[str]:
    """Each line as it came, made harmless, its own line ends kept, behind a bar."""
    return [f"  | {shown}" for line in lines for shown in harmless(line).split("\n")]
