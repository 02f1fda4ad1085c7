"""A trial that another system made, as one of its files tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.domain.endpoint import PriceTable
from watchkeeper.domain.pricing import rounds_cost_usd
from watchkeeper.domain.trajectory import Trajectory, Usage
from watchkeeper.domain.trial import StopReason, TrialStatus


@dataclass(frozen=True, slots=True)
class ImportedTrial:
    """One trajectory of a foreign file with what the file says about it.

    ``source`` is where it stands (``runs.json: [3]``); ``index`` counts the trials of a case from
    0. ``scores`` are the other system's, as data. ``usage`` is set where the file tells only the
    tokens of the whole trial; ``cost_usd`` is the agent's as the file says it, the simulated
    user's stands apart. ``is_batch`` says that the provider's batch price applies.
    """

    source: str
    case_id: str
    index: int
    trajectory: Trajectory
    stop_reason: StopReason
    status: TrialStatus = "completed"
    scores: Mapping[str, object] = field(default_factory=dict)
    requested_model: str | None = None
    started_at: datetime | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    simulator_cost_usd: float | None = None
    is_batch: bool = False
    retry_count: int = 0
    error: str | None = None

    @property
    def served_model(self) -> str | None:
        """The model that answered; several are joined by ``+`` in order of first answer."""
        return "+".join(self.trajectory.served_models) or None

    def priced_usd(self, prices: PriceTable) -> float | None:
        """The agent's dollars by a price table at the trial's start, else as the file says."""
        if self.started_at is None or not self.trajectory.rounds:
            return self.cost_usd
        cost = rounds_cost_usd(
            self.trajectory.rounds,
            prices,
            self.requested_model,
            self.started_at,
            is_batch=self.is_batch,
        )
        return self.cost_usd if cost is None else cost
