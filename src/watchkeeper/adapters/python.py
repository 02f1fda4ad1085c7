"""An agent that is a Python callable, sync or async, of the team's own code.

Every trial has a process of its own, in the trial's workspace, with the few variables that it is
given, within bounds of time, output and disk; nothing that it started is there afterwards, and no
module of it is ever imported here. A callable owns its loop, so every step ends its turn.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from watchkeeper.adapters._command.stream_faults import one_line
from watchkeeper.adapters._harness import harness_revision
from watchkeeper.adapters._python.process import PythonAgent, Worker
from watchkeeper.adapters._python.session import PythonSession
from watchkeeper.adapters._reported import Unreadable
from watchkeeper.domain.endpoint import Endpoint, ServedIdentity
from watchkeeper.domain.ports import Adapter, Clock, Session, TrialBrief
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.references import NotSet, is_open_secret, referred_variable, value_of
from watchkeeper.errors import UsageError
from watchkeeper.processes import surroundings

UNVERIFIABLE = "identity unverifiable: a Python agent names a model only in what it reports"
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_CALLABLE = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"


class Settings(BaseModel):
    """What an endpoint that is a callable adds to the common keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
    needs_workspace: ClassVar[bool] = True
    owns_loop: ClassVar[bool] = True

    callable: str = Field(
        pattern=_CALLABLE, max_length=500, description="the callable, as package.module:NAME"
    )
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="model or alias that is asked for; the callable is told"
    )
    interpreter: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        None, description="program that runs it; by default the Python that runs Watchkeeper"
    )
    pass_variables: list[Variable] = Field(
        [], description="variables of the environment that it is given"
    )
    variables: dict[Variable, str] = Field(
        {}, description="further variables; a text, or env:NAME for the value of another"
    )
    tools: list[str] | None = Field(
        None, description="the tools that it has, for checking the names in cases"
    )
    import_seconds: float = Field(
        60, gt=0, le=3600, allow_inf_nan=False, description="deadline of the import before a run"
    )
    max_output_bytes: int = Field(
        50_000_000, ge=1_000, le=1_000_000_000, description="of reports and of prints, each"
    )
    disk_bytes: int = Field(
        1_000_000_000, ge=1_000_000, le=10**12, description="growth of the workspace in a trial"
    )

    def offered_tools(self, root: Path) -> frozenset[str] | None:  # noqa: ARG002 - others need it
        """The tools that the agent has, or ``None`` where nobody has listed them."""
        return frozenset(self.tools) if self.tools is not None else None

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, given: object) -> object:
        """Takes literal secrets out before an error can quote them."""
        if not isinstance(given, Mapping) or not isinstance(given.get("variables"), Mapping):
            return given
        hidden = {
            name: "" if is_open_secret(str(name), text) else text
            for name, text in given["variables"].items()
        }
        return {**given, "variables": hidden}

    @field_validator("variables")
    @classmethod
    def _secrets_refer(cls, variables: dict[str, str]) -> dict[str, str]:
        for name, text in variables.items():
            if is_open_secret(name, text):
                raise ValueError(
                    f"the value of '{name}' as env:NAME; the value found here is not shown"
                )
            if "\0" in text:
                raise ValueError(f"{name}: a value cannot hold a NUL")
        return variables


