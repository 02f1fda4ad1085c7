"""The environment, read once; nothing else in the library looks at it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """What the surroundings say: project folder, store, public test data, and all variables."""

    project: Path | None
    store: str | None
    variables: Mapping[str, str]


def read_settings() -> Settings:
    """The environment as it is now."""
    project = os.environ.get("WATCHKEEPER_PROJECT")
    return Settings(
        project=Path(project) if project else None,
        store=os.environ.get("WATCHKEEPER_STORE") or None,
        variables=dict(os.environ),
    )


def set_defaults(defaults: Mapping[str, str]) -> None:
    """Sets variables that nobody has set, for libraries that read the environment themselves."""
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
