"""Where the project is, and its store's address: all that a question to history needs."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from watchkeeper.errors import ConfigError, UsageError

CONFIG_FILE = "config/watchkeeper.yaml"

_STORE_LINE = re.compile(r"store: +(\w+:[\w./-]+)[ \t]*(?: #.*)?")


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
    written = _store_line(root / CONFIG_FILE)
    if written is not None:
        return written
    from watchkeeper.parsing.yaml_source import read_yaml  # noqa: PLC0415 - see _store_line

    document = read_yaml(root / CONFIG_FILE, CONFIG_FILE)
    value = document.value if isinstance(document.value, dict) else {}
    store = value.get("store", "file:./watchkeeper-data")
    if not isinstance(store, str):
        fault = document.fault(("store",), "store: expected text, file:PATH or s3://bucket/prefix")
        raise ConfigError([fault])
    return store


def _store_line(path: Path) -> str | None:
    """The store where one line says it plainly, or ``None``: only YAML's own reader can tell.

    Loading that reader takes as long as a small query. It is left out only where nothing quoted
    or bracketed can reach over a line's end, so that a line at the margin begins with a key.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if any(_may_go_on(line) for line in lines):
        return None
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    naming = [pair for pair in itertools.pairwise([*said, "end"]) if "store" in pair[0]]
    if len(naming) != 1:
        return None
    ((line, following),) = naming
    match = _STORE_LINE.fullmatch(line)
    return match[1] if match is not None and not following.startswith(" ") else None


def _may_go_on(line: str) -> bool:
    """Whether the next line may belong to this one, or this one is more than a key and a value."""
    is_open = line.count('"') % 2 or line.count("'") % 2 or not line.isprintable()
    is_uneven = any(line.count(one) != line.count(two) for one, two in ("{}", "[]"))
    return bool(is_open) or is_uneven or line.startswith(("---", "...", "%"))
