"""Trials of one shard, at the same time within bounds, each written down when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchkeeper.domain.case import Case
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.records import transcript_row, trial_row
from watchkeeper.domain.run import CaseStamp, RunPlan
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.domain.trial import PlannedTrial, Trial, TrialStatus
from watchkeeper.rollout.attempt import MAX_ERROR_CHARACTERS, TrialMaker
from watchkeeper.rollout.breaker import Outage
from watchkeeper.rollout.journal import Journal
from watchkeeper.rollout.spending import Spending

MAX_TRIAL_ATTEMPTS = 2


@dataclass(slots=True)
class TrialRunner:
    """Runs planned trials of one run against one endpoint.

    ``finish_by`` is the time after which no further trial starts, ``patience`` how long an outage
    is waited for where there is no ``finish_by``.
    """

    maker: TrialMaker
    spending: Spending
    journal: Journal
    patience: timedelta
    finish_by: datetime | None = None
    _cases: dict[str, Case] = field(init=False)
    _stamps: dict[str, CaseStamp] = field(init=False)
    _lines: dict[tuple[str, int], dict[str, object]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._cases = {case.id: case for case in self.maker.suite.cases}
        self._stamps = {stamp.case_id: stamp for stamp in self.maker.plan.manifest.cases}

    def case(self, case_id: str) -> Case:
        """The case of that id."""
        return self._cases[case_id]

    async def run(
        self, planned: Sequence[PlannedTrial], owed: Sequence[PlannedTrial] = ()
    ) -> tuple[Trial, ...]:
        """One record for every planned trial, attempts that failed included.

        A trial that the infrastructure failed is attempted once more, at the end of the shard
        and by the same rule for every case, where the fault was a passing one.

        Args:
            planned: Trials without a record.
            owed: Trials whose first attempt failed before and who are owed their second.
        """
        first = await asyncio.gather(*(self._run_one(trial, 1) for trial in planned))
        by_id = {trial.trial_id: trial for trial in planned}
        again = [
            by_id[trial.trial_id]
            for trial, is_transient in first
            if trial is not None and trial.status == "harness_error" and is_transient
        ]
        second = await asyncio.gather(
            *(self._run_one(trial, MAX_TRIAL_ATTEMPTS) for trial in (*again, *owed))
        )
        return tuple(trial for trial, _ in (*first, *second) if trial is not None)

    def take_lines(self, keys: Collection[tuple[str, int]]) -> list[dict[str, object]]:
        """The journal's lines of some attempts that this process made, each handed out once."""
        return [self._lines.pop(key) for key in keys if key in self._lines]

    def record(self, trial: Trial, *, again: bool = False) -> None:
        """Writes an attempt to the journal, without secrets; ``again``: it is owed another."""
        row = trial_row(trial, self._stamps[trial.case_id], self.maker.plan.manifest)
        line = {
            "trial": self.maker.redactor.value(row),
            "transcript": self.maker.redactor.value(transcript_row(trial)),
            "again": again,
        }
        self.journal.append(line)
        self._lines[trial.trial_id, trial.attempt] = line

    async def _run_one(self, planned: PlannedTrial, attempt: int) -> tuple[Trial | None, bool]:
        """The record of one attempt, and whether a failure of it may pass.

        A second attempt for which there is no time or budget left, or no provider, is no record:
        the first stays. A trial that an outage skipped is owed an attempt, should the run be
        started again before it is committed.
        """
        async with self.maker.places.trial():
            with self.maker.account.breaker.watching(planned.trial_id):
                refusal = await self._refusal(planned)
                if refusal is None:
                    self.maker.progress.begun()
                    trial, is_transient = await self.maker.make(
                        self._cases[planned.case_id], planned, attempt
                    )
                    self.maker.progress.ended(trial)
                    await self.spending.settle(trial)
                elif attempt > 1:
                    return None, False
                else:
                    trial, is_transient = self._skipped(planned, refusal), False
                    self.maker.progress.counted(trial)
        has_failed = trial.status == "harness_error" and is_transient
        is_owed = attempt == 1 and (has_failed or isinstance(refusal, Outage))
        self.record(trial, again=is_owed)
        return trial, is_transient

    async def _refusal(self, planned: PlannedTrial) -> str | Outage | None:
        """Why a trial may not begin, or ``None``: it may, and its cost is reserved."""
        if self._is_late():
            return "finish_by"
        self.maker.progress.waits(1)
        try:
            outage = await self.maker.account.breaker.admit(
                planned.trial_id, self.patience, self.finish_by
            )
        finally:
            self.maker.progress.waits(-1)
        if outage is not None:
            return outage
        return "finish_by" if self._is_late() else await self.spending.reserve()

    def _is_late(self) -> bool:
        return self.finish_by is not None and self.maker.clock.now() >= self.finish_by

    def _skipped(self, planned: PlannedTrial, reason: str | Outage) -> Trial:
        now = self.maker.clock.now()
        kind = reason.kind if isinstance(reason, Outage) else reason
        error = self.maker.redactor.text(reason.text) if isinstance(reason, Outage) else None
        return unmade_trial(
            self.maker.plan, self.maker.endpoint, planned, now, "skipped", kind, error
        )


def unmade_trial(
    plan: RunPlan,
    endpoint: Endpoint,
    planned: PlannedTrial,
    at: datetime,
    status: TrialStatus,
    kind: str,
    error: str | None = None,
) -> Trial:
    """The record of a trial for which no call was made; it cost nothing and took no time."""
    return Trial(
        run_id=plan.manifest.run_id,
        trial_id=planned.trial_id,
        attempt=1,
        case_id=planned.case_id,
        index=planned.index,
        status=status,
        stop_reason="not_finished",
        trajectory=Trajectory(),
        requested_model=endpoint.requested_model,
        started_at=at,
        ended_at=at,
        latency_ms=None,
        cost_usd=0.0,
        error_kind=kind,
        error=error[:MAX_ERROR_CHARACTERS] if error else None,
    )
