"""One comparison: screen → confirm by fresh trials → decide → store the verdict."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from watchkeeper.domain.identity import confirmation_run_id
from watchkeeper.domain.run import Manifest, RunRequest
from watchkeeper.domain.verdict import Verdict
from watchkeeper.pipeline.evaluate import after_first_call, evaluate
from watchkeeper.pipeline.steps import comparing
from watchkeeper.pipeline.steps.bundle import Steps
from watchkeeper.stats.served import alike_served


async def compare(run_id: str, steps: Steps) -> Verdict:
    """The verdict of a committed run, concluded once and stored.

    Suspects are examined with fresh trials, which are runs of their own and survive a restart.
    The fresh trials of a nightly run are made later than the night's, because trouble at the
    provider passes.

    Raises:
        BrokenEvaluation: It could not be concluded; what was committed stays.
    """
    with after_first_call():
        return await _conclude(run_id, steps)


async def _conclude(run_id: str, steps: Steps) -> Verdict:
    held = await steps.stored_verdict(run_id)
    if held is not None:
        return held
    decision = await steps.open_decision(run_id)
    manifest = decision.night.manifest
    services = steps.workshop.services
    fresh_runs: list[str] = []
    notes: list[str] = []
    while need := decision.confirmation.next_batch():
        batch = len(fresh_runs) + 1
        fresh_id = confirmation_run_id(run_id, batch)
        if batch == 1 and manifest.purpose == "nightly":
            await _wait(fresh_id, steps)
        await evaluate(_request(manifest, fresh_id, batch, need), steps)
        fresh_runs.append(fresh_id)
        facts = await steps.run_facts(fresh_id)
        if any(fact.critical_failure_count for fact in facts):
            # What a fresh trial shows is shown: a critical failure needs no second one.
            found = await asyncio.to_thread(comparing.critical_failures, services, fresh_id)
            decision.night = replace(decision.night, critical=(*decision.night.critical, *found))
        alike, note = alike_served(facts, decision.served.compared(decision.night.facts))
        notes.extend([note] if note is not None else [])
        if facts and not alike:
            decision.confirmation.abandon()
            break
        decision.confirmation.add(alike)
    verdict = decision.verdict(services.clock.now(), fresh_runs, notes)
    return await steps.store_verdict(verdict)


async def _wait(fresh_id: str, steps: Steps) -> None:
    services = steps.workshop.services
    minutes = services.project.confirm_delay_minutes
    if minutes <= 0 or await steps.is_committed(fresh_id):
        return
    services.tell(f"suspects found; fresh trials begin in {minutes:g} minutes")
    await services.clock.sleep(minutes * 60)


def _request(manifest: Manifest, fresh_id: str, batch: int, need: dict[str, int]) -> RunRequest:
    return RunRequest(
        run_id=fresh_id,
        endpoint=manifest.endpoint,
        suite=manifest.suite,
        purpose="confirm",
        trigger=f"suspects of {manifest.run_id}",
        seed=manifest.seed + batch,
        slot_at=manifest.slot_at,
        trial_counts=need,
        confirms=manifest.run_id,
        finish_by=manifest.finish_by,
    )
