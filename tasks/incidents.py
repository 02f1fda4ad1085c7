"""Opens incidents and delivers messages as Prefect tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from prefect import task

from watchkeeper.domain.verdict import Verdict
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.tasks.work import ONCE, REPEATABLE, Work, perform


@task(name="incidents", **REPEATABLE)
async def incidents(label: str, work: Work[int]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Repeatable: every event and message has a key and is stored once."""
    await work.do()


@task(name="messages", **ONCE)
async def messages(label: str, work: Work[int]) -> None:  # noqa: ARG001 - Prefect shows the label
    """Not repeated: a message whose receipt could not be stored would be posted twice.

    What was not delivered waits in the outbox for the next night.
    """
    await work.do()


def open_incidents(steps: Steps) -> Callable[[Verdict], Awaitable[int]]:
    """``open_incidents`` as a task."""

    async def run(verdict: Verdict) -> int:
        label = f"{verdict.endpoint} × {verdict.suite}: incidents"
        do = partial(steps.open_incidents, verdict)
        return await perform(incidents, label, do, steps.workshop)

    return run


def deliver(steps: Steps) -> Callable[[], Awaitable[int]]:
    """``deliver`` as a task."""

    async def run() -> int:
        return await perform(messages, "messages", steps.deliver, steps.workshop)

    return run
