"""Where the project is, and its store's address: all that a question to history needs."""

from __future__ import annotations

from pathlib import Path

from watchkeeper.errors import ConfigError, UsageError
from watchkeeper.parsing.yaml_source import read_yaml

CONFIG_FILE = "config/watchkeeper.yaml"


def find_project_root(given: Path | None, start: Path) -> Path:
    """The project folder: the one given, else the nearest upward that holds a configuration.

    Raises:
        UsageError: No such folder.
    """
    if given is not None:
        if not (given / CONFIG_FILE).is_file():
            raise UsageError(
                f"{given}: no project here, {CONFIG_FILE} is missing; "
                "make one with 'watchkeeper init DIR'"
            )
        return given.resolve()
    for folder in (start, *start.parents):
        if (folder / CONFIG_FILE).is_file():
            return folder.resolve()
    raise UsageError(
        f"no project here or above: {CONFIG_FILE} was looked for from {start} upward. "
        "Name one with --project DIR or WATCHKEEPER_PROJECT, or make one with 'watchkeeper init'"
    )


def read_store_url(root: Path, override: str | None) -> str:
    """The store of a project, without reading anything else of it.

    Raises:
        ConfigError: config/watchkeeper.yaml cannot be read or its store is not text.
    """
    if override:
        return override
    document = read_yaml(root / CONFIG_FILE, CONFIG_FILE)
    value = document.value if isinstance(document.value, dict) else {}
    store = value.get("store", "file:./watchkeeper-data")
    if not isinstance(store, str):
        fault = document.fault(("store",), "store: expected text, file:PATH or s3://bucket/prefix")
        raise ConfigError([fault])
    return store
