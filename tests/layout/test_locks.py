"""The lock files are what pyproject.toml asks for, and name no place to load from."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.layout.conftest import Repository

RUNTIME, DEVELOPMENT = "requirements.lock", "requirements-dev.lock"
BESIDE = ("tests/requirements-no-deps.txt", "tests/requirements-small-model.txt")


def _locked(repository: Repository, file: str) -> dict[str, set[str]]:
    """The versions of each package; more than one where Python versions need different ones."""
    found: dict[str, set[str]] = {}
    text = (repository.root / file).read_text()
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def _asked(repository: Repository, *extras: str) -> list[Requirement]:
    project = repository.pyproject["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [one for one in map(Requirement, lines) if one.name != project["name"]]


@pytest.mark.parametrize(("file", "extras"), [(RUNTIME, ()), (DEVELOPMENT, ("test", "dev"))])
def test_a_lock_fits_what_is_asked_for(
    repository: Repository, file: str, extras: tuple[str, ...]
) -> None:
    """Whoever changes a dependency runs 'make lock'."""
    locked = _locked(repository, file)
    for asked in _asked(repository, *extras):
        versions = locked.get(canonicalize_name(asked.name), set())
        assert versions, f"{asked.name} is not in {file}"
        assert all(asked.specifier.contains(one) for one in versions), (asked, versions)


def test_tests_run_with_the_versions_of_a_release(repository: Repository) -> None:
    """Everything in the one lock is in the other, in the same version."""
    development = _locked(repository, DEVELOPMENT)
    runtime = _locked(repository, RUNTIME)
    assert {name: development.get(name) for name in runtime} == runtime


@pytest.mark.parametrize("file", [RUNTIME, DEVELOPMENT])
def test_a_lock_names_contents_and_no_place(repository: Repository, file: str) -> None:
    """Every version has its hashes; where packages come from is the installer's business."""
    text = (repository.root / file).read_text()
    assert "://" not in text
    assert "index" not in re.sub(r"^ +#.*$", "", text, flags=re.MULTILINE)
    blocks = re.findall(r"^[\w.-]+==.*(?:\n    --hash=sha256:[0-9a-f]{64}.*)+", text, re.MULTILINE)
    assert len(blocks) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))


@pytest.mark.parametrize("file", BESIDE)
def test_what_is_installed_alone_is_pinned_too(repository: Repository, file: str) -> None:
    """They are installed without their dependencies, so they are in no lock."""
    lines = (repository.root / file).read_text().splitlines()
    named = [line for line in lines if line and not line.startswith("#")]
    assert named
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in named)
    locked = _locked(repository, DEVELOPMENT)
    assert not {canonicalize_name(line.split("==")[0]) for line in named} & set(locked)
