"""inspect-ai: it owns the tool loop, the model client, the epochs and the log."""

from __future__ import annotations

import json
import os
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, tool

JOB = json.loads(Path(os.environ["BENCH_JOB"]).read_text())


@tool
def lookup() -> Tool:
    """The one tool."""

    async def execute(id: int) -> str:  # noqa: A002 - the model's word for it
        """Looks something up.

        Args:
            id: What to look up.
        """
        return f"found {id}"

    return execute


@task
def bench() -> Task:
    """The job's questions, each answered with ``yes``."""
    samples = [Sample(input=one, target=JOB["answer"]) for one in JOB["questions"]]
    steps = [use_tools(lookup()), generate()] if JOB["rounds"] > 1 else [generate()]
    return Task(dataset=MemoryDataset(samples), solver=steps, scorer=includes())
