"""Registers a project's deployments for the workers of a Prefect work pool.

``watchkeeper serve`` is all that one machine needs. With several machines the runs are handed to
workers; each has Watchkeeper installed, the project folder at the same place, and the same store:

    export PREFECT_API_URL=http://prefect.internal:4200/api WATCHKEEPER_PROJECT=/srv/agents
    python infra/deployments/work_pool.py default
    prefect worker start --pool default          # on every machine

Schedule and time zone are those of config/watchkeeper.yaml; run this again when they change. Use
either this or ``serve`` for a project: both register the same names.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from watchkeeper.flows.serving import deployments_of  # first: it sets what Prefect reads once

# isort: split
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectAlreadyExists

from watchkeeper.errors import WatchkeeperError
from watchkeeper.loading.folder import find_project_root
from watchkeeper.loading.project import Project, load_project
from watchkeeper.settings import read_settings
from watchkeeper.tasks.surroundings import DEFAULTS


def pool_deployments(project: Project, pool: str) -> list[RunnerDeployment]:
    """The project's deployments, to be run by the workers of a pool.

    A worker's process reads Prefect's settings before any of our code, so that they are sent along.
    """
    ours = {"work_pool_name": pool, "job_variables": {"env": DEFAULTS}}
    return [deployment.model_copy(update=ours) for deployment in deployments_of(project)]


def register(project: Project, pool: str) -> list[str]:
    """The names of the deployments, registered; the pool is made where there is none.

    Args:
        project: A checked project.
        pool: A work pool whose workers start processes.
    """
    with get_client(sync_client=True) as client, contextlib.suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
    found: list[str] = []
    for deployment in pool_deployments(project, pool):
        deployment.apply()
        found.append(f"{deployment.flow_name}/{deployment.name}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Registers the deployments of the project that WATCHKEEPER_PROJECT names."""
    pool = arguments[0] if arguments else "default"
    settings = read_settings()
    try:
        root = find_project_root(settings.project, Path.cwd())
        project = load_project(root, settings.store)
    except WatchkeeperError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - it is a program
        return error.exit_code
    for name in register(project, pool):
        print(f"{name} → work pool '{pool}', project {project.root}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
