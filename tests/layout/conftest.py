"""The repository as files, and the package built from it once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BUILT_FROM = ("src", "flows", "tasks", "sql", "config")
_BUILT_WITH = ("pyproject.toml", "LICENSE", "README.md")


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository's folder and what pyproject.toml says."""

    root: Path
    pyproject: dict[str, Any]

    @property
    def packages(self) -> list[str]:
        """The packages that are built, by dotted name."""
        named: list[str] = self.pyproject["tool"]["setuptools"]["packages"]
        return named

    def folder(self, package: str) -> Path:
        """Where the files of a package lie."""
        mapped: dict[str, str] = self.pyproject["tool"]["setuptools"]["package-dir"]
        parts = package.split(".")
        for length in range(len(parts), 0, -1):
            folder = mapped.get(".".join(parts[:length]))
            if folder is not None:
                return self.root.joinpath(folder, *parts[length:])
        raise KeyError(package)

    def sources(self) -> list[Path]:
        """Every Python file that is installed."""
        folders = (self.root / "src/watchkeeper", self.root / "flows", self.root / "tasks")
        return sorted(path for folder in folders for path in folder.rglob("*.py"))

    def name(self, path: Path) -> str:
        """How a file is called in a message."""
        return path.relative_to(self.root).as_posix()


@pytest.fixture(scope="session")
def repository() -> Repository:
    """This repository."""
    return Repository(ROOT, tomllib.loads((ROOT / "pyproject.toml").read_text()))


@dataclass(frozen=True, slots=True)
class Archives:
    """What a release uploads."""

    wheel: Path
    source: Path


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """The source archive, and the wheel built from that archive; made from a copy of the files."""
    copy = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in _BUILT_FROM:
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for file in _BUILT_WITH:
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, copy / file)
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    (wheel,) = out.glob("*.whl")
    (source,) = out.glob("*.tar.gz")
    return Archives(wheel, source)
