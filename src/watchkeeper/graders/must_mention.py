"""The answer contains a text: the load-bearing word, the wording round it free."""

from __future__ import annotations

from typing import ClassVar

from watchkeeper.domain.grade import Grade, GradingContext
from watchkeeper.graders._base import is_visible
from watchkeeper.graders._mentions import Mention, comparable
from watchkeeper.graders._wording import quoted

EXAMPLE = ["onStartupFinished", {"text": "workspace", "case": "ignore"}]


class MustMention(Mention):
    """A text, or several, each of which the answer must contain."""

    kind: ClassVar[str] = "must_mention"
    version: ClassVar[int] = 1

    def decide(self, context: GradingContext) -> Grade:
        """Passed where the answer contains the text."""
        answer = context.trajectory.answer
        where, _ = self.position(answer)
        wanted = quoted(self.text)
        if where >= 0:
            return self.passed(f"the answer mentions {wanted}")
        if not is_visible(answer):
            return self.failed(f"the answer is empty, expected {wanted} in it")
        begins = f"the answer does not mention {wanted}; it begins {quoted(answer.strip(), 80)}"
        if self.case == "exact" and comparable(self.text, "ignore", "whitespace") in comparable(
            answer, "ignore", "whitespace"
        ):
            return self.failed(f"{begins}; it does in another case or with other white space")
        return self.failed(begins)
