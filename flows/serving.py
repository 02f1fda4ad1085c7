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
from watchkeeper.flows.slots import cron_schedule
from watchkeeper.flows.watch_versions import version_trigger, watch_versions
from watchkeeper.loading.project import Project

SERVER_PORT = 4200  # where Prefect's pages are expected; another free one where it is taken
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def deployments_of(project: Project) -> list[RunnerDeployment]:
    """The deployments of a project, each named after its folder.

    ``watchkeeper-nightly`` and, where it is asked for, ``watchkeeper-watch`` have the project's
    schedules in its time zone; ``watchkeeper-evaluate`` is started by every version that changed.
    The others wait to be started. Flow runs find their code by module, wherever they run.
    """
    name = _UNFIT.sub("-", project.root.name).strip("-") or "project"
    parameters = {"project": str(project.root)}
    zone = project.timezone.key
    schedule = Cron(project.nightly_cron, timezone=zone)
    by_module = EntrypointType.MODULE_PATH
    deployments = [
        RunnerDeployment.from_flow(
            nightly, name, schedule=schedule, parameters=parameters, entrypoint_type=by_module
        ),
        RunnerDeployment.from_flow(
            evaluate,
            name,
            parameters=parameters,
            entrypoint_type=by_module,
            triggers=[version_trigger(project.root)],
        ),
        RunnerDeployment.from_flow(compare, name, parameters=parameters, entrypoint_type=by_module),
    ]
    if project.watch_cron is not None:
        deployments.append(
            RunnerDeployment.from_flow(
                watch_versions,
                name,
                schedule=Cron(project.watch_cron, timezone=zone),
                parameters=parameters,
                entrypoint_type=by_module,
            )
        )
    return deployments


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
    cron_schedule(project.nightly_cron, project.timezone)
    watching = ""
    if project.watch_cron is not None:
        cron_schedule(project.watch_cron, project.timezone, "watch")
        watching = f", version watch at '{project.watch_cron}'"
    with prefect_server(is_lasting=True, port=SERVER_PORT) as address:
        services.tell(
            f"serving {project.root.name}: nightly at '{project.nightly_cron}' "
            f"{project.timezone.key}{watching}; Prefect's API at {address}"
        )
        serve(*deployments_of(project), pause_on_shutdown=False, print_starting_message=False)
