"""Trials of one shard, at the same time within bounds, each written down when it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from watchkeeper.domain.case import Case
from watchkeeper.domain.endpoint import Endpoint, PriceTable
from watchkeeper.domain.ports import Adapter, Clock, Session, TrialBrief
from watchkeeper.domain.records import transcript_row, trial_row
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.run import CaseStamp, RunPlan
from watchkeeper.domain.suite import Suite
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.domain.trial import FileChange, PlannedTrial, StopReason, Trial, TrialStatus
from watchkeeper.errors import EndpointFault
from watchkeeper.rollout.breaker import Outage
from watchkeeper.rollout.calls import Account, Calls
from watchkeeper.rollout.conversation import Conversation
from watchkeeper.rollout.journal import Journal
from watchkeeper.rollout.places import Places
from watchkeeper.rollout.progress import RunProgress
from watchkeeper.rollout.setting import Stage
from watchkeeper.rollout.simulated_user import OpenSimulator, RetriedSession, SimulatedTalk
from watchkeeper.rollout.spending import Spending

MAX_TRIAL_ATTEMPTS = 2
MAX_ERROR_CHARACTERS = 1000


@dataclass(slots=True)
class TrialRunner:
    """Runs planned trials of one run against one endpoint.

    ``finish_by`` is the time after which no further trial starts, ``wait_s`` what one trial may
    wait for its account's limits, ``patience`` how long an outage is waited for where there is no
    ``finish_by``.
    """

    plan: RunPlan
    suite: Suite
    endpoint: Endpoint
    adapter: Adapter
    stage: Stage
    prices: PriceTable
    spending: Spending
    journal: Journal
    redactor: Redactor
    clock: Clock
    places: Places
    account: Account
    wait_s: float
    patience: timedelta
    progress: RunProgress
    simulators: Mapping[str, OpenSimulator] = field(default_factory=dict)
    finish_by: datetime | None = None
    _cases: dict[str, Case] = field(init=False)
    _stamps: dict[str, CaseStamp] = field(init=False)
    _lines: dict[tuple[str, int], dict[str, object]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._cases = {case.id: case for case in self.suite.cases}
        self._stamps = {stamp.case_id: stamp for stamp in self.plan.manifest.cases}

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
        row = trial_row(trial, self._stamps[trial.case_id], self.plan.manifest)
        line = {
            "trial": self.redactor.value(row),
            "transcript": self.redactor.value(transcript_row(trial)),
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
        async with self.places.trial():
            with self.account.breaker.watching(planned.trial_id):
                refusal = await self._refusal(planned)
                if refusal is None:
                    self.progress.begun()
                    trial, is_transient = await self._attempt(planned, attempt)
                    self.progress.ended(trial)
                    await self.spending.settle(trial)
                elif attempt > 1:
                    return None, False
                else:
                    trial, is_transient = self._skipped(planned, refusal), False
                    self.progress.counted(trial)
        has_failed = trial.status == "harness_error" and is_transient
        is_owed = attempt == 1 and (has_failed or isinstance(refusal, Outage))
        self.record(trial, again=is_owed)
        return trial, is_transient

    async def _refusal(self, planned: PlannedTrial) -> str | Outage | None:
        """Why a trial may not begin, or ``None``: it may, and its cost is reserved."""
        if self._is_late():
            return "finish_by"
        self.progress.waits(1)
        try:
            outage = await self.account.breaker.admit(
                planned.trial_id, self.patience, self.finish_by
            )
        finally:
            self.progress.waits(-1)
        if outage is not None:
            return outage
        return "finish_by" if self._is_late() else await self.spending.reserve()

    def _is_late(self) -> bool:
        return self.finish_by is not None and self.clock.now() >= self.finish_by

    async def _attempt(self, planned: PlannedTrial, attempt: int) -> tuple[Trial, bool]:
        case = self._cases[planned.case_id]
        seed = self.plan.manifest.seed
        started_at, started = self.clock.now(), self.clock.monotonic()
        conversation: Conversation | None = None
        status: TrialStatus = "completed"
        stop: StopReason = "not_finished"
        kind: str | None = None
        error: str | None = None
        is_transient = False
        user: SimulatedTalk | None = None
        changes: tuple[FileChange, ...] | None = None
        jitter = random.Random(f"{seed}/{planned.trial_id}/{attempt}").random
        calls = Calls(
            trial_id=planned.trial_id,
            retries=self.endpoint.call_retries,
            clock=self.clock,
            jitter=jitter,
            account=self.account,
            places=self.places,
            wait_s=self.wait_s,
            waits=self.progress.waits,
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                setting = await stack.enter_async_context(
                    self.stage.set_for(case, planned.trial_id)
                )
                brief = TrialBrief(
                    case=case,
                    limits=self.suite.limits,
                    tools=setting.toolbox.specs,
                    seed=seed + attempt - 1,
                    trial_id=planned.trial_id,
                    workspace=setting.path,
                )
                started_at, started = self.clock.now(), self.clock.monotonic()
                session = await self._opened(brief)
                stack.push_async_callback(session.close)
                user = await self._simulated_user(brief, started_at, jitter)
                if user is not None:
                    stack.push_async_callback(user.close)
                conversation = Conversation(
                    session=session,
                    toolbox=setting.toolbox,
                    case=case,
                    limits=self.suite.limits,
                    calls=calls,
                    prices=self.prices,
                    requested_model=self.endpoint.requested_model,
                    clock=self.clock,
                    user=user,
                )
                stop = await conversation.play()
                error = conversation.error
                if setting.workspace is not None:
                    changes = await setting.workspace.changes()
        except EndpointFault as fault:
            status, kind, error = "harness_error", fault.kind, str(fault)
            is_transient = fault.is_transient
        except Exception as fault:  # noqa: BLE001 - our own bug is a record, not an end of the run
            status, kind, error = "harness_error", "internal", f"{type(fault).__name__}: {fault}"
        return (
            Trial(
                run_id=self.plan.manifest.run_id,
                trial_id=planned.trial_id,
                attempt=attempt,
                case_id=planned.case_id,
                index=planned.index,
                status=status,
                stop_reason=stop,
                trajectory=conversation.trajectory if conversation else Trajectory(),
                requested_model=self.endpoint.requested_model,
                started_at=started_at,
                ended_at=self.clock.now(),
                latency_ms=(self.clock.monotonic() - started) * 1000,
                cost_usd=conversation.cost_usd if conversation else 0.0,
                retry_count=calls.retry_count,
                error_kind=kind,
                # Redacted before it is cut: half a secret is one that nobody recognises.
                error=self.redactor.text(error)[:MAX_ERROR_CHARACTERS] if error else None,
                waited_ms=calls.waited_s * 1000,
                simulator=user.use if user is not None else None,
                changes=changes,
            ),
            is_transient,
        )

    async def _opened(self, brief: TrialBrief) -> Session:
        try:
            return await self.adapter.open(brief)
        except EndpointFault as fault:
            self.account.breaker.failed(brief.trial_id, fault)
            raise

    async def _simulated_user(
        self, brief: TrialBrief, at: datetime, jitter: Callable[[], float]
    ) -> SimulatedTalk | None:
        """The user's side of a trial where a model plays it, with no tools of its own."""
        if brief.case.user is None:
            return None
        opened = self.simulators[brief.case.user.simulator]
        session = await opened.adapter.open(replace(brief, tools=(), workspace=None))
        asking = RetriedSession(session, opened.simulator.endpoint.call_retries, self.clock, jitter)
        return SimulatedTalk(opened.simulator, brief.case, asking, self.prices, at)

    def _skipped(self, planned: PlannedTrial, reason: str | Outage) -> Trial:
        now = self.clock.now()
        kind = reason.kind if isinstance(reason, Outage) else reason
        error = self.redactor.text(reason.text) if isinstance(reason, Outage) else None
        return unmade_trial(self.plan, self.endpoint, planned, now, "skipped", kind, error)


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
