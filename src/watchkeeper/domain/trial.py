"""One attempt at a case: how it ended, what it cost, and its trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from watchkeeper.domain.trajectory import Trajectory

TrialStatus = Literal["completed", "harness_error", "skipped"]
StopReason = Literal[
    "answered",
    "silent",
    "refused",
    "truncated",
    "agent_error",
    "round_limit",
    "time_limit",
    "token_limit",
    "cost_limit",
    "not_finished",
]


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial that will be counted whatever happens to it; ``index`` counts from 0."""

    trial_id: str
    case_id: str
    index: int


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt at a planned trial, as it is stored.

    ``status`` says whether the agent had its chance: ``completed`` (also when it was silent,
    refused, raised or ran into a limit), ``harness_error`` (the infrastructure failed) or
    ``skipped`` (never started; ``error_kind`` says why). ``retry_count`` counts repeated
    requests, which are not rounds.
    """

    run_id: str
    trial_id: str
    attempt: int
    case_id: str
    index: int
    status: TrialStatus
    stop_reason: StopReason
    trajectory: Trajectory
    requested_model: str | None
    started_at: datetime
    ended_at: datetime
    latency_ms: float | None
    cost_usd: float | None
    retry_count: int = 0
    error_kind: str | None = None
    error: str | None = None

    @property
    def served_model(self) -> str | None:
        """The model that answered; several are joined by ``+`` in order of first answer."""
        return "+".join(self.trajectory.served_models) or None
