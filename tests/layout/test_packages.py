"""The house's rules about files: where packages are, what they import, what they may not hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.layout.conftest import Repository

# Imported by us, and part of what another dependency promises.
_COMES_WITH = {
    "anyio": "mcp",
    "botocore": "boto3",
    "pydantic-core": "pydantic",
    "referencing": "jsonschema",
    "uvicorn": "prefect",
}
# Declared, but imported by somebody else.
_NEEDED_BY = {
    "pytz": "DuckDB, for timestamps with a zone",
    "tzdata": "zoneinfo, where the system has no time zones",
}
_LONGEST = 400  # lines


def test_every_listed_package_exists(repository: Repository) -> None:
    """A package that was renamed is renamed in pyproject.toml too."""
    missing = [
        package
        for package in repository.packages
        if not (repository.folder(package) / "__init__.py").is_file()
    ]
    assert missing == []


def test_every_folder_with_modules_is_listed(repository: Repository) -> None:
    """A new package is not forgotten in the wheel."""
    listed = {repository.folder(package) for package in repository.packages}
    found = {path.parent for path in repository.sources()}
    assert {repository.name(folder) for folder in found - listed} == set()


def test_no_drawer_for_everything(repository: Repository) -> None:
    """A file's name says what is in it."""
    drawers = {"utils.py", "helpers.py", "common.py", "misc.py"}
    tests = (repository.root / "tests").rglob("*.py")
    named = [repository.name(path) for path in (*repository.sources(), *tests)]
    assert [name for name in named if name.rsplit("/", 1)[-1] in drawers] == []


def test_nothing_is_left_to_do(repository: Repository) -> None:
    """What a version cannot do it refuses, in words, before anything was called."""
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    folders = ("sql", "config", "infra")
    others = (path for folder in folders for path in (repository.root / folder).rglob("*"))
    files = [*repository.sources(), *(path for path in others if path.suffix not in {"", ".pyc"})]
    assert [repository.name(path) for path in files if marks.search(path.read_text())] == []


def test_files_stay_short(repository: Repository) -> None:
    """Past 300 lines one looks for the second idea; past 400 there is one."""
    long = [
        repository.name(path)
        for path in repository.sources()
        if len(path.read_text().splitlines()) > _LONGEST
    ]
    assert long == []


def test_only_settings_looks_at_the_environment(repository: Repository) -> None:
    """A variable that is read elsewhere cannot be passed in by a test or shown by a command."""
    readers = {
        repository.name(path)
        for path in repository.sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if _reads_environment(node)
    }
    assert readers == {"src/watchkeeper/settings.py"}


def _reads_environment(node: ast.AST) -> bool:
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    if isinstance(node, ast.Attribute):
        return node.attr in names and isinstance(node.value, ast.Name) and node.value.id == "os"
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and any(alias.name in names for alias in node.names)
    )


def test_what_is_imported_is_declared_and_what_is_declared_is_needed(
    repository: Repository,
) -> None:
    """Nothing works by the luck of somebody else's dependency, and nothing is installed idly."""
    declared = {
        canonicalize_name(Requirement(line).name)
        for line in repository.pyproject["project"]["dependencies"]
    }
    distributions = metadata.packages_distributions()
    used = {
        canonicalize_name(distribution)
        for path in repository.sources()
        for name in _imported(path)
        if name not in sys.stdlib_module_names and name != "watchkeeper"
        for distribution in distributions.get(name, [f"not installed: {name}"])
    }
    assert used - declared == set(_COMES_WITH)
    assert declared - used == set(_NEEDED_BY)


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.split(".")[0]


@pytest.mark.parametrize(("name", "parent"), sorted(_COMES_WITH.items()))
def test_what_comes_with_a_dependency_is_required_by_it(name: str, parent: str) -> None:
    """The parent's own metadata promises it, without an extra."""
    required = [Requirement(line) for line in metadata.requires(parent) or []]
    plain = [one for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    assert name in {canonicalize_name(one.name) for one in plain}


def test_the_library_never_loads_prefect(repository: Repository) -> None:
    """Commands that only read answer at once: Prefect is loaded by flows and tasks alone."""
    modules = [
        ".".join((package, path.stem)).removesuffix(".__init__")
        for package in repository.packages
        if not package.startswith(("watchkeeper.flows", "watchkeeper.tasks"))
        for path in sorted(repository.folder(package).glob("*.py"))
        if path.stem != "__main__"
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print(*sorted({'prefect', 'anthropic'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""
