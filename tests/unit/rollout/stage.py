"""An endpoint that does what a test lets it do, and the parts that a trial needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Price, PriceBand, PriceTable
from watchkeeper.domain.ports import Clock, Observation, Step, StepEnd
from watchkeeper.domain.trajectory import Round, ToolCall, Usage
from watchkeeper.errors import EndpointOverloaded, EndpointRefused
from watchkeeper.rollout.calls import Calls
from watchkeeper.rollout.conversation import Conversation
from watchkeeper.rollout.toolbox import PythonTool, Toolbox

START = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
MODEL = "model-v1"
NO_PRICES = PriceTable("", {})
A_DOLLAR_A_TOKEN = PriceTable(
    "one", {MODEL: (Price(MODEL, datetime(2026, 1, 1, tzinfo=UTC), (PriceBand(1e6, 1e6),)),)}
)

Act = Step | Exception | Callable[[], Step]


@dataclass
class Played:
    """A session that plays acts in order and keeps what it was given, and when."""

    acts: Sequence[Act]
    clock: Clock
    seen: list[Observation] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    closed: int = 0

    async def step(self, observation: Observation) -> Step:
        """The next act."""
        self.seen.append(observation)
        self.at.append(self.clock.monotonic())
        act = self.acts[len(self.seen) - 1]
        if isinstance(act, Exception):
            raise act
        return act() if callable(act) else act

    async def close(self) -> None:
        """Counts how often it was closed."""
        self.closed += 1


def usage(tokens: int | None) -> Usage:
    """So many input tokens and none besides; ``None``: the provider did not say."""
    return Usage(tokens, 0, 0, 0, None if tokens is None else 0, 0)


def said(text: str = "", tokens: int | None = 1, *calls: ToolCall) -> Round:
    """A response of the model."""
    return Round(text, calls, usage(tokens), "end_turn", MODEL, 1.0)


def answer(text: str = "yes", tokens: int | None = 1, **more: Any) -> Step:
    """The agent ends its turn."""
    end: StepEnd = more.pop("end", "answered")
    return Step(rounds=(said(text, tokens),), answer=text, end=end, **more)


def wants(*calls: ToolCall, tokens: int | None = 1) -> Step:
    """The agent waits for tools."""
    return Step(wanted=calls, waiting=said("", tokens, *calls))


def call(tool: str, number: int = 0, **arguments: object) -> ToolCall:
    """A call without a result."""
    return ToolCall(tool, dict(arguments), call_id=f"call_{number}")


def busy(retry_after_s: float | None = None) -> EndpointOverloaded:
    """A fault that may pass."""
    return EndpointOverloaded(
        "529", kind="overloaded", is_transient=True, retry_after_s=retry_after_s
    )


def refused() -> EndpointRefused:
    """A fault that stays."""
    return EndpointRefused("401", kind="authentication", is_transient=False)


def case(*turns: str, **more: Any) -> Case:
    """A case with these turns of the user."""
    return Case("case", "facts", tuple(map(UserTurn, turns or ("hello",))), (), **more)


@dataclass
class Scene:
    """A conversation with the parts that it was given."""

    talk: Conversation
    session: Played
    clock: Clock


def scene(
    *acts: Act,
    on: Case | None = None,
    limits: TrialLimits | None = None,
    call_retries: int = 3,
    prices: PriceTable = NO_PRICES,
    python_tools: Mapping[str, PythonTool] | None = None,
    jitter: Callable[[], float] = lambda: 0.5,
    clock: Clock | None = None,
) -> Scene:
    """A conversation that has not begun; the jitter of 0.5 leaves the backoff as it is."""
    one = on or case()
    time = clock or SimulatedClock(START)
    session = Played(acts, time)
    talk = Conversation(
        session=session,
        toolbox=Toolbox(one, python_tools or {}),
        case=one,
        limits=limits or TrialLimits(),
        calls=Calls("t1", call_retries, time, jitter),
        prices=prices,
        requested_model=MODEL,
        clock=time,
    )
    return Scene(talk, session, time)
