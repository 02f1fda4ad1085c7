"""What a run may still spend: a trial starts only where the worst of those seen would fit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from watchkeeper.domain.trial import Trial

Refusal = Literal["run_budget", "token_cap", "night_budget"]


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """Bounds of one run; ``None`` means unbounded. ``trial_usd`` is what one trial may cost."""

    run_usd: float | None = None
    run_tokens: int | None = None
    trial_usd: float | None = None
    trial_tokens: int | None = None


class Spending:
    """Keeps what was spent and what trials in flight may still spend.

    Until one trial has finished nobody knows what a trial costs; where the suite does not say
    either, trials start one by one until the first has finished.
    """

    def __init__(self, limits: SpendingLimits, night: Spending | None = None) -> None:
        """``night`` is what all runs of the night share; its bound holds beside the run's."""
        self._limits = limits
        self._night = night
        self.spent_usd = 0.0
        self.spent_tokens = 0
        self._largest_usd = limits.trial_usd or 0.0
        self._largest_tokens = limits.trial_tokens or 0
        self._in_flight = 0
        self._finished = 0
        self._changed = asyncio.Condition()

    @property
    def is_bounded(self) -> bool:
        """Whether anything has to be asked at all."""
        return self._limits.run_usd is not None or self._limits.run_tokens is not None

    def count(self, trial: Trial) -> None:
        """Adds an attempt that was made before (a resumed run) or has just finished."""
        usd = trial.cost_usd or 0.0
        if trial.simulator is not None:  # who pays for the trial pays for its user too
            usd += trial.simulator.cost_usd or 0.0
        self._add(usd, trial.trajectory.usage.total_tokens or 0)
        if trial.status == "completed":
            self._finished += 1
        if self._night is not None:
            self._night.count(trial)

    def add_spent(self, usd: float, tokens: int = 0) -> None:
        """Adds what was spent before and elsewhere."""
        self.spent_usd += usd
        self.spent_tokens += tokens

    def _add(self, usd: float, tokens: int) -> None:
        self.spent_usd += usd
        self.spent_tokens += tokens
        self._largest_usd = max(self._largest_usd, usd)
        self._largest_tokens = max(self._largest_tokens, tokens)

    async def reserve(self) -> Refusal | None:
        """Lets one more trial start, or says which bound it would pass."""
        if self._night is not None and await self._night.reserve() is not None:
            return "night_budget"
        refusal = await self._reserve_here()
        if refusal is None:
            # Trials may have ended while this one waited for its turn: both bounds are asked
            # once more, with nothing in between.
            refusal = self._passed(self._in_flight)
            if refusal is None and self._night is not None:
                is_beyond = self._night._passed(self._night._in_flight) is not None
                refusal = "night_budget" if is_beyond else None
            if refusal is not None:
                await self.release()
        if refusal is not None and self._night is not None:
            await self._night.release()
        return refusal

    async def _reserve_here(self) -> Refusal | None:
        if not self.is_bounded:
            return None
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_known or self._in_flight == 0)
            refusal = self._passed(self._in_flight + 1)
            if refusal is None:
                self._in_flight += 1
        return refusal

    def _passed(self, in_flight: int) -> Refusal | None:
        """The bound that this many trials in flight may pass, at the worst that was seen."""
        usd, tokens = self._limits.run_usd, self._limits.run_tokens
        if usd is not None and (
            self.spent_usd >= usd or self.spent_usd + in_flight * self._largest_usd > usd
        ):
            return "run_budget"
        if tokens is not None and (
            self.spent_tokens >= tokens
            or self.spent_tokens + in_flight * self._largest_tokens > tokens
        ):
            return "token_cap"
        return None

    async def settle(self, trial: Trial) -> None:
        """Takes the finished trial's cost in place of its reservation."""
        self.count(trial)
        await self.release()
        if self._night is not None:
            await self._night.release()

    async def release(self) -> None:
        """Gives a reservation back."""
        if not self.is_bounded:
            return
        async with self._changed:
            self._in_flight -= 1
            self._changed.notify_all()

    @property
    def _is_known(self) -> bool:
        needs_usd = self._limits.run_usd is not None and self._limits.trial_usd is None
        needs_tokens = self._limits.run_tokens is not None and self._limits.trial_tokens is None
        return self._finished > 0 or not (needs_usd or needs_tokens)
