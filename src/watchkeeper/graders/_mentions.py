"""Whether a text stands in an answer, with the comparison stated rather than guessed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from watchkeeper.domain.grade import Evidence
from watchkeeper.graders._base import GraderModel, is_visible
from watchkeeper.graders._refusals import Problem
from watchkeeper.graders._wording import titled

TextCase = Literal["exact", "ignore"]
Normalisation = Literal["none", "nfc", "whitespace"]

_MARKS_AT_ONCE = 100
# Sorting a long run of combining marks takes time with its square; all of them are from U+0300 on.
_LONG_RUN = re.compile(rf"[\u0300-\U0010ffff]{{{_MARKS_AT_ONCE + 1}}}")


def composed(text: str) -> str:
    """The text in Unicode form NFC, in linear time; runs of over 100 marks are cut into pieces."""
    if text.isascii():
        return text
    if _LONG_RUN.search(text) is None:
        return unicodedata.normalize("NFC", text)
    pieces: list[str] = []
    start = run = 0
    for index, one in enumerate(text):
        run = run + 1 if unicodedata.combining(one) else 0
        if run > _MARKS_AT_ONCE:
            pieces.append(text[start:index])
            start, run = index, 1
    pieces.append(text[start:])
    return "".join(unicodedata.normalize("NFC", piece) for piece in pieces)


def comparable(text: str, case: TextCase, normalise: Normalisation) -> str:
    """The text as it is searched; both the answer and the searched text go through this.

    ``normalise``: ``none`` compares code points; ``nfc`` composes accents; ``whitespace`` also
    makes every run of white space one space and drops it at both ends. ``case: ignore`` folds case.
    """
    if normalise != "none":
        text = composed(text)
    if case == "ignore":
        text = text.casefold()
        if normalise != "none":
            text = composed(text)
    return " ".join(text.split()) if normalise == "whitespace" else text


class Mention(GraderModel):
    """A text and how it is compared with the answer."""

    evidence: ClassVar[Evidence] = "answer"
    forms: ClassVar[str] = "a text, {text, case, normalise, severity}, or a list of these"
    short_key: ClassVar[str | None] = "text"

    text: str = Field(
        min_length=1, max_length=10_000, description="the text that is looked for in the answer"
    )
    case: TextCase = Field("exact", description="exact, or ignore the difference of case")
    normalise: Normalisation = Field(
        "nfc",
        description="none: code points as they are; nfc: accents composed; "
        "whitespace: nfc, and every run of white space is one space",
    )

    @property
    def assertion(self) -> str:
        """``must_mention 'onStartupFinished'``, with the comparison where it is not the default."""
        ignoring = " ignoring case" if self.case == "ignore" else ""
        how = "" if self.normalise == "nfc" else f" (normalise {self.normalise})"
        return f"{self.kind} {titled(self.text)}{ignoring}{how}"

    def position(self, answer: str) -> tuple[int, str]:
        """Where the text stands, -1 where it does not, and the answer as it was searched."""
        searched = comparable(answer, self.case, self.normalise)
        return searched.find(comparable(self.text, self.case, self.normalise)), searched

    @classmethod
    def early_problems(cls, given: Mapping[object, object]) -> list[Problem]:
        """Adds a text of which nothing is visible: it would be found everywhere or nowhere."""
        problems = super().early_problems(given)
        text = given.get("text")
        if isinstance(text, str) and text and not is_visible(text):
            problems.append((("text",), "found text of which nothing is visible"))
        return problems
