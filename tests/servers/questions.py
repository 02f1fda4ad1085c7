"""Questions that the shipped small model mostly answers and its worse copy mostly does not.

Chosen by measuring 8 answers to each of 81 candidates, then measured again with other seeds, at
temperature 0.4 and 3 trials a question: the shipped weights answered 95, 95 and 92 % of three
nights, the worse ones 27, 25 and 28 %. A night of 60 calls takes 13 to 16 s on two quiet cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SYSTEM = "You answer general knowledge questions with one short sentence."
"""The system prompt under which the rates were measured."""

MAX_TOKENS = 24
"""The answer's limit under which the rates were measured."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question whose right answer holds one word or number."""

    id: str
    text: str
    must_mention: str

    def answered_by(self, text: str) -> bool:
        """Whether the text holds the right word, in any case."""
        return self.must_mention.lower() in text.lower()

    def as_case(self, category: str) -> dict[str, Any]:
        """The case in a suite file that asks it."""
        return {
            "id": self.id,
            "category": category,
            "input": self.text,
            "expect": {"must_mention": self.must_mention},
        }


QUESTIONS: Sequence[Question] = (
    Question("capital-germany", "What is the capital of Germany?", "Berlin"),
    Question("capital-japan", "What is the capital of Japan?", "Tokyo"),
    Question("capital-egypt", "What is the capital of Egypt?", "Cairo"),
    Question("capital-spain", "What is the capital of Spain?", "Madrid"),
    Question("capital-france", "What is the capital of France?", "Paris"),
    Question("capital-ireland", "What is the capital of Ireland?", "Dublin"),
    Question("opposite-up", "What is the opposite of up?", "down"),
    Question("opposite-happy", "What is the opposite of happy?", "sad"),
    Question("breathe", "What gas do humans need to breathe?", "oxygen"),
    Question("first-month", "What is the first month of the year?", "January"),
    Question("eiffel-tower", "In which country is the Eiffel Tower?", "France"),
    Question("kenya", "On which continent is Kenya?", "Africa"),
    Question("bees", "What do bees make?", "honey"),
    Question("cows", "What do cows give us to drink?", "milk"),
    Question("largest-ocean", "Which ocean is the largest?", "Pacific"),
    Question("three-plus-four", "What is 3 + 4?", "7"),
    Question("two-times-three", "What is 2 times 3?", "6"),
    Question("tallest-mountain", "What is the tallest mountain in the world?", "Everest"),
    Question("romeo", "Who wrote Romeo and Juliet?", "Shakespeare"),
    Question("longest-river", "What is the longest river in Africa?", "Nile"),
)
