"""The answer does not contain a text that would be wrong or dangerous there."""

from __future__ import annotations

from typing import ClassVar

from watchkeeper.domain.grade import Grade, GradingContext
from watchkeeper.graders._mentions import Mention
from watchkeeper.graders._wording import quoted

EXAMPLE = ["1250.50", {"text": "CBU", "case": "ignore", "severity": "critical"}]
_AROUND = 30


class MustNotMention(Mention):
    """A text, or several, none of which the answer may contain."""

    kind: ClassVar[str] = "must_not_mention"
    version: ClassVar[int] = 1

    def decide(self, context: GradingContext) -> Grade:
        """Failed where the answer contains the text."""
        where, searched = self.position(context.trajectory.answer)
        if where < 0:
            return self.passed(f"the answer does not mention {quoted(self.text)}")
        around = searched[max(where - _AROUND, 0) : where + len(self.text) + _AROUND]
        return self.failed(f"the answer mentions {quoted(self.text)}: {quoted(around, 100)}")
