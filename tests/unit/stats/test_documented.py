"""The package keeps its promises to its readers: documented formulas, cheap to import."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import watchkeeper.stats

PAGE = Path(__file__).parents[3] / "docs" / "statistics.md"
MODULES = [module.name for module in pkgutil.iter_modules(watchkeeper.stats.__path__)]


def anchors() -> set[str]:
    """Anchors that the page's headings get where it is rendered."""
    headings = re.findall(r"^#+ (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", MODULES)
def test_every_formula_points_to_its_section(name: str) -> None:
    """Each public function, or its module, names the section that explains it; it exists."""
    module = importlib.import_module(f"watchkeeper.stats.{name}")
    pattern = r"docs/statistics\.md#([\w-]+)"
    of_module = re.findall(pattern, module.__doc__ or "")
    assert set(of_module) <= anchors(), f"{name}: {of_module}"
    for function_name, function in inspect.getmembers(module, inspect.isfunction):
        if function_name.startswith("_") or function.__module__ != module.__name__:
            continue
        found = re.findall(pattern, inspect.getdoc(function) or "")
        assert found or of_module, f"{name}.{function_name} names no section of docs/statistics.md"
        assert set(found) <= anchors(), f"{name}.{function_name}: {found}"


def test_links_within_the_page_lead_somewhere() -> None:
    """No link of the page points to a heading that is not there."""
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE.read_text(encoding="utf-8"))) <= anchors()


def test_what_the_page_names_exists() -> None:
    """Every `module.name` that the page mentions can be imported under that name."""
    pattern = r"`(" + "|".join(MODULES) + r")\.(\w+)`"
    named = re.findall(pattern, PAGE.read_text(encoding="utf-8"))
    assert len(named) > 30
    for module, name in named:
        assert hasattr(importlib.import_module(f"watchkeeper.stats.{module}"), name), name


def modules_after(statement: str) -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after the statement."""
    code = f"import sys; sys.path[:] = {sys.path!r}; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Commands that compute nothing do not pay for numpy or scipy."""
    assert not {"numpy", "scipy"} & modules_after("import watchkeeper.stats")


def test_scipy_stats_is_never_loaded() -> None:
    """All modules together stay clear of scipy.stats, which takes a second to import."""
    every = ", ".join(f"watchkeeper.stats.{name}" for name in MODULES)
    assert "scipy.stats" not in modules_after(f"import {every}")
