"""Builds a folder of links that shows the whole package as it is installed.

The folders flows/, tasks/, sql/ and config/ belong to the package but lie beside it; setuptools
maps them in. Tools that read source files need to see them in their places:

    python infra/layout.py build/layout
    MYPYPATH=build/layout mypy -p watchkeeper
    PYTHONPATH=build/layout lint-imports
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "watchkeeper"


def package_folders(root: Path) -> dict[str, Path]:
    """The folder of each mapped package, by its dotted name, as pyproject.toml says."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    mapped: dict[str, str] = project["tool"]["setuptools"]["package-dir"]
    return {name: root / folder for name, folder in mapped.items()}


def build_layout(root: Path, target: Path) -> None:
    """Makes the package's folder inside ``target`` anew; everything in it is a link."""
    folders = package_folders(root)
    package = target / PACKAGE
    if package.exists():
        shutil.rmtree(package)
    package.mkdir(parents=True)
    for entry in sorted(folders.pop(PACKAGE).iterdir()):
        if entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    for name, folder in folders.items():
        (package / name.removeprefix(f"{PACKAGE}.")).symlink_to(folder)


if __name__ == "__main__":
    build_layout(ROOT, Path(sys.argv[1]).resolve())
