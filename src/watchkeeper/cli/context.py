"""The project that a command works in, read as far as the command needs it."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from watchkeeper.settings import Settings, read_settings

if TYPE_CHECKING:
    from watchkeeper.loading.project import Project
    from watchkeeper.loading.sources import Mode
    from watchkeeper.store.history import History
    from watchkeeper.wiring import Services

T = TypeVar("T")


class Context:
    """Finds the project folder once; everything else is loaded when it is asked for."""

    def __init__(self, given: Path | None) -> None:
        self.settings: Settings = read_settings()
        self._given = given or self.settings.project

    def root(self) -> Path:
        """The project folder.

        Raises:
            UsageError: There is none.
        """
        from watchkeeper.loading.folder import find_project_root

        return find_project_root(self._given, Path.cwd())

    def project(self, sources: Mode = "fetch") -> Project:
        """The whole project, checked.

        Args:
            sources: How registries of endpoints are asked.

        Raises:
            ConfigError: Anything is wrong with it.
        """
        from watchkeeper.loading.project import load_project
        from watchkeeper.loading.sources import SourceAccess

        access = SourceAccess(sources, self.settings.variables)
        return load_project(self.root(), self.settings.store, access)

    def services(
        self,
        out: TextIO | None = None,
        *,
        tells_people: bool = False,
        sources: Mode = "fetch",
    ) -> Services:
        """The real parts of the project.

        Args:
            out: Where messages go when they go to the console.
            tells_people: Whether the command sends messages; only then is Slack's token needed.
            sources: How registries of endpoints are asked.
        """
        from watchkeeper.notifiers.console import ConsoleNotifier
        from watchkeeper.wiring import build_services

        notifier = None if tells_people else ConsoleNotifier(out or sys.stderr)
        project = self.project(sources)
        return build_services(project, self.settings, out=out, notifier=notifier)

    def history(self) -> History:
        """The store's history; of the project only the store's address is read."""
        from watchkeeper.loading.folder import read_store_url
        from watchkeeper.store.history import History
        from watchkeeper.store.objects import open_objects
        from watchkeeper.store.records import RunRecords

        root = self.root()
        objects = open_objects(read_store_url(root, self.settings.store), root=root)
        return History(RunRecords(objects), root / ".watchkeeper" / "cache")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end."""
    import asyncio  # not for commands that only read: it costs as much as a query

    return asyncio.run(work)


def say(line: str) -> None:
    """A line for people, on standard error."""
    print(line, file=sys.stderr, flush=True)
