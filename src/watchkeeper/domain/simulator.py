"""A model that plays the user: part of the instrument, not of the system under test."""

from __future__ import annotations

from dataclasses import dataclass

from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.identity import content_hash

OPENING = (
    "You play the user in a conversation with an assistant. What you want: {goal}\n\n"
    "You have said so far:\n{said}\n\n"
    "The assistant answered:\n{answer}\n\n"
    "Write your next message to the assistant and nothing else. When you have what you want, or "
    "see that you will not get it, write {ends_with} and nothing else."
)
"""What a simulated user is told first; afterwards it is told each answer as it is."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """A simulated user of config/simulators.yaml.

    ``endpoint`` is how its model is reached, its prompt included. It says at most ``max_turns``
    things in one trial, and ``ends_with`` when it has nothing more to say. ``token_limit`` and
    ``cost_limit_usd`` bound its own use in one trial.
    """

    name: str
    endpoint: Endpoint
    max_turns: int
    ends_with: str
    token_limit: int | None = None
    cost_limit_usd: float | None = None
    location: str = ""

    @property
    def identity(self) -> str:
        """The hash of everything that decides what it says; changes with its prompt and model."""
        return content_hash(
            [
                self.endpoint.kind,
                self.endpoint.requested_model,
                self.endpoint.config_hash,
                self.endpoint.harness.version,
                self.max_turns,
                self.ends_with,
                self.token_limit,
                self.cost_limit_usd,
                OPENING,
            ]
        )
