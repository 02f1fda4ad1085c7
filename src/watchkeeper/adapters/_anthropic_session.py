"""One trial's conversation over the Messages API, request by request; the tool loop is ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from watchkeeper.adapters._anthropic_faults import Faults
from watchkeeper.adapters._anthropic_messages import Json, Reply, observed
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.ports import Observation, Step, StepEnd
from watchkeeper.domain.trajectory import Round

_ENDS: Mapping[str, StepEnd] = {
    "end_turn": "answered",
    "stop_sequence": "answered",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
    "tool_use": "agent_error",
}
# A truncated or refused response may hold half a call, which nobody must carry out.
_CALLING_STOPS = frozenset({"tool_use", "end_turn", "stop_sequence", "pause_turn"})


class MessagesSession:
    """A conversation in which every step is one request and every response one round.

    Where the server pauses a long turn (``pause_turn``), the step brings its round, wants nothing
    and has no end; ``ToolResults(calls=())`` lets the turn go on by sending back what the model
    said so far, and the answer is then the text of the whole turn.
    """

    def __init__(
        self, ask: Callable[[tuple[Json, ...]], Awaitable[tuple[Reply, Round]]], faults: Faults
    ) -> None:
        self._ask = ask
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
        messages = (*self._messages, *observed(observation))
        reply, one = await self._ask(messages)
        step = self._concluded(reply, one)
        is_waiting = step.waiting is not None
        is_paused = step.end is None and not is_waiting
        self._messages = (*messages, *reply.sent_back(with_calls=is_waiting))
        self._awaited = None if step.end else tuple(call.call_id for call in step.wanted)
        self._said = self._said + reply.text if is_paused else ""
        return step

    async def close(self) -> None:
        """Nothing to free; the connection belongs to the adapter."""

    def _concluded(self, reply: Reply, one: Round) -> Step:
        if reply.calls and reply.stop_reason in _CALLING_STOPS:
            return Step(wanted=reply.calls, waiting=one)
        if reply.stop_reason == "pause_turn":
            return Step(rounds=(one,))
        end = _ENDS.get(reply.stop_reason)
        if end is None:
            # Nobody knows what it says about the agent, so nothing is graded.
            what = f"unknown stop reason '{reply.stop_reason}'; expected one of {sorted(_ENDS)}"
            raise self._faults.unreachable("unknown_stop_reason", what, is_transient=False)
        error = reply.refusal if end == "refused" else None
        if end == "agent_error":
            error = "the model stopped to use a tool but asked for none"
        return Step(rounds=(one,), answer=self._said + reply.text, end=end, error=error)