def connect(
    endpoint: Endpoint,
    variables: Mapping[str, str],
    root: Path,
    clock: Clock,  # noqa: ARG001 - a process takes real time
) -> Adapter:
    """The connected adapter; nothing of the team's is imported yet.

    Raises:
        UsageError: A variable is not set, there is no such interpreter, or the harness has keys
            that mean nothing to an agent with a loop of its own.
    """
    settings = endpoint.settings
    assert isinstance(settings, Settings)  # noqa: S101 - the loader built it
    where = f"{endpoint.location}: endpoint '{endpoint.name}'".removeprefix(": ")
    harness = endpoint.harness
    for key, value in (("system", harness.system), ("tools", harness.tools), ("mcp", harness.mcp)):
        if value:
            raise UsageError(
                f"{where}: harness.{key} is not for kind python: the callable has a prompt and "
                "tools of its own"
            )
    secrets: dict[str, str] = {}
    given: dict[str, str] = {}
    try:
        for name in settings.pass_variables:
            secrets[name] = value_of(f"env:{name}", variables)
        for name, text in settings.variables.items():
            given[name] = value_of(text, variables)
            referred = referred_variable(text)
            if referred is not None:
                secrets[referred] = variables[referred]
    except NotSet as error:
        raise UsageError(
            f"{where}: the variable {error.args[0]} is not set; set it, or leave it out"
        ) from error
    surrounding = surroundings(variables, settings.pass_variables, given)
    agent = PythonAgent(
        callable=settings.callable,
        interpreter=_interpreter(settings.interpreter, surrounding, root, where),
        model=settings.model,
        variables=surrounding,
        root=root.absolute(),
        output_bytes=settings.max_output_bytes,
        disk_bytes=settings.disk_bytes,
        redactor=Redactor(secrets),
    )
    return _PythonAdapter(endpoint, settings, agent, variables, where)


class _PythonAdapter:
    """A callable; its sessions share nothing."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        agent: PythonAgent,
        variables: Mapping[str, str],
        where: str,
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._agent = agent
        self._variables = variables
        self._where = where
        self._sessions: set[PythonSession] = set()

    @property
    def account(self) -> str:
        """The callable, the variables that it is given, and the model."""
        names = sorted({*self._settings.pass_variables, *self._settings.variables})
        parts = ("python", self._agent.callable, *names, self._agent.model or "")
        return " ".join(parts).strip()

    async def resolve(self) -> ServedIdentity:
        """What is asked for, and why nobody can say before a trial what is served.

        Raises:
            UsageError: The callable cannot be imported.
        """
        await self._check_import()
        revision = await harness_revision(self._endpoint.harness, self._agent.root, self._variables)
        notes = [UNVERIFIABLE, revision.reason]
        return ServedIdentity(
            requested_model=self._agent.model,
            resolved_model=None,
            harness_revision=revision.commit,
            note="; ".join(note for note in notes if note),
        )

    async def open(self, brief: TrialBrief) -> Session:
        """A conversation of one trial; its process is not started yet."""
        session = PythonSession(self._agent, brief, self._sessions.discard)
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        """Ends every process that a session has left."""
        for session in tuple(self._sessions):
            await session.close()

    async def _check_import(self) -> None:
        """Imports the callable once, in a process that is gone afterwards.

        Raises:
            UsageError: That fails, or takes too long.
        """
        seconds = self._settings.import_seconds
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="watchkeeper-"))
        worker = Worker(self._agent, folder, folder, seconds)
        try:
            said = await worker.hear()
            if said is not None and "loaded" in said:
                return
            if said is not None:
                told = said.get("broken")
                error = told.get("error") if isinstance(told, dict) else told
                why = f"does not import: {error}"
            else:
                ended = await worker.ended()
                why = f"does not import: its process ended with exit code {ended.exit_code}"
                if ended.reason == "time":
                    why = f"was not imported within {seconds:g} s"
                elif ended.signal is not None:
                    why = f"does not import: its process was ended by signal {ended.signal}"
        except (OSError, Unreadable) as error:
            why = f"does not import: {error}"
        finally:
            await worker.stop(0)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        text = one_line(self._agent.redactor.text(why))
        raise UsageError(f"{self._where}: callable '{self._agent.callable}' {text}")


def _interpreter(name: str | None, surrounding: Mapping[str, str], root: Path, where: str) -> str:
    """The whole path of an interpreter; one with a ``/`` is looked for in the project.

    Raises:
        UsageError: There is no such program.
    """
    if name is None:
        return sys.executable
    if "/" in name:
        # Not resolved: a virtual environment's python is a link, and is known by where it lies.
        path = root.absolute() / name
        found = str(path) if path.is_file() and os.access(path, os.X_OK) else None
    else:
        found = shutil.which(name, path=surrounding.get("PATH"))
    if found is None:
        raise UsageError(f"{where}: interpreter: there is no program '{name[:200]}'")
    return found
