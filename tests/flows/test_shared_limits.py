"""Several workers share one account through a limit that Prefect keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate

from tests.flows.prefect_view import Prefect
from tests.projects import bench, case, script, scripted_endpoint, suite, write_project
from watchkeeper.domain.run import RunRequest
from watchkeeper.domain.trial import Trial
from watchkeeper.errors import BrokenEvaluation
from watchkeeper.flows.runs import FLOW
from watchkeeper.tasks.bundle import prefect_steps


def created(prefect: Prefect, name: str, limit: int) -> None:
    """A limit as ``prefect gcl create`` makes it."""
    made = GlobalConcurrencyLimitCreate(name=name, limit=limit)
    prefect.ask(lambda client: client.create_global_concurrency_limit(made))


def held(prefect: Prefect, name: str) -> int:
    """How many slots of a limit are taken."""

    async def ask(client: Any) -> int:
        limit = await client.read_global_concurrency_limit_by_name(name)
        return int(limit.active_slots)

    return prefect.ask(ask)


def shards(folder: Path, limit: str, during: Any = None, count: int = 2) -> list[Trial]:
    """Some shards of one run as tasks in a flow; ``during`` is called within each."""
    write_project(
        folder,
        endpoints={"agent": scripted_endpoint(concurrency=3, shared_limit=limit)},
        suites={"basic": suite([case(f"case-{number}") for number in range(4)])},
        scripts={"agent": script()},
    )
    made: list[Trial] = []

    @flow(name="test", **FLOW)
    async def whole() -> None:
        plain = bench(folder).steps()
        real = plain.run_shard

        async def watched(run_id: str, planned: Any) -> tuple[Trial, ...]:
            if during is not None:
                await asyncio.to_thread(during)
            return await real(run_id, planned)

        object.__setattr__(plain, "run_shard", watched)
        steps = prefect_steps(plain)
        plan = await steps.plan_run(RunRequest("run-1", "agent", "basic", "ci", "test", 1))
        try:
            parts = [plan.trials[at::count] for at in range(count)]
            for found in await asyncio.gather(*(steps.run_shard("run-1", one) for one in parts)):
                made.extend(found)
        finally:
            await steps.workshop.close("run-1", is_committed=False)

    asyncio.run(whole())
    return made


def test_a_shard_holds_what_it_can_use(tmp_path: Path, prefect: Prefect) -> None:
    """As many slots as the endpoint's concurrency, and all are given back."""
    created(prefect, "provider-a", 4)
    seen: list[int] = []
    made = shards(tmp_path, "provider-a", lambda: seen.append(held(prefect, "provider-a")), 1)
    assert len(made) == 12
    assert seen == [3]
    assert held(prefect, "provider-a") == 0


def test_a_limit_that_is_missing_is_told_with_how_to_make_it(
    tmp_path: Path, prefect: Prefect
) -> None:
    """Prefect itself would go on without it; nothing is called."""
    with pytest.raises(BrokenEvaluation, match="prefect gcl create absent --limit 3"):
        shards(tmp_path, "absent", count=1)


def test_a_limit_that_is_too_small_is_told(tmp_path: Path, prefect: Prefect) -> None:
    """It would be waited for in vain."""
    created(prefect, "narrow", 2)
    with pytest.raises(BrokenEvaluation, match="at least as large as the endpoint's concurrency"):
        shards(tmp_path, "narrow", count=1)


def test_shards_that_do_not_fit_wait_for_each_other(tmp_path: Path, prefect: Prefect) -> None:
    """All trials are made, and never more slots are taken than there are."""
    created(prefect, "provider-b", 4)
    seen: list[int] = []
    made = shards(tmp_path, "provider-b", lambda: seen.append(held(prefect, "provider-b")))
    assert len(made) == 12
    assert seen == [3, 3]
