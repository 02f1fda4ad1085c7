"""What a caller in the same process hands a flow, beside the parameters that Prefect stores.

A flow run that Prefect starts builds its parts from the project folder. One that is started from
here is given them: parts are no parameters, which Prefect would try to serialise, and the result
comes back as the object that it is and not as a state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.loading.folder import find_project_root
from watchkeeper.loading.project import load_project
from watchkeeper.pipeline.nightly import NightResult
from watchkeeper.settings import read_settings
from watchkeeper.wiring import Services, build_services


@dataclass(slots=True)
class Handover:
    """Parts for a flow, and what became of it: a result, or the error that ended it."""

    services: Services
    trigger: str
    result: NightResult | None = None
    error: Exception | None = None


_HANDED: ContextVar[Handover | None] = ContextVar("watchkeeper_handover", default=None)


def handed() -> Handover | None:
    """What the caller has handed over, or ``None``: Prefect started this run."""
    return _HANDED.get()


@contextlib.contextmanager
def handing(handover: Handover) -> Iterator[Handover]:
    """Flows that are started in this context are given these parts."""
    token = _HANDED.set(handover)
    try:
        yield handover
    finally:
        _HANDED.reset(token)


def services_of(project: Path | str | None) -> Services:
    """The real parts of a project folder; without one, of the folder that the environment names.

    Raises:
        UsageError: There is no project, or anything is wrong with it.
    """
    settings = read_settings()
    given = Path(project) if project else settings.project
    root = find_project_root(given, Path.cwd())
    return build_services(load_project(root, settings.store), settings)
