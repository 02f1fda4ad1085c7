"""What the library asks of its surroundings: endpoints, notifiers, time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.trajectory import Round, ToolCall


class Clock(Protocol):
    """Time, passed in so that a test or the demo can own it."""

    def now(self) -> datetime:
        """The time of day, with the time zone UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits; a simulated clock only moves on."""
        ...


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it; ``input_schema`` is a JSON Schema of an object."""

    name: str
    description: str
    input_schema: Mapping[str, object]
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class TrialBrief:
    """All that an adapter is told about the trial that it opens.

    ``workspace`` is the trial's own folder, with the case's files in it; ``None`` where neither
    the case nor the kind of endpoint needs one. It is gone after the trial.
    """

    case: Case
    limits: TrialLimits
    tools: tuple[ToolSpec, ...]
    seed: int
    trial_id: str
    workspace: Path | None = None


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The results of the calls that the last step asked for, in the same order."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What a provider says is left of its limits; ``None`` where it does not say.

    ``tokens_left`` counts all tokens, or those of input where the provider counts output apart.
    ``reset_s`` are the seconds until the one that is nearest to its end is whole again.
    """

    requests_left: int | None = None
    tokens_left: int | None = None
    reset_s: float | None = None
    output_tokens_left: int | None = None


Observation = UserTurn | ToolResults
StepEnd = Literal["answered", "refused", "truncated", "agent_error"]


@dataclass(frozen=True, slots=True)
class Step:
    """What the endpoint did with one observation.

    ``rounds`` are complete, with their results: all of them where the agent owns its loop. Where
    the loop is ours, the last round may wait: ``wanted`` are its tool calls, to be answered with
    ``ToolResults``. ``end`` is set when the agent has finished its turn.
    """

    rounds: tuple[Round, ...] = ()
    wanted: tuple[ToolCall, ...] = ()
    waiting: Round | None = None
    answer: str = ""
    action: str | None = None
    state: dict[str, object] | None = None
    end: StepEnd | None = None
    error: str | None = None
    cost_usd: float | None = None
    limits: RateLimits | None = None


class Session(Protocol):
    """One trial's conversation with an endpoint.

    One whose agent owns its loop may have ``unfinished``: the rounds that are known of a step
    which was cut for time.
    """

    async def step(self, observation: Observation) -> Step:
        """What the endpoint does next.

        A step that raised has changed nothing: the same observation may be given again.

        Raises:
            EndpointFault: The infrastructure failed, not the agent.
        """
        ...

    async def close(self) -> None:
        """Ends the conversation and frees what it held; never raises."""
        ...


class Adapter(Protocol):
    """One kind of endpoint, connected.

    ``account`` names what shares the provider's limits: the address, the account behind it
    (never its key) and the model. Endpoints with the same account share one limiter.
    """

    @property
    def account(self) -> str:
        """What shares the provider's limits with it."""
        ...

    async def resolve(self) -> ServedIdentity:
        """What is served now for the requested model.

        Raises:
            EndpointFault: The provider could not be reached or refused the key.
        """
        ...

    async def open(self, brief: TrialBrief) -> Session:
        """A new conversation for one trial, isolated from every other."""
        ...

    async def close(self) -> None:
        """Frees connections; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a delivered message is, so that a later one can join its thread."""

    channel: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Message:
    """Something to tell somebody, before any notifier renders it.

    ``key`` is the idempotency key; ``thread`` the receipt of the message that opened the thread.
    ``lines`` are plain text, untrusted parts included; each notifier escapes them its own way.
    """

    key: str
    severity: Literal["page", "critical", "note", "broken"]
    owner: str
    title: str
    sections: tuple[Section, ...]
    actions: tuple[str, ...] = ()
    thread: Receipt | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its lines; ``is_verbatim`` marks text that came from a model or a tool."""

    heading: str
    lines: tuple[str, ...]
    is_verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Recipient:
    """Whom a message reaches and how."""

    owner: str
    slack_channel: str | None = None
    mention: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


class Notifier(Protocol):
    """One way to reach people."""

    async def send(self, message: Message, recipient: Recipient) -> Receipt:
        """Delivers a message and says where it is.

        Raises:
            NotifierFault: It could not be delivered; the message stays in the outbox.
        """
        ...
