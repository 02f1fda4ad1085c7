"""The image, the stack and the operations page say what is true of this version."""

from __future__ import annotations

import importlib.util
import inspect
import re
import zoneinfo
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
import yaml
from prefect.settings import PREFECT_API_URL, get_current_settings

from tests.layout.conftest import Repository
from watchkeeper.cli.main import app
from watchkeeper.cli.starting import write_starter
from watchkeeper.loading.project import load_project
from watchkeeper.store import records

INFRA = Path(__file__).resolve().parents[2] / "infra"
DOCKERFILE = (INFRA / "Dockerfile").read_text()
OPERATIONS = (INFRA / "operations.md").read_text()
STACK = (INFRA / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(STACK)["services"]
_SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|KEY")
_PINNED = re.compile(r"(?P<name>[\w./-]+):\d[\w.-]*")


def test_every_image_has_a_version() -> None:
    """A stack that is started again next year is the same stack."""
    images = [service["image"] for service in SERVICES.values()]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(images) == len(SERVICES) + 2
    assert [image for image in images if not _PINNED.fullmatch(image)] == []


def test_our_image_is_built_from_this_repository(repository: Repository) -> None:
    """Its tag is the version of the package; server and runs have the same Prefect."""
    ours = {name: one for name, one in SERVICES.items() if "build" in one}
    assert set(ours) == {"prefect", "watchkeeper"}
    version = repository.pyproject["project"]["version"]
    for service in ours.values():
        assert service["image"] == f"watchkeeper:{version}"
        context = INFRA / service["build"]["context"]
        assert context.resolve() == repository.root
        assert (context / service["build"]["dockerfile"]).resolve() == INFRA / "Dockerfile"
    assert f"watchkeeper:{version} " in DOCKERFILE


def test_the_image_has_every_folder_of_the_package(repository: Repository) -> None:
    """What setuptools maps into the package is copied, and Docker is let see it."""
    mapped: dict[str, str] = repository.pyproject["tool"]["setuptools"]["package-dir"]
    folders = {folder.split("/")[0] for folder in mapped.values()}
    ignored = (INFRA / "Dockerfile.dockerignore").read_text().splitlines()
    for folder in folders:
        assert f"COPY {folder} /src/{folder}\n" in DOCKERFILE
        assert f"!{folder}" in ignored
    assert ignored[1] == "*"
    assert "--requirement /src/requirements.lock" in DOCKERFILE


def test_the_image_does_not_run_as_root() -> None:
    """An agent's tools are somebody's code."""
    assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1] == "watchkeeper"
    assert "HEALTHCHECK" in DOCKERFILE


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_tells_whether_it_is_well(name: str) -> None:
    """Ours by the image, the others by the stack; all come back after a restart."""
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert "healthcheck" in service or (name == "watchkeeper" and "HEALTHCHECK" in DOCKERFILE)


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_open_to_the_network(name: str) -> None:
    """Prefect's server asks nobody for a password."""
    ports: list[str] = SERVICES[name].get("ports", [])
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_no_secret_stands_in_a_file() -> None:
    """Secrets are asked for by name, and a missing one is said before anything starts."""
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if _SECRET.search(name):
                assert re.fullmatch(r"\$\{" + name + r":\?[^}]+\}", value), name
    set_in_image = re.findall(r"(\w+)=", "".join(re.findall(r"ENV (?:.|\\\n)+", DOCKERFILE)))
    assert [name for name in set_in_image if _SECRET.search(name)] == []
    assert re.findall(r"://[^/\s$]+:[^$@/\s]+@", STACK) == []


def test_every_variable_is_explained(repository: Repository) -> None:
    """What has to be given is in the table of the operations page."""
    asked = set(re.findall(r"\$\{(\w+)", STACK))
    table = OPERATIONS.split("## Variables")[1]
    explained = set(re.findall(r"`([A-Z][A-Z_]+)`", table))
    assert asked <= explained
    ours = re.compile(r"WATCHKEEPER_[A-Z_]+")
    settings = (repository.root / "src/watchkeeper/settings.py").read_text()
    known = set(ours.findall(settings))
    named = set(ours.findall(STACK + DOCKERFILE + OPERATIONS))
    assert named <= known
    assert known <= explained


def test_every_setting_of_prefect_exists() -> None:
    """Prefect ignores a name that it does not know."""
    known = set(get_current_settings().to_environment_variables(exclude_unset=False))
    used = set(re.findall(r"PREFECT_[A-Z_]+", STACK + DOCKERFILE))
    assert used - known <= {PREFECT_API_URL.name}


def test_every_command_of_the_operations_page_exists() -> None:
    """Whoever reads it at night types what is written there."""
    command = typer.main.get_command(app)
    known = set(getattr(command, "commands", {}))
    said = set(re.findall(r"(?:^|[`$&;(] ?|watchkeeper )watchkeeper ([a-z]+)", OPERATIONS, re.M))
    assert len(said) > 5
    assert said <= known


def test_every_link_of_the_operations_page_leads_somewhere() -> None:
    """Pages and headings that it names exist."""
    headings = re.findall(r"^##+ (.+)$", OPERATIONS, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}
    for target in re.findall(r"\]\(([^)]+)\)", OPERATIONS):
        file, _, anchor = target.partition("#")
        assert anchor in anchors if not file else (INFRA / file).exists(), target


def test_the_backup_has_every_part_of_the_store() -> None:
    """A part that is forgotten is missed on the day of the restore; commits come back last."""
    loops = re.findall(r"^for part in ([a-z ]+); do$", OPERATIONS, re.MULTILINE)
    backup, restore = (loop.split() for loop in loops)
    source = inspect.getsource(records)
    written = set(re.findall(r'f?"([a-z]+)/', source)) | set(re.findall(r'": "([a-z]+)"', source))
    assert set(backup) == set(restore) == written
    assert restore[-1] == "commits"
    referred = {"trials", "grades", "transcripts"}
    assert set(backup[-3:]) == set(restore[:3]) == referred
    assert backup.index("outbox") < backup.index("receipts")


def _script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_work_pools_deployments_are_those_that_serve_has(tmp_path: Path) -> None:
    """The night has the project's schedule in its zone; code is found by module."""
    write_starter(tmp_path)
    settings = tmp_path / "config/watchkeeper.yaml"
    settings.write_text(settings.read_text().replace("timezone: UTC", "timezone: Europe/Berlin"))
    project = load_project(tmp_path)
    work_pool = _script(INFRA / "deployments/work_pool.py")
    deployments = {one.flow_name: one for one in work_pool.pool_deployments(project, "default")}
    assert {"watchkeeper-nightly", "watchkeeper-evaluate"} <= set(deployments)
    (schedule,) = deployments["watchkeeper-nightly"].schedules
    assert schedule.schedule.cron == project.nightly_cron
    assert zoneinfo.ZoneInfo(schedule.schedule.timezone) == zoneinfo.ZoneInfo("Europe/Berlin")
    for deployment in deployments.values():
        assert deployment.work_pool_name == "default"
        assert deployment.entrypoint.startswith("watchkeeper.flows.")
        assert deployment.parameters["project"] == str(tmp_path)
        assert deployment.job_variables["env"]["DO_NOT_TRACK"] == "1"
