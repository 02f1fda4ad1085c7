"""Builds the real parts from a project and the environment; everything below is handed them."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel

from watchkeeper.adapters import adapter_module
from watchkeeper.clock import SystemClock
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Adapter, Clock, Notifier
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.references import referred_variable
from watchkeeper.errors import StoreUnavailable, UsageError
from watchkeeper.loading.project import Project
from watchkeeper.rollout.mcp_tools import secret_names
from watchkeeper.rollout.progress import ProgressBoard
from watchkeeper.settings import Settings
from watchkeeper.store.history import History
from watchkeeper.store.objects import open_objects
from watchkeeper.store.records import RunRecords

STATE_FOLDER = ".watchkeeper"
SECRET_PREFIX = "env:"  # noqa: S105 - what stands before a variable's name, not a secret
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that steps work with.

    ``token`` gives a fresh random text; ``tell`` shows a line to people, ``board`` how far the
    runs are.
    """

    project: Project
    records: RunRecords
    clock: Clock
    notifier: Notifier
    redactor: Redactor
    variables: Mapping[str, str]
    state_folder: Path
    token: Callable[[], str]
    tell: Callable[[str], None]
    board: ProgressBoard = field(default_factory=ProgressBoard)

    def history(self) -> History:
        """The store's history as it is now."""
        return History(self.records, self.state_folder / "cache")

    def prove_store(self) -> None:
        """Proves, before any call, that a commit is safe in the store.

        Raises:
            UsageError: It is not there, may not be written, or keeps no conditional writes.
        """
        try:
            self.records.objects.probe()
        except StoreUnavailable as error:
            raise UsageError(str(error)) from error

    def connect(self, endpoint: Endpoint) -> Adapter:
        """The connected adapter of an endpoint.

        Raises:
            UsageError: A secret that it needs is not set.
        """
        return adapter_module(endpoint.kind).connect(
            endpoint, self.variables, self.project.root, self.clock
        )

    def run_folder(self, run_id: str) -> Path:
        """Where this machine keeps what a run has not committed yet."""
        return self.state_folder / "runs" / run_id


def build_services(
    project: Project,
    settings: Settings,
    *,
    clock: Clock | None = None,
    notifier: Notifier | None = None,
    out: TextIO | None = None,
    tell: Callable[[str], None] | None = None,
) -> Services:
    """The real parts of a project.

    Args:
        project: What the project folder says.
        settings: The environment.
        clock: The machine's clock by default.
        notifier: Slack where it is configured, else the console.
        out: Where the console notifier writes; standard output by default.
        tell: Where progress goes; standard error by default.

    Raises:
        UsageError: The Slack token's variable is not set, or the store's address is not one.
    """
    objects = open_objects(project.store_url, root=project.root)
    redactor = redactor_of(settings.variables, _secret_references(project))
    write = tell or _to_stderr

    def show(line: str) -> None:
        write(redactor.text(line))

    for note in project.source_notes:
        show(note)
    return Services(
        project=project,
        records=RunRecords(objects),
        clock=clock or SystemClock(),
        notifier=notifier or _notifier(project, settings, out or sys.stdout),
        redactor=redactor,
        variables=settings.variables,
        state_folder=project.root / STATE_FOLDER,
        token=lambda: secrets.token_hex(16),
        tell=show,
    )


def with_clock(services: Services, clock: Clock) -> Services:
    """The same parts on another clock."""
    return replace(services, clock=clock)


def redactor_of(variables: Mapping[str, str], references: Iterable[str] = ()) -> Redactor:
    """Removes the values of every variable that is a secret, by its name or by its use.

    Args:
        variables: The environment.
        references: Every ``env:NAME`` of the configuration.
    """
    used = {reference.removeprefix(SECRET_PREFIX) for reference in references}
    return Redactor(
        {
            name: value
            for name, value in variables.items()
            if name in used or any(word in name.upper() for word in _SECRET_WORDS)
        }
    )


def secret_value(reference: str, variables: Mapping[str, str], what: str) -> str:
    """The value behind ``env:NAME``.

    Raises:
        UsageError: The variable is not set; the message names it, never a value.
    """
    name = reference.removeprefix(SECRET_PREFIX)
    value = variables.get(name)
    if not value:
        raise UsageError(f"{what}: the environment variable {name} is not set; export it first")
    return value


def _secret_references(project: Project) -> list[str]:
    """Every ``env:NAME`` that the project's files name, wherever it stands."""
    found = [project.slack_token] if project.slack_token is not None else []
    found += project.source_secrets
    for endpoint in project.endpoints.values():
        found += _references_in(endpoint.harness.revision_headers)
        if isinstance(endpoint.settings, BaseModel):
            found += _references_in(endpoint.settings.model_dump())
        for server in endpoint.harness.mcp:
            found += [f"{SECRET_PREFIX}{name}" for name in secret_names(server)]
    return found


def _references_in(value: object) -> list[str]:
    if isinstance(value, str):
        variable = referred_variable(value)
        return [] if variable is None else [f"{SECRET_PREFIX}{variable}"]
    inner = value.values() if isinstance(value, Mapping) else value
    if not isinstance(inner, Iterable):
        return []
    return [reference for one in inner for reference in _references_in(one)]


def _notifier(project: Project, settings: Settings, out: TextIO) -> Notifier:
    # The Slack client is loaded only where it is used.
    if project.slack_token is None:
        from watchkeeper.notifiers.console import ConsoleNotifier  # noqa: PLC0415

        return ConsoleNotifier(out)
    from watchkeeper.notifiers.slack import SlackNotifier  # noqa: PLC0415

    token = secret_value(project.slack_token, settings.variables, "slack.token")
    return SlackNotifier(token, base_url=settings.variables.get("WATCHKEEPER_SLACK_URL"))


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress is for people
