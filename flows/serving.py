"""All deployments with their schedules, served by one process."""

from __future__ import annotations

import re
from pathlib import Path

from prefect import serve
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from watchkeeper.flows.compare import compare
from watchkeeper.flows.evaluate import evaluate
from watchkeeper.flows.handover import services_of
from watchkeeper.flows.nightly import nightly
from watchkeeper.flows.server import prefect_server
from watchkeeper.flows.slots import nightly_schedule
from watchkeeper.loading.project import Project

SERVER_PORT = 4200  # where Prefect's pages are expected; another free one where it is taken
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def deployments_of(project: Project) -> list[RunnerDeployment]:
    """The deployments of a project, each named after its folder.

    ``watchkeeper-nightly`` has the project's schedule in its time zone; the others wait to be
    started, by a person or an automation. Flow runs find their code by module, wherever they run.
    """
    name = _UNFIT.sub("-", project.root.name).strip("-") or "project"
    parameters = {"project": str(project.root)}
    schedule = Cron(project.nightly_cron, timezone=project.timezone.key)
    by_module = EntrypointType.MODULE_PATH
    return [
        RunnerDeployment.from_flow(
            nightly, name, schedule=schedule, parameters=parameters, entrypoint_type=by_module
        ),
        RunnerDeployment.from_flow(
            evaluate, name, parameters=parameters, entrypoint_type=by_module
        ),
        RunnerDeployment.from_flow(compare, name, parameters=parameters, entrypoint_type=by_module),
    ]


def serve_project(project_root: Path | None) -> None:
    """Serves the deployments of a project until the process is ended.

    Schedules stay active when it ends: a night that became due meanwhile is made up for at the
    next start, unless the following one is due by then. Files are read anew for every run, the
    schedule at the start of ``serve``.

    Args:
        project_root: The project folder; by default the one that the environment names.

    Raises:
        UsageError: Bad configuration, found before anything is served.
        ServerTrouble: No server is configured and none could be started.
    """
    services = services_of(project_root)
    project = services.project
    nightly_schedule(project.nightly_cron, project.timezone)
    with prefect_server(is_lasting=True, port=SERVER_PORT) as address:
        services.tell(
            f"serving {project.root.name}: nightly at '{project.nightly_cron}' "
            f"{project.timezone.key}; Prefect's API at {address}"
        )
        serve(*deployments_of(project), pause_on_shutdown=False, print_starting_message=False)
