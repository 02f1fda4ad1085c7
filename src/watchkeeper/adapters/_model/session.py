"""One trial's conversation with a model's API, request by request; the tool loop is ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from watchkeeper.adapters._attachments import SentPart, Unsendable, sent_parts
from watchkeeper.adapters._model.faults import Faults
from watchkeeper.adapters._model.json import Json
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.ports import Observation, RateLimits, Step, StepEnd
from watchkeeper.domain.trajectory import Round, ToolCall, Usage
from watchkeeper.errors import EndpointFault


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the model.

    ``refusal`` is why it refused, where it says so. ``turn`` is the assistant's turn as the next
    request sends it back, ``turn_without_calls`` the same where nobody is going to answer the
    calls; either may be empty where the model said nothing.
    """

    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: str
    served_model: str | None
    usage: Usage
    turn: tuple[Json, ...]
    turn_without_calls: tuple[Json, ...]
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """A response, the round that it makes, and what is left of the provider's limits."""

    reply: Reply
    round: Round
    limits: RateLimits | None = None


@dataclass(frozen=True, slots=True)
class Stops:
    """What the stop reasons of an API mean.

    ``calling`` are those at which calls are to be carried out: a truncated or refused response
    may hold half a call. At ``pausing`` ones the server goes on when it is asked again.
    """

    ends: Mapping[str, StepEnd]
    calling: frozenset[str]
    pausing: frozenset[str] = field(default=frozenset())


class Turns(Protocol):
    """How an API is told of what happened; each gives no turn or one or more."""

    def user_turn(self, parts: tuple[SentPart, ...]) -> tuple[Json, ...]:
        """What the user said."""
        ...

    def result_turn(self, calls: Iterable[ToolCall]) -> tuple[Json, ...]:
        """What the tools brought."""
        ...


class ModelSession:
    """A conversation in which every step is one request and every response one round.

    Where the server pauses a long turn, the step brings its round, wants nothing and has no end;
    ``ToolResults(calls=())`` lets the turn go on by sending back what the model said so far, and
    the answer is then the text of the whole turn.

    A request that the provider's filter refuses, or that has outgrown the model's context after
    the first one, is the agent's end and no fault: the same conversation meets it every time.
    """

    def __init__(
        self,
        ask: Callable[[tuple[Json, ...]], Awaitable[Heard]],
        turns: Turns,
        stops: Stops,
        faults: Faults,
    ) -> None:
        self._ask = ask
        self._turns = turns
        self._stops = stops
        self._faults = faults
        self._messages: tuple[Json, ...] = ()
        self._said = ""  # by this turn before it was paused
        self._awaited: tuple[str, ...] | None = None  # ids of calls; none of them after a pause

    async def step(self, observation: Observation) -> Step:
        """What the model does next; a step that raised has changed nothing.

        Raises:
            EndpointFault: There was no usable answer.
            ValueError: The observation is not what the last step asked for.
        """
        given = (
            None
            if isinstance(observation, UserTurn)
            else tuple(call.call_id for call in observation.calls)
        )
        if given != self._awaited:
            raise ValueError(f"the conversation waits for {self._awaited}, not for {given}")
        messages = (*self._messages, *await self._observed(observation))
        try:
            heard = await self._ask(messages)
        except EndpointFault as fault:
            end = self._end_of(fault)
            if end is None:
                raise
            self._awaited, self._said = None, ""
            return Step(end=end, error=str(fault))
        step = self._concluded(heard)
        is_waiting = step.waiting is not None
        is_paused = step.end is None and not is_waiting
        reply = heard.reply
        self._messages = (*messages, *(reply.turn if is_waiting else reply.turn_without_calls))
        self._awaited = None if step.end else tuple(call.call_id for call in step.wanted)
        self._said = self._said + reply.text if is_paused else ""
        return step

    async def close(self) -> None:
        """Nothing to free; the connection belongs to the adapter."""

    async def _observed(self, observation: Observation) -> tuple[Json, ...]:
        if not isinstance(observation, UserTurn):
            return self._turns.result_turn(observation.calls)
        try:
            return self._turns.user_turn(await sent_parts(observation))
        except Unsendable as error:
            raise self._faults.unsendable(error.kind, str(error)) from error

    def _end_of(self, fault: EndpointFault) -> StepEnd | None:
        if fault.kind == "content_filter":
            return "refused"
        return "truncated" if fault.kind == "context_exceeded" and self._messages else None

    def _concluded(self, heard: Heard) -> Step:
        step = Step(limits=heard.limits)
        reply, one = heard.reply, heard.round
        if reply.calls and reply.stop_reason in self._stops.calling:
            return replace(step, wanted=reply.calls, waiting=one)
        if reply.stop_reason in self._stops.pausing:
            return replace(step, rounds=(one,))
        end = self._stops.ends.get(reply.stop_reason)
        if end is None:
            # Nobody knows what it says about the agent, so nothing is graded.
            known = sorted(self._stops.ends)
            what = f"unknown stop reason '{reply.stop_reason}'; expected one of {known}"
            raise self._faults.unreachable("unknown_stop_reason", what, is_transient=False)
        if end == "answered" and reply.refusal is not None:
            end = "refused"
        error = reply.refusal if end == "refused" else None
        if end == "agent_error":
            error = "the model stopped to use a tool but asked for none"
        return replace(step, rounds=(one,), answer=self._said + reply.text, end=end, error=error)
