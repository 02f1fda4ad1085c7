"""A defect of our own in one endpoint × suite costs that one its verdict, and nobody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from tests.flows.nights import NO, gates, slot
from tests.projects import bench, case, script, scripted_endpoint, suite, write_project
from watchkeeper.pipeline.nightly import nightly


def test_the_other_pairs_owner_is_paged_all_the_same(tmp_path: Path) -> None:
    """The defect is told with its trace to whoever reads the log, and to the platform's owner."""
    names = ("first", "second")
    suites = {
        name: suite(
            [case(f"{name}-{number}") for number in range(4)],
            suite=name,
            categories=gates("page", facts=0.9),
        )
        for name in names
    }
    folder = write_project(
        tmp_path,
        endpoints={"agent": scripted_endpoint(suites=list(names))},
        suites=suites,
        scripts={"agent": script(NO)},
    )
    made = bench(folder, at=slot(1), variables={"SOME_KEY": "canary-word"})
    steps = made.steps()

    async def commit_run(run_id: str) -> bool:
        if "second" in run_id:
            raise KeyError("canary-word")
        return await steps.commit_run(run_id)

    result = asyncio.run(nightly(slot(1), replace(steps, commit_run=commit_run)))

    assert result.exit_code == 1
    first, second = result.pairs
    assert first.verdict is not None
    assert "a defect of Watchkeeper itself: KeyError" in str(second.error)
    sent = made.sent.getvalue()
    assert "[page for team]" in sent
    assert "Evaluation broken: agent on second, no verdict" in sent
    told = "\n".join(made.told)
    assert "Traceback" in told
    assert "test_defects.py" in told
    assert "canary-word" not in told + sent

    again = asyncio.run(nightly(slot(1), bench(folder, at=slot(1)).steps()))
    assert all(pair.verdict is not None for pair in again.pairs)
