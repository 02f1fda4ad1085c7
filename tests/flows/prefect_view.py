"""What Prefect has recorded, asked through its API as its pages would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import prefect.settings
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
    FlowRunFilter,
    FlowRunFilterName,
    FlowRunFilterParentFlowRunId,
    TaskRunFilter,
    TaskRunFilterFlowRunId,
)
from prefect.client.schemas.objects import FlowRun, TaskRun
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

PATIENCE_S = 20.0
T = TypeVar("T")


@contextmanager
def own_prefect(home: Path, **settings: Any) -> Iterator[None]:
    """No server is configured in this context, and everything of Prefect's is in one folder."""
    updates = {getattr(prefect.settings, name): value for name, value in settings.items()}
    updates[PREFECT_HOME] = home
    with temporary_settings(updates, restore_defaults={PREFECT_API_URL}):
        yield


@dataclass(frozen=True)
class Prefect:
    """What Prefect has recorded, asked through its API."""

    api_url: str

    def ask(self, question: Callable[[PrefectClient], Awaitable[T]]) -> T:
        """The answer to a question."""

        async def asked() -> T:
            async with get_client() as client:
                return await question(client)

        return asyncio.run(asked())

    def flow_run(self, name: str) -> FlowRun:
        """The only flow run of that name."""
        chosen = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
        (found,) = self.ask(lambda client: client.read_flow_runs(flow_run_filter=chosen))
        return found

    def subflow_runs(self, parent: FlowRun) -> list[FlowRun]:
        """The flow runs within a flow run."""
        chosen = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[parent.id]))
        return self.ask(lambda client: client.read_flow_runs(flow_run_filter=chosen))

    def task_runs(self, parent: FlowRun, *, at_least: int) -> list[TaskRun]:
        """The task runs of a flow run in order of their start, once that many are recorded.

        Prefect records them from events, which arrive a moment later.
        """
        chosen = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[parent.id]))
        found: list[TaskRun] = []
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            found = self.ask(lambda client: client.read_task_runs(task_run_filter=chosen))
            if len(found) >= at_least and all(one.state and one.state.is_final() for one in found):
                break
            time.sleep(0.1)
        return sorted(found, key=lambda one: str(one.start_time))

    def pair_run(self, name: str, run_id: str) -> FlowRun:
        """The only flow run of a pair that worked out a run."""
        chosen = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
        runs = self.ask(lambda client: client.read_flow_runs(flow_run_filter=chosen))
        (found,) = [one for one in runs if one.parameters.get("run_id") == run_id]
        return found

    def task_run_names(self, parent: FlowRun, *, at_least: int) -> list[str]:
        """The names of the task runs of a flow run."""
        return [one.name for one in self.task_runs(parent, at_least=at_least)]

    def markdown(self, run: FlowRun) -> str:
        """The only page of text of a flow run."""
        data, _ = self._artifact(run, "markdown")
        assert isinstance(data, str)
        return data

    def progress(self, run: FlowRun) -> tuple[float, str]:
        """How far a flow run is, in percent, and the line beside it."""
        data, described = self._artifact(run, "progress")
        assert isinstance(data, int | float)
        return data, described or ""

    def _artifact(self, run: FlowRun, kind: str) -> tuple[Any, str | None]:
        chosen = ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]),
            type=ArtifactFilterType(any_=[kind]),
        )
        (found,) = self.ask(lambda client: client.read_artifacts(artifact_filter=chosen))
        return found.data, found.description
