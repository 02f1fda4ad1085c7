"""Commands before the first run: init, validate, schemas."""

from __future__ import annotations

import json
import sys
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context

_IGNORED = """# Watchkeeper's own state, and a store on this disk: keep the store, but not in git.
.watchkeeper/
watchkeeper-data/
"""


def init(directory: Path) -> None:
    """Writes the starter project; files that exist are never overwritten.

    Raises:
        UsageError: A project is there already, or the folder cannot be written.
    """
    config = directory / "config"
    if (config / "watchkeeper.yaml").exists():
        raise UsageError(f"{config / 'watchkeeper.yaml'} exists; this folder is a project already")
    try:
        written = write_starter(directory)
    except OSError as error:
        raise UsageError(f"{directory}: cannot write the project: {error.strerror}") from error
    for path in written:
        print(f"wrote {path}")
    go = "" if directory == Path() else f"cd {directory} && "
    print(f"next: {go}watchkeeper validate && watchkeeper run discovery -e demo-agent")


def write_starter(directory: Path) -> list[Path]:
    """The files of the starter project, written below a folder."""
    written: list[Path] = []
    _copy(resources.files("watchkeeper.config"), directory / "config", written)
    ignore = directory / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_IGNORED)
        written.append(ignore)
    return written


def _copy(source: Traversable, target: Path, written: list[Path]) -> None:
    for entry in sorted(source.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            if entry.name not in {"__pycache__", "schemas"}:
                _copy(entry, target / entry.name, written)
        elif entry.name.endswith((".yaml", ".md")):
            target.mkdir(parents=True, exist_ok=True)
            path = target / entry.name
            if not path.exists():
                path.write_text(entry.read_text())
                written.append(path)


def validate(context: Context, *, is_offline: bool = False) -> None:
    """Checks the whole project and says what it holds.

    Registries of endpoints are read too; offline what was read last is taken for them.

    Raises:
        ConfigError: Every fault of every file.
    """
    from watchkeeper.notifiers.wording import count

    project = context.project("copies" if is_offline else "insist")
    cases = sum(len(suite.cases) for suite in project.suites.values())
    print(
        f"ok: {count(len(project.endpoints), 'endpoint')}, {count(len(project.suites), 'suite')}, "
        f"{count(cases, 'case')}, {count(len(project.owners), 'owner')}"
    )
    for note in project.source_notes:
        print(f"note: {note}")
    for endpoint in project.endpoints.values():
        reference = getattr(endpoint.settings, "api_key", None)
        if isinstance(reference, str):
            _warn_unset(context, reference, f"endpoint '{endpoint.name}'")
        if not endpoint.suites:
            print(f"note: endpoint '{endpoint.name}' names no suite; nightly does not run it")
    if project.slack_token is not None:
        _warn_unset(context, project.slack_token, "slack.token")


def schemas(directory: Path) -> None:
    """Writes one JSON Schema for every kind of configuration file."""
    from watchkeeper.loading.editor_schemas import editor_schemas

    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, schema in editor_schemas().items():
            path = directory / f"{name}.schema.json"
            path.write_text(json.dumps(schema, indent=2, sort_keys=True) + "\n")
            print(f"wrote {path}")
    except OSError as error:
        raise UsageError(f"{directory}: cannot write schemas: {error.strerror}") from error


def _warn_unset(context: Context, reference: str, what: str) -> None:
    name = reference.removeprefix("env:")
    if not context.settings.variables.get(name):
        print(f"warning: {what}: the variable {name} is not set here", file=sys.stderr)
