"""What is installed: one package, with everything that it needs."""

from __future__ import annotations

import tarfile
import zipfile

from tests.layout.conftest import Archives, Repository


def _names(archives: Archives) -> set[str]:
    with zipfile.ZipFile(archives.wheel) as wheel:
        return set(wheel.namelist())


def test_the_wheel_holds_watchkeeper_alone(archives: Archives) -> None:
    """No flows, tasks, config, sql or tests that could shadow a customer's own modules."""
    tops = {name.split("/")[0] for name in _names(archives)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"watchkeeper"}
    assert len(tops) == 2


def test_the_wheel_has_every_module(archives: Archives, repository: Repository) -> None:
    """A module that is not in a listed package would be missing after installation only."""
    expected: set[str] = set()
    for package in repository.packages:
        expected |= {
            f"{package.replace('.', '/')}/{path.name}"
            for path in repository.folder(package).glob("*.py")
        }
    modules = {name for name in _names(archives) if name.endswith(".py")}
    assert modules == expected
    assert len(modules) == len(repository.sources()) + 2  # config and sql are packages of data


def test_the_wheel_has_types_statements_and_starter_files(
    archives: Archives, repository: Repository
) -> None:
    """py.typed, every SQL statement and every file of the starter project are installed."""
    expected = {"watchkeeper/py.typed"}
    for folder in ("sql", "config"):
        expected |= {
            f"watchkeeper/{repository.name(path)}"
            for path in (repository.root / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    names = _names(archives)
    assert expected - names == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_archive_is_enough_to_build_from(archives: Archives) -> None:
    """The wheel under test was built from it; it holds the licence and no tests' data."""
    with tarfile.open(archives.source) as source:
        names = {name.split("/", 1)[1] for name in source.getnames() if "/" in name}
    assert {"LICENSE", "pyproject.toml"} <= names
