"""The user's side of a trial, where a model plays it: what it says next, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.domain.case import Case
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import PriceTable
from watchkeeper.domain.ports import Adapter, Session
from watchkeeper.domain.pricing import rounds_cost_usd
from watchkeeper.domain.simulator import OPENING, Simulator
from watchkeeper.domain.trajectory import ZERO_USAGE, Round
from watchkeeper.domain.trial import SimulatorUse
from watchkeeper.errors import EndpointFault, EndpointUnreachable
from watchkeeper.rollout.calls import Account, Calls

ANSWER_S = 300.0


@dataclass(frozen=True, slots=True)
class OpenSimulator:
    """A simulated user whose model can be asked; ``account`` holds its provider's limits."""

    simulator: Simulator
    adapter: Adapter
    account: Account


@dataclass(slots=True)
class SimulatedTalk:
    """One trial's simulated user.

    It belongs to the instrument: what goes wrong with it is never the agent's failure.
    """

    simulator: Simulator
    case: Case
    session: Session
    calls: Calls
    prices: PriceTable
    started_at: datetime
    rounds: list[Round] = field(default_factory=list)
    _turn_count: int = 0

    async def next_turn(self, answer: str) -> UserTurn | None:
        """What the user says to the agent's answer, or ``None`` where it has said enough.

        Raises:
            EndpointFault: Its model failed, said nothing, or would pass its own bounds; ``kind``
                begins with ``simulator``.
        """
        if self._turn_count >= self.simulator.max_turns:
            return None
        self._check_bounds()
        told = answer if self._turn_count else self._opening(answer)
        try:
            step = await self.calls.step(self.session, UserTurn(told), ANSWER_S)
        except TimeoutError as error:
            what = f"no answer within {ANSWER_S:g} s"
            raise self._fault(what, "simulator", is_transient=True) from error
        except EndpointFault as fault:
            raise self._fault(f"{fault.kind}: {fault}", "simulator", is_transient=True) from fault
        self.rounds.extend(step.rounds)
        if step.wanted or step.end != "answered":
            what = step.error or step.end or "a tool was called"
            raise self._fault(f"it did not answer: {what}", "simulator", is_transient=True)
        said = step.answer.strip()
        if not said:
            raise self._fault("it said nothing", "simulator_silent", is_transient=True)
        self._turn_count += 1
        return None if self.simulator.ends_with in said else UserTurn(said)

    async def close(self) -> None:
        """Ends the conversation with its model; never raises."""
        await self.session.close()

    @property
    def use(self) -> SimulatorUse:
        """What it said and cost so far."""
        return SimulatorUse(self.simulator.name, tuple(self.rounds), self._cost_usd())

    def _opening(self, answer: str) -> str:
        assert self.case.user is not None  # noqa: S101 - who opens a talk has looked
        return OPENING.format(
            goal=self.case.user.goal,
            said="\n".join(turn.text for turn in self.case.turns),
            answer=answer,
            ends_with=self.simulator.ends_with,
        )

    def _cost_usd(self) -> float | None:
        model = self.simulator.endpoint.requested_model
        return rounds_cost_usd(self.rounds, self.prices, model, self.started_at)

    def _check_bounds(self) -> None:
        tokens, cost = ZERO_USAGE, self._cost_usd()
        for one in self.rounds:
            tokens = tokens.plus(one.usage)
        limit = self.simulator.token_limit
        if limit is not None and (tokens.total_tokens or 0) >= limit:
            text = f"it used {tokens.total_tokens:,} tokens of at most {limit:,}"
            raise self._fault(text, "simulator_limit", is_transient=False)
        most = self.simulator.cost_limit_usd
        if most is not None and (cost or 0.0) >= most:
            text = f"it cost ${cost:.4f} of at most ${most:.4f}"
            raise self._fault(text, "simulator_limit", is_transient=False)

    def _fault(self, what: str, kind: str, *, is_transient: bool) -> EndpointFault:
        text = f"simulated user '{self.simulator.name}': {what}"
        return EndpointUnreachable(text, kind=kind, is_transient=is_transient)
