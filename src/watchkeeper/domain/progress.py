"""How far a run is at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One run at one moment.

    ``done_count`` counts planned trials with a record, whatever became of them;
    ``broken_count`` those of them that the infrastructure failed or that were skipped.
    ``cost_usd`` is what is known of the spending, ``unpriced_count`` how many attempts it leaves
    out. ``seconds`` since this process began with the run; ``left_s`` is an estimate, ``None``
    until a trial was made here.
    """

    run_id: str
    endpoint: str
    suite: str
    planned_count: int
    done_count: int
    broken_count: int
    in_flight_count: int
    waiting_count: int
    round_count: int
    cost_usd: float
    unpriced_count: int
    seconds: float
    left_s: float | None

    @property
    def share(self) -> float:
        """Done of planned, between 0 and 1; a run that plans nothing is done."""
        return self.done_count / self.planned_count if self.planned_count else 1.0
