"""How far the runs of this process are: what people are shown while they wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from watchkeeper.domain.ports import Clock
from watchkeeper.domain.progress import Progress
from watchkeeper.domain.trial import Trial


@dataclass(slots=True)
class RunProgress:
    """Follows one run; every method is called from the loop that runs its trials."""

    run_id: str
    endpoint: str
    suite: str
    planned_count: int
    clock: Clock
    _states: dict[str, bool] = field(default_factory=dict)
    _made_count: int = 0
    _in_flight_count: int = 0
    _waiting_count: int = 0
    _round_count: int = 0
    _cost_usd: float = 0.0
    _unpriced_count: int = 0
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock.monotonic()

    def begun(self) -> None:
        """A trial has started."""
        self._in_flight_count += 1

    def waits(self, change: int) -> None:
        """One more (+1) or one fewer (-1) trial waits for a limit."""
        self._waiting_count += change

    def ended(self, trial: Trial) -> None:
        """A trial that had started has its record."""
        self._in_flight_count -= 1
        self._made_count += 1
        self.counted(trial)

    def counted(self, trial: Trial) -> None:
        """A record that was there before, or that took no call."""
        self._states[trial.trial_id] = trial.status != "completed"
        self._round_count += len(trial.trajectory.rounds)
        spent = [trial.cost_usd]
        if trial.simulator is not None:
            spent.append(trial.simulator.cost_usd)
        self._cost_usd += sum(usd for usd in spent if usd is not None)
        self._unpriced_count += any(usd is None for usd in spent)

    def now(self) -> Progress:
        """The run as it is."""
        seconds = self.clock.monotonic() - self._started
        done = len(self._states)
        left = max(0, self.planned_count - done)
        return Progress(
            run_id=self.run_id,
            endpoint=self.endpoint,
            suite=self.suite,
            planned_count=self.planned_count,
            done_count=done,
            broken_count=sum(self._states.values()),
            in_flight_count=self._in_flight_count,
            waiting_count=self._waiting_count,
            round_count=self._round_count,
            cost_usd=self._cost_usd,
            unpriced_count=self._unpriced_count,
            seconds=seconds,
            left_s=seconds / self._made_count * left if self._made_count else None,
        )


class ProgressBoard:
    """The runs of this process, in the order in which they began."""

    def __init__(self) -> None:
        self._runs: dict[str, RunProgress] = {}
        self._newest: dict[tuple[str, str], RunProgress] = {}

    def follow(self, run: RunProgress) -> RunProgress:
        """Shows a run from now on."""
        self._runs[run.run_id] = run
        self._newest[run.endpoint, run.suite] = run
        return run

    def drop(self, run_id: str) -> None:
        """A run has ended, whatever became of it."""
        self._runs.pop(run_id, None)

    def newest(self, endpoint: str, suite: str) -> RunProgress | None:
        """The run of an endpoint × suite that began last, ended or not."""
        return self._newest.get((endpoint, suite))

    def now(self) -> tuple[Progress, ...]:
        """Every run that is being worked on; may be asked from any thread."""
        return tuple(run.now() for run in list(self._runs.values()))
