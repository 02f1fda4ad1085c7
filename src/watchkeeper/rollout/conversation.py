"""One trial from its first turn to its end, whoever owns the loop, within its limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime

from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import PriceTable
from watchkeeper.domain.ports import (
    Clock,
    Observation,
    Session,
    Step,
    ToolResults,
)
from watchkeeper.domain.pricing import rounds_cost_usd
from watchkeeper.domain.trajectory import Round, Trajectory
from watchkeeper.domain.trial import StopReason
from watchkeeper.rollout.calls import Calls
from watchkeeper.rollout.simulated_user import SimulatedTalk
from watchkeeper.rollout.toolbox import Toolbox


@dataclass(slots=True)
class Conversation:
    """What has happened so far in one trial; ``play`` carries it to its end.

    The trial's limit of seconds bounds the time at work: of the agent and its tools, not of what
    ``calls`` waited for, nor of a simulated user.
    """

    session: Session
    toolbox: Toolbox
    case: Case
    limits: TrialLimits
    calls: Calls
    prices: PriceTable
    requested_model: str | None
    clock: Clock
    user: SimulatedTalk | None = None
    rounds: list[Round] = field(default_factory=list)
    answer: str = ""
    action: str | None = None
    state: dict[str, object] | None = None
    reported_usd: float | None = None
    error: str | None = None
    started_at: datetime = field(init=False)
    _deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.started_at = self.clock.now()
        self._deadline = self.clock.monotonic() + self.limits.seconds

    @property
    def trajectory(self) -> Trajectory:
        """The steps so far."""
        return Trajectory(tuple(self.rounds), self.answer, self.action, self.state)

    @property
    def cost_usd(self) -> float | None:
        """Dollars so far: by the price table, else what the agent reported, else unknown."""
        cost = rounds_cost_usd(self.rounds, self.prices, self.requested_model, self.started_at)
        return self.reported_usd if cost is None else cost

    async def play(self) -> StopReason:
        """Carries the trial to its end and says how it ended.

        Raises:
            EndpointFault: The infrastructure failed beyond the bounded retries; what has
                happened so far stays readable.
        """
        for turn in self.case.turns:
            ended = await self._turn(turn)
            if ended is not None:
                return ended
        while (said := await self._user_says()) is not None:
            ended = await self._turn(said)
            if ended is not None:
                return ended
        said_something = self.answer.strip() or self.action or self.state
        return "answered" if said_something else "silent"

    async def _user_says(self) -> UserTurn | None:
        """What a simulated user goes on with; the time that it takes is not the agent's."""
        if self.user is None:
            return None
        started = self.clock.monotonic()
        try:
            return await self.user.next_turn(self.answer)
        finally:
            self._deadline += self.clock.monotonic() - started

    async def _turn(self, opening: UserTurn) -> StopReason | None:
        """Plays until the agent has finished its turn; a stop reason where the trial is over."""
        observation: Observation = opening
        while True:
            try:
                step = await self._step(observation)
            except TimeoutError:
                # An agent that owns its loop has done something by then, and was paid for it.
                self.rounds.extend(getattr(self.session, "unfinished", ()))
                return "time_limit"
            self._take(step)
            limit = self._limit_reached(is_waiting=step.end is None)
            if step.wanted and limit is None:
                results = await self._answers(step)
                if results is None:
                    return "time_limit"
                observation = results
                continue
            if limit is not None:
                return limit
            if step.end is None:
                observation = ToolResults(())
                continue
            if step.end == "answered":
                return None
            self.error = step.error
            if step.end == "refused" and not self.answer.strip():
                return "refused"
            return step.end

    async def _step(self, observation: Observation) -> Step:
        """One step; what it had to wait for is not the agent's time."""
        waited = self.calls.waited_s
        left = self._deadline - self.clock.monotonic()
        try:
            return await self.calls.step(self.session, observation, left)
        finally:
            self._deadline += self.calls.waited_s - waited

    async def _answers(self, step: Step) -> ToolResults | None:
        """The results of the wanted calls, or ``None`` where time ran out while a tool worked."""
        remaining = self._deadline - self.clock.monotonic()
        try:
            async with asyncio.timeout(max(remaining, 0.001)):
                answered = await self.toolbox.answer(
                    [call for call in step.wanted if call.result is None]
                )
        except TimeoutError:
            return None
        fresh = iter(answered)
        calls = tuple(call if call.result is not None else next(fresh) for call in step.wanted)
        self.rounds[-1] = replace(self.rounds[-1], tool_calls=calls)
        return ToolResults(calls)

    def _take(self, step: Step) -> None:
        self.rounds.extend(step.rounds)
        if step.waiting is not None:
            self.rounds.append(step.waiting)
        if step.end is not None:
            self.answer = step.answer
            self.action = step.action if step.action is not None else self.action
            self.state = step.state if step.state is not None else self.state
        if step.cost_usd is not None:
            self.reported_usd = (self.reported_usd or 0.0) + step.cost_usd

    def _limit_reached(self, *, is_waiting: bool) -> StopReason | None:
        """The limit that was passed, or would be by one more round."""
        count = len(self.rounds)
        if count > self.limits.rounds or (is_waiting and count >= self.limits.rounds):
            return "round_limit"
        if self.clock.monotonic() > self._deadline:
            return "time_limit"
        tokens = self.trajectory.usage.total_tokens
        if self.limits.tokens is not None and tokens is not None and tokens > self.limits.tokens:
            return "token_limit"
        cost = self.cost_usd
        if self.limits.cost_usd is not None and cost is not None and cost > self.limits.cost_usd:
            return "cost_limit"
        return None
