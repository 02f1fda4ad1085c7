r"""Text that came from a model, a tool or a provider, made harmless without losing any of it.

What cannot be shown safely is shown escaped (``\x1b``, ``\u202e``), and what is cut says how
much was cut; nothing disappears without a trace.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

_JOINERS = frozenset("\u200c\u200d")  # needed by Persian, Hindi and family emoji; they hide nothing
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_PLAIN_FORMS = str.maketrans(
    {"→": "->", "×": "x", "–": "-", "—": "-", "−": "-", "…": "...", "·": "-", "’": "'"}
)

Measure = Callable[[str], int]


def harmless(text: str) -> str:
    r"""``text`` with everything escaped that could act on a terminal or hide in one.

    Control characters (so no ANSI sequence, no NUL), direction overrides, invisible format
    characters, lone surrogates and noncharacters become visible escapes. Line ends stay, as
    ``\n``; a tab becomes four spaces.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return "".join(char if _is_safe(char) else _escape(char) for char in text)


def one_line(text: str) -> str:
    r"""``text`` made harmless and kept on one line: line ends are shown as ``\n``."""
    return harmless(text).replace("\n", "\\n")


def shorten(text: str, limit: int, measure: Measure = len) -> str:
    """``text``, cut where it is longer than ``limit``, ending with how much was cut.

    Args:
        text: Any text.
        limit: The most that ``measure`` may give for the result; at least 40.
        measure: How long a text is; characters unless said otherwise.

    Raises:
        ValueError: The limit leaves no room to say what was cut.
    """
    if limit < 40:
        raise ValueError(f"a limit of {limit} leaves no room to say what was cut")
    if measure(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(_cut(text, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return _cut(text, low)


def utf16_length(text: str) -> int:
    """The length as Slack and JavaScript count it: an emoji outside the first plane is two."""
    return len(text) + sum(ord(char) > 0xFFFF for char in text)


def for_encoding(text: str, encoding: str | None) -> str:
    """``text`` as an output of this encoding can hold it.

    Arrows, dashes and the like get their plain forms where the encoding lacks them; what is left
    over is escaped. ``None`` stands for UTF-8.
    """
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        plain = text.translate(_PLAIN_FORMS)
        return plain.encode(encoding or "utf-8", "backslashreplace").decode(encoding or "utf-8")
    return text


def _cut(text: str, kept: int) -> str:
    return f"{text[:kept]}… (+{len(text) - kept:,} characters)"


def _is_safe(char: str) -> bool:
    if char == "\n" or char in _JOINERS:
        return True
    if unicodedata.category(char) in _UNSAFE_CATEGORIES:
        return False
    code = ord(char)
    return not (code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF)


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
