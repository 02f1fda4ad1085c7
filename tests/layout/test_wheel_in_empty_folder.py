"""The installed wheel works where nothing else of this repository is: an empty folder."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.layout.conftest import Archives

SECONDS = 180


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that has the wheel, and the dependencies of the environment of the tests."""

    folder: Path
    variables: Mapping[str, str]

    def run(self, *words: str, at: Path) -> subprocess.CompletedProcess[str]:
        """One command of the environment, in a folder, with nobody to ask."""
        return subprocess.run(
            [str(self.folder / "bin" / words[0]), *words[1:]],
            cwd=at,
            env=dict(self.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own, with no variable that could lead back to here."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    variables = {
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
    }
    within = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "posix_prefix", vars=within))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--quiet"]
    install = [*pip, "install", "--no-deps", "--no-index", str(archives.wheel)]
    ran = subprocess.run(install, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    # Dependencies are borrowed. A path in such a file gives its modules, not its own such files,
    # so the editable package of the environment of the tests stays out of sight.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(folder, variables)


@pytest.mark.slow
def test_the_package_is_the_installed_one(installed: Installed, tmp_path: Path) -> None:
    """What is tested here is the wheel, and it brings no package beside its own."""
    code = (
        "import importlib.util, json, watchkeeper, watchkeeper.flows, watchkeeper.config\n"
        "seen = {n: importlib.util.find_spec(n) is not None for n in ('flows', 'tasks', 'sql')}\n"
        "print(json.dumps({'file': watchkeeper.__file__, **seen}))"
    )
    ran = installed.run("python", "-c", code, at=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert Path(found.pop("file")).is_relative_to(installed.folder)
    assert found == {"flows": False, "tasks": False, "sql": False}


@pytest.mark.slow
def test_init_validate_and_nightly_in_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    """The first three commands of a newcomer succeed; the night leaves a committed run."""
    for words in (["init"], ["validate"]):
        ran = installed.run("watchkeeper", *words, at=tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    night = installed.run("watchkeeper", "nightly", "--json", at=tmp_path)
    assert night.returncode == 0, night.stdout + night.stderr
    (pair,) = json.loads(night.stdout)["pairs"]
    assert (pair["endpoint"], pair["suite"], pair["error"]) == ("demo-agent", "discovery", None)
    asked = installed.run(
        "watchkeeper",
        "sql",
        "select run_id, planned_count, graded from runs",
        "--format",
        "json",
        at=tmp_path,
    )
    assert asked.returncode == 0, asked.stderr
    assert pair["run_id"] in asked.stdout


@pytest.mark.slow
def test_the_demo_in_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    """The demo needs nothing but the wheel, catches the regression and writes one folder."""
    ran = installed.run("watchkeeper", "demo", at=tmp_path)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "regressed (confirmed)" in ran.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["watchkeeper-demo"]
