"""What is open while a run goes on: adapter, journal, lock and spending, by run."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Adapter
from watchkeeper.domain.records import counted_trial, trial_from_rows
from watchkeeper.domain.run import RunPlan
from watchkeeper.domain.suite import Suite
from watchkeeper.domain.trial import Trial
from watchkeeper.errors import EndpointFault
from watchkeeper.pipeline.steps.instruments import close_simulators
from watchkeeper.rollout.attempt import TrialMaker
from watchkeeper.rollout.bounds import RequestBounds
from watchkeeper.rollout.breaker import Breaker
from watchkeeper.rollout.calls import Account
from watchkeeper.rollout.journal import Journal, RunLock, read_journal, read_transcript
from watchkeeper.rollout.limiter import Limiter
from watchkeeper.rollout.places import Places
from watchkeeper.rollout.progress import RunProgress
from watchkeeper.rollout.runner import TrialRunner
from watchkeeper.rollout.setting import Stage
from watchkeeper.rollout.simulated_user import OpenSimulator
from watchkeeper.rollout.spending import Spending, SpendingLimits
from watchkeeper.rollout.toolbox import load_python_tools
from watchkeeper.wiring import Services

Attempt = tuple[str, int]


@dataclass(slots=True)
class OpenRun:
    """One run that is being worked on in this process.

    ``fault`` is set where the endpoint could not even be asked what it serves: its trials are
    recorded as the harness errors that they are, without a call.
    """

    plan: RunPlan
    suite: Suite
    endpoint: Endpoint
    adapter: Adapter
    journal: Journal
    runner: TrialRunner
    fault: EndpointFault | None
    finished: set[Attempt]
    graded: set[Attempt]
    ungraded: dict[Attempt, dict[str, Any]]
    again: set[str]
    stack: contextlib.AsyncExitStack


@dataclass(slots=True)
class Workshop:
    """The runs that are open in this process, and what they share."""

    services: Services
    night: Spending | None = None
    runs: dict[str, OpenRun] = field(default_factory=dict)
    places: dict[str, Places] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)

    def journal_path(self, run_id: str) -> Path:
        """The write-ahead file of a run."""
        return self.services.run_folder(run_id) / "trials.jsonl"

    @contextlib.contextmanager
    def lock(self, run_id: str) -> Iterator[None]:
        """Holds a run for this process while it is prepared."""
        with RunLock(self.services.run_folder(run_id) / "lock"):
            yield

    async def open(
        self,
        plan: RunPlan,
        suite: Suite,
        endpoint: Endpoint,
        adapter: Adapter,
        fault: EndpointFault | None,
        simulators: Mapping[str, OpenSimulator],
    ) -> OpenRun:
        """Opens a planned run, with whatever was finished of it before."""
        run_id = plan.manifest.run_id
        services = self.services
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(adapter.close)
            stack.push_async_callback(close_simulators, simulators)
            stack.enter_context(RunLock(services.run_folder(run_id) / "lock"))
            journal = stack.enter_context(Journal(self.journal_path(run_id)))
            limits = SpendingLimits(
                run_usd=endpoint.run_budget_usd,
                run_tokens=endpoint.run_token_cap,
                trial_usd=suite.limits.cost_usd,
                trial_tokens=suite.limits.tokens,
            )
            spending = Spending(limits, self.night)
            maker = TrialMaker(
                plan=plan,
                suite=suite,
                endpoint=endpoint,
                adapter=adapter,
                stage=self._stage(endpoint, stack),
                prices=services.project.prices,
                redactor=services.redactor,
                clock=services.clock,
                places=self.places.setdefault(endpoint.name, Places(endpoint.concurrency)),
                account=self.account(endpoint, adapter),
                wait_s=services.project.wait_seconds,
                progress=self._followed(plan, stack),
                simulators=simulators,
            )
            runner = TrialRunner(
                maker=maker,
                spending=spending,
                journal=journal,
                patience=timedelta(minutes=services.project.provider_wait_minutes),
                finish_by=plan.manifest.finish_by,
            )
            run = OpenRun(
                plan=plan,
                suite=suite,
                endpoint=endpoint,
                adapter=adapter,
                journal=journal,
                runner=runner,
                fault=fault,
                finished=set(),
                graded=set(),
                ungraded={},
                again=set(),
                stack=stack.pop_all(),
            )
        try:
            self._recover(run, spending)
        except BaseException:
            await run.stack.aclose()  # the lock too: the same process may try again
            raise
        self.runs[run_id] = run
        return run

    def account(self, endpoint: Endpoint, adapter: Adapter) -> Account:
        """What everybody in this process shares who uses the same account and model."""
        bounds = RequestBounds(
            endpoint.concurrency, endpoint.requests_per_minute, endpoint.tokens_per_minute
        )
        name, services = adapter.account, self.services
        held = self.accounts.get(name)
        if held is None:
            held = self.accounts[name] = Account(
                Limiter(name, bounds, services.clock),
                Breaker(name, services.project.breaker_trials, services.clock, services.tell),
            )
        else:
            held.limiter.share_with(bounds)
        return held

    def _stage(self, endpoint: Endpoint, stack: contextlib.AsyncExitStack) -> Stage:
        """Where the run's trials are prepared.

        Workspaces are made outside of the project: what a program finds in the folders above its
        own (a git repository, notes for agents) is not part of any case.
        """
        services = self.services
        folder = tempfile.TemporaryDirectory(prefix="watchkeeper-", ignore_cleanup_errors=True)
        return Stage(
            endpoint=services.project.endpoint(endpoint.name),
            config_hash=endpoint.config_hash,
            tools=load_python_tools(endpoint.harness.tools, services.project.root),
            folder=Path(stack.enter_context(folder)),
            inherited=services.variables,
            always=bool(getattr(endpoint.settings, "needs_workspace", False)),
            tell=services.tell,
        )

    def _followed(self, plan: RunPlan, stack: contextlib.AsyncExitStack) -> RunProgress:
        """The run on the board, until it is closed."""
        manifest, board = plan.manifest, self.services.board
        stack.callback(board.drop, manifest.run_id)
        return board.follow(
            RunProgress(
                manifest.run_id,
                manifest.endpoint,
                manifest.suite,
                manifest.planned_count,
                self.services.clock,
            )
        )

    async def close(self, run_id: str, *, is_committed: bool) -> None:
        """Closes an open run; what a committed one kept on this machine goes."""
        run = self.runs.pop(run_id, None)
        if run is not None:
            await run.stack.aclose()
        if is_committed:
            shutil.rmtree(self.services.run_folder(run_id), ignore_errors=True)

    def unfinished_trials(self, run: OpenRun, trial_ids: set[str]) -> list[Trial]:
        """Finished trials among some that were never graded, read back from the journal."""
        path = self.journal_path(run.plan.manifest.run_id)
        wanted = [line for key, line in run.ungraded.items() if key[0] in trial_ids]
        found: list[Trial] = []
        for line in wanted:
            said = line.get("transcript") or read_transcript(path, line)
            found.append(trial_from_rows(line["trial"], said))
        return found

    def _recover(self, run: OpenRun, spending: Spending) -> None:
        """Takes over what this machine's journal and the store's staging area already hold."""
        run_id = run.plan.manifest.run_id
        promised = {trial.trial_id for trial in run.plan.trials}
        for line in read_journal(self.journal_path(run_id)):
            self._take(run, spending, line, promised)
        for line in self.services.records.staged(run_id, run.finished):
            if self._take(run, spending, line, promised):
                run.journal.append(line)

    def _take(
        self, run: OpenRun, spending: Spending, line: dict[str, Any], promised: set[str]
    ) -> bool:
        """Counts one stored line; whether it was new."""
        row = line.get("trial")
        if isinstance(row, dict):
            key = (str(row["trial_id"]), int(row["attempt"]))
            if key in run.finished or key[0] not in promised:
                return False
            run.finished.add(key)
            if row["status"] == "completed" and key not in run.graded:
                run.ungraded[key] = line
            trial = counted_trial(row)
            spending.count(trial)
            run.runner.maker.progress.counted(trial)
            if line.get("again"):
                run.again.add(key[0])
            return True
        grades = line.get("grades")
        if isinstance(grades, list) and grades:
            key = (str(grades[0]["trial_id"]), int(grades[0]["attempt"]))
            if key in run.graded or key[0] not in promised:
                return False
            run.graded.add(key)
            run.ungraded.pop(key, None)
            return True
        return False
