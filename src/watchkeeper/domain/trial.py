"""One attempt at a case: how it ended, what it cost, and its trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from watchkeeper.domain.trajectory import Round, Trajectory

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


ChangeKind = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of the workspace that is not what it was at the start.

    ``diff`` is a unified diff of text files, cut to a bound; ``None`` where there is none to show.
    """

    path: str
    change: ChangeKind
    sha256: str | None
    byte_count: int | None
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class SimulatorUse:
    """What the model that played the user said and cost; its rounds are not the agent's."""

    simulator: str
    rounds: tuple[Round, ...]
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt at a planned trial, as it is stored.

    ``status`` says whether the agent had its chance: ``completed`` (also when it was silent,
    refused, raised or ran into a limit), ``harness_error`` (the infrastructure failed) or
    ``skipped`` (never started; ``error_kind`` says why). ``retry_count`` counts repeated
    requests, which are not rounds. ``latency_ms`` is the whole time, of which ``waited_ms`` was
    spent waiting for limits (ours and the provider's) and not at work. ``cost_usd`` is the
    agent's alone; the simulator's stands in ``simulator``. ``changes`` is what became of the
    workspace; ``None`` where the trial had none.
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
    waited_ms: float = 0.0
    simulator: SimulatorUse | None = None
    changes: tuple[FileChange, ...] | None = None

    @property
    def first_token_ms(self) -> float | None:
        """Time to the first piece of the first response; unknown where nothing was streamed."""
        rounds = self.trajectory.rounds
        return rounds[0].first_token_ms if rounds else None

    @property
    def served_model(self) -> str | None:
        """The model that answered; several are joined by ``+`` in order of first answer."""
        return "+".join(self.trajectory.served_models) or None
