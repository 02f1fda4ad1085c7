"""Makes a finished run part of history."""

from __future__ import annotations

import asyncio
from pathlib import Path

from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.store.catalog import publish_catalog
from watchkeeper.store.payloads import to_json


async def commit_run(workshop: Workshop, run_id: str) -> bool:
    """Whether this call made the commit; False: the run was committed by another writer."""
    run = workshop.runs[run_id]
    services = workshop.services
    run.journal.sync()
    manifest = run.plan.manifest
    at = manifest.slot_at or manifest.planned_at
    created = await asyncio.to_thread(
        services.records.commit,
        manifest=to_json(manifest),
        journals=[workshop.journal_path(run_id)],
        run_date=f"{at:%Y-%m-%d}",
        committed_at=services.clock.now(),
        token=services.token(),
    )
    await asyncio.to_thread(services.records.clear_staging, run_id)
    return created


async def clear_away(workshop: Workshop, run_id: str) -> None:
    """Removes what a run that is part of history kept aside, here and in the store.

    A process that is killed right after its commit leaves it behind.
    """
    await workshop.close(run_id, is_committed=True)
    await asyncio.to_thread(workshop.services.records.clear_staging, run_id)


def refresh_catalog(workshop: Workshop) -> Path | None:
    """Publishes catalog.duckdb for other clients; its trouble is told and never stops a night."""
    services = workshop.services
    try:
        return publish_catalog(services.history(), services.records, services.state_folder)
    except Exception as trouble:  # noqa: BLE001 - what it shows is stored already
        said = services.redactor.text(f"{type(trouble).__name__}: {trouble}")
        services.tell(f"the catalog was not published: {said}")
        return None
