"""How a step becomes a Prefect task: an opaque piece of work under a readable name.

Prefect inspects the parameters of a task for futures, and stores what a failed task says. So a
task is given a label and a ``Work``, which Prefect takes for a leaf: parts, plans and trials stay
out of its sight, and of an error it sees the text without secrets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypedDict, TypeVar

from prefect import Task
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.client.schemas.objects import State, TaskRun

from watchkeeper.domain.redaction import Redactor
from watchkeeper.errors import BrokenEvaluation, StoreUnavailable
from watchkeeper.pipeline.steps.work import Workshop

T = TypeVar("T")

RETRY_DELAYS_S = [5.0, 20.0]
READ_TIMEOUT_S = 900.0


class StepFailed(Exception):
    """What Prefect is told of a failed step; whoever asked for the step gets the error itself."""

    def __init__(self, text: str, *, may_pass: bool) -> None:
        super().__init__(text)
        self.may_pass = may_pass


class Work(Generic[T]):
    """A step with its arguments bound, and what came of it."""

    __slots__ = ("_do", "_redactor", "error", "results")

    def __init__(self, do: Callable[[], Awaitable[T]], redactor: Redactor) -> None:
        self._do = do
        self._redactor = redactor
        self.error: Exception | None = None
        self.results: list[T] = []

    async def do(self) -> None:
        """Does it; the result is kept here and not handed to Prefect.

        Raises:
            StepFailed: The step raised; the error is kept here.
        """
        self.error = None
        try:
            self.results = [await self._do()]
        except Exception as error:  # noqa: BLE001 - raised again by ``perform``, as it is
            self.error = error
            text = self._redactor.text(f"{type(error).__name__}: {error}")
            raise StepFailed(text, may_pass=isinstance(error, StoreUnavailable)) from None


StepTask = Task[[str, Work[Any]], Coroutine[Any, Any, None]]


class TaskOptions(TypedDict):
    """The options of Prefect's ``task`` that are used here."""

    task_run_name: str
    cache_policy: CachePolicy
    persist_result: bool
    log_prints: bool
    retries: int
    retry_delay_seconds: list[float]
    retry_condition_fn: Callable[[Task[..., Any], TaskRun, State[Any]], bool]
    timeout_seconds: float | None


def _may_pass(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:  # noqa: ARG001
    """Whether a failure is trouble of the store that may be over in a moment."""
    return isinstance(state.data, StepFailed) and state.data.may_pass


def _options(retries: int, timeout_s: float | None = None) -> TaskOptions:
    """Nothing is cached or kept by Prefect: the store is the only memory.

    All of it is said, because a profile may set other defaults.
    """
    return TaskOptions(
        task_run_name="{label}",
        cache_policy=NO_CACHE,
        persist_result=False,
        log_prints=False,
        retries=retries,
        retry_delay_seconds=RETRY_DELAYS_S,
        retry_condition_fn=_may_pass,
        timeout_seconds=timeout_s,
    )


ONCE = _options(retries=0)
REPEATABLE = _options(retries=len(RETRY_DELAYS_S))  # equal records however often it is made
READ_ONLY = _options(retries=len(RETRY_DELAYS_S), timeout_s=READ_TIMEOUT_S)


async def perform(
    task: StepTask, label: str, do: Callable[[], Awaitable[T]], workshop: Workshop
) -> T:
    """What a step gives, after Prefect has run it as a task of that name.

    Raises:
        BrokenEvaluation: The step took longer than its task may.
        Exception: What the step raised, as it raised it.
    """
    work = Work(do, workshop.services.redactor)
    try:
        await task(label, work)
    except StepFailed:
        if work.error is None:
            raise
        raise work.error from None
    except TimeoutError as error:
        raise BrokenEvaluation(
            f"{label}: not done after {task.timeout_seconds:g} seconds and given up; look at the "
            "store's and the network's health, then start the same run again"
        ) from error
    return work.results[0]


def about(workshop: Workshop, run_id: str) -> str:
    """``support-agent × discovery``, for the name of a task; a rerun says so.

    A run that is not open in this process is named by its id.
    """
    run = workshop.runs.get(run_id)
    if run is None:
        return run_id
    manifest = run.plan.manifest
    name = f"{manifest.endpoint} × {manifest.suite}"
    return name if manifest.confirms is None else f"{name}, rerun {run_id.rpartition('confirm')[2]}"


def shard_label(workshop: Workshop, run_id: str, trial_id: str) -> str:
    """``support-agent × discovery: shard 3``: the shard that a planned trial belongs to."""
    run = workshop.runs[run_id]
    position = next(
        (at for at, one in enumerate(run.plan.trials) if one.trial_id == trial_id),
        0,
    )
    number = position // workshop.services.project.shard_trials + 1
    return f"{about(workshop, run_id)}: shard {number}"
