"""One attempt at a trial: its setting, its conversation, and the record of how it ended."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from watchkeeper.domain.case import Case
from watchkeeper.domain.endpoint import Endpoint, PriceTable
from watchkeeper.domain.ports import Adapter, Clock, Session, TrialBrief
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.run import RunPlan
from watchkeeper.domain.suite import Suite
from watchkeeper.domain.trajectory import Trajectory
from watchkeeper.domain.trial import FileChange, PlannedTrial, StopReason, Trial, TrialStatus
from watchkeeper.errors import EndpointFault
from watchkeeper.rollout.calls import Account, Calls
from watchkeeper.rollout.conversation import Conversation
from watchkeeper.rollout.places import Places
from watchkeeper.rollout.progress import RunProgress
from watchkeeper.rollout.setting import Stage
from watchkeeper.rollout.simulated_user import OpenSimulator, SimulatedTalk

MAX_ERROR_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class TrialMaker:
    """Makes attempts at the trials of one run.

    ``wait_s`` is what one trial may wait for its account's limits.
    """

    plan: RunPlan
    suite: Suite
    endpoint: Endpoint
    adapter: Adapter
    stage: Stage
    prices: PriceTable
    redactor: Redactor
    clock: Clock
    places: Places
    account: Account
    wait_s: float
    progress: RunProgress
    simulators: Mapping[str, OpenSimulator]

    async def make(self, case: Case, planned: PlannedTrial, attempt: int) -> tuple[Trial, bool]:
        """The record of an attempt, and whether a failure of the infrastructure may pass."""
        jitter = random.Random(f"{self.plan.manifest.seed}/{planned.trial_id}/{attempt}").random
        one = _Attempt(
            clock=self.clock,
            calls=self._calls(planned, self.account, self.endpoint.call_retries, jitter),
            started_at=self.clock.now(),
            started=self.clock.monotonic(),
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self._play(one, stack, case, planned, attempt)
        except EndpointFault as fault:
            one.status, one.kind, one.error = "harness_error", fault.kind, str(fault)
            one.is_transient = fault.is_transient
        except Exception as defect:  # noqa: BLE001 - our own bug is a record, not an end of the run
            one.status, one.kind = "harness_error", "internal"
            one.error = f"{type(defect).__name__}: {defect}"
        return self._recorded(one, planned, attempt), one.is_transient

    async def _play(
        self,
        one: _Attempt,
        stack: contextlib.AsyncExitStack,
        case: Case,
        planned: PlannedTrial,
        attempt: int,
    ) -> None:
        """Carries the attempt to its end; ``stack`` ends what was opened for it."""
        setting = await stack.enter_async_context(self.stage.set_for(case, planned.trial_id))
        brief = TrialBrief(
            case=case,
            limits=self.suite.limits,
            tools=setting.toolbox.specs,
            seed=self.plan.manifest.seed + attempt - 1,
            trial_id=planned.trial_id,
            workspace=setting.path,
        )
        one.started_at, one.started = self.clock.now(), self.clock.monotonic()
        session = await self._opened(brief)
        stack.push_async_callback(session.close)
        one.user = await self._simulated_user(one, brief, planned)
        if one.user is not None:
            stack.push_async_callback(one.user.close)
        one.conversation = Conversation(
            session=session,
            toolbox=setting.toolbox,
            case=case,
            limits=self.suite.limits,
            calls=one.calls,
            prices=self.prices,
            requested_model=self.endpoint.requested_model,
            clock=self.clock,
            user=one.user,
        )
        try:
            one.stop = await one.conversation.play()
            one.error = one.conversation.error
        finally:
            one.ended_at, one.ended = self.clock.now(), self.clock.monotonic()
        if setting.workspace is not None:
            one.changes = await setting.workspace.changes()

    def _recorded(self, one: _Attempt, planned: PlannedTrial, attempt: int) -> Trial:
        talk, user = one.conversation, one.user
        ended = one.ended if one.ended is not None else self.clock.monotonic()
        waited_s = one.calls.waited_s + (user.calls.waited_s if user is not None else 0.0)
        return Trial(
            run_id=self.plan.manifest.run_id,
            trial_id=planned.trial_id,
            attempt=attempt,
            case_id=planned.case_id,
            index=planned.index,
            status=one.status,
            stop_reason=one.stop,
            trajectory=talk.trajectory if talk is not None else Trajectory(),
            requested_model=self.endpoint.requested_model,
            started_at=one.started_at,
            ended_at=one.ended_at or self.clock.now(),
            latency_ms=(ended - one.started) * 1000,
            cost_usd=talk.cost_usd if talk is not None else 0.0,
            retry_count=one.calls.retry_count,
            error_kind=one.kind,
            # Redacted before it is cut: half a secret is one that nobody recognises.
            error=self.redactor.text(one.error)[:MAX_ERROR_CHARACTERS] if one.error else None,
            waited_ms=waited_s * 1000,
            simulator=user.use if user is not None else None,
            changes=one.changes,
        )

    async def _opened(self, brief: TrialBrief) -> Session:
        try:
            return await self.adapter.open(brief)
        except EndpointFault as fault:
            self.account.breaker.failed(brief.trial_id, fault)
            raise

    async def _simulated_user(
        self, one: _Attempt, brief: TrialBrief, planned: PlannedTrial
    ) -> SimulatedTalk | None:
        """The user's side of a trial where a model plays it, with no tools of its own."""
        if brief.case.user is None:
            return None
        opened = self.simulators[brief.case.user.simulator]
        retries = opened.simulator.endpoint.call_retries
        return SimulatedTalk(
            simulator=opened.simulator,
            case=brief.case,
            session=await opened.adapter.open(replace(brief, tools=(), workspace=None)),
            calls=self._calls(planned, opened.account, retries, one.calls.jitter),
            prices=self.prices,
            started_at=one.started_at,
        )

    def _calls(
        self, planned: PlannedTrial, account: Account, retries: int, jitter: Callable[[], float]
    ) -> Calls:
        return Calls(
            trial_id=planned.trial_id,
            retries=retries,
            clock=self.clock,
            jitter=jitter,
            account=account,
            places=self.places,
            wait_s=self.wait_s,
            waits=self.progress.waits,
        )


@dataclass(slots=True)
class _Attempt:
    """What is known of an attempt while it goes on."""

    clock: Clock
    calls: Calls
    started_at: datetime
    started: float
    ended_at: datetime | None = None
    ended: float | None = None
    status: TrialStatus = "completed"
    stop: StopReason = "not_finished"
    kind: str | None = None
    error: str | None = None
    is_transient: bool = False
    conversation: Conversation | None = None
    user: SimulatedTalk | None = None
    changes: tuple[FileChange, ...] | None = field(default=None)
