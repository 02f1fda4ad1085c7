"""An agent that is a program: it is run once for every turn of the user and prints what it did.

It runs in the trial's workspace, with the few variables that it is given, within bounds of time,
output and disk, and nothing that it started is there afterwards. Its output is in a format that
``_command.output`` reads; a program owns its loop, so every step ends its turn.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from watchkeeper.adapters._command.output import UNVERIFIABLE, Format
from watchkeeper.adapters._command.session import Command, CommandSession, used_placeholders
from watchkeeper.adapters._harness import harness_revision
from watchkeeper.adapters._own_loop import OWN_LOOP_REFUSAL
from watchkeeper.domain.case import Case
from watchkeeper.domain.endpoint import Endpoint, ServedIdentity
from watchkeeper.domain.ports import Adapter, Clock, Session, TrialBrief
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.references import NotSet, is_open_secret, referred_variable, value_of
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.processes import surroundings

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Word = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]


class Settings(BaseModel):
    """What an endpoint that is a program adds to the common keys.

    Words may hold ``{input}``, ``{workspace}``, ``{project}``, ``{trial_id}`` and ``{model}``;
    those of ``resume`` also ``{session_id}``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
    needs_workspace: ClassVar[bool] = True
    owns_loop: ClassVar[bool] = True

    command: list[Word] = Field(min_length=1, description="the program and its arguments")
    resume: list[Word] = Field(
        [], description="the same for the user's further turns; needed by cases that have some"
    )
    input: Literal["argument", "stdin"] = Field(
        "argument", description="how the user's turn is given: in {input}, or on standard input"
    )
    format: Format = Field(description="what the program prints")
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="model or alias that is asked for"
    )
    pass_variables: list[Variable] = Field(
        [], description="variables of the environment that the program is given"
    )
    variables: dict[Variable, str] = Field(
        {}, description="further variables; a text, or env:NAME for the value of another"
    )
    tools: list[str] | None = Field(
        None, description="the tools that it has, for checking the names in cases"
    )
    silent_tools: list[str] = Field(
        [], description="tools whose calls never make a round barren (formats claude and codex)"
    )
    max_output_bytes: int = Field(
        50_000_000, ge=1_000, le=1_000_000_000, description="of standard output and error, each"
    )
    disk_bytes: int = Field(
        1_000_000_000, ge=1_000_000, le=10**12, description="growth of the workspace in a trial"
    )

    def offered_tools(self, root: Path) -> frozenset[str] | None:  # noqa: ARG002 - others need it
        """The tools that the program has, or ``None`` where nobody has listed them."""
        return frozenset(self.tools) if self.tools is not None else None

    def refused(self, case: Case) -> str | None:
        """Why the program cannot be asked a case, or ``None``."""
        if not self.resume and (len(case.turns) > 1 or case.user is not None):
            return "they have several turns, and 'resume' does not say how one goes on"
        return OWN_LOOP_REFUSAL if case.tools else None

    @field_validator("format", mode="before")
    @classmethod
    def _format_is_known(cls, value: object) -> object:
        if value not in get_args(Format):
            raise ValueError(f"expected one of {', '.join(get_args(Format))}")
        return value

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

    @model_validator(mode="after")
    def _words_fit(self) -> Settings:
        for key, words in (("command", self.command), ("resume", self.resume)):
            used = used_placeholders(tuple(words))
            if words and ("input" in used) != (self.input == "argument"):
                wanted = "a word with" if self.input == "argument" else "no"
                raise ValueError(f"{key}: input: {self.input} expects {wanted} {{input}}")
            if "model" in used and self.model is None:
                raise ValueError(f"{key}: {{model}} stands there, but the key model does not")
            if any("\0" in word for word in words):
                raise ValueError(f"{key}: a word cannot hold a NUL")
        if "session_id" in used_placeholders(tuple(self.command)):
            raise ValueError("command: {session_id} is not known before the first turn; see resume")
        return self


def connect(
    endpoint: Endpoint,
    variables: Mapping[str, str],
    root: Path,
    clock: Clock,  # noqa: ARG001 - a program takes real time
) -> Adapter:
    """The connected adapter; nothing is run yet.

    Raises:
        UsageError: The program is not there, a variable is not set, or the harness has keys that
            mean nothing to a program with a loop of its own.
    """
    settings = endpoint.settings
    assert isinstance(settings, Settings)  # noqa: S101 - the loader built it
    where = f"{endpoint.location}: endpoint '{endpoint.name}'".removeprefix(": ")
    harness = endpoint.harness
    for key, value in (("system", harness.system), ("tools", harness.tools), ("mcp", harness.mcp)):
        if value:
            raise UsageError(
                f"{where}: harness.{key} is not for kind command: the program has a prompt and "
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
    words = _with_program(settings.command, surrounding, root, where)
    resume = _with_program(settings.resume, surrounding, root, where) if settings.resume else ()
    command = Command(
        name=endpoint.name,
        words=words,
        resume=resume,
        is_input_on_stdin=settings.input == "stdin",
        format=settings.format,
        model=settings.model,
        silent=frozenset(settings.silent_tools),
        variables=surrounding,
        output_bytes=settings.max_output_bytes,
        disk_bytes=settings.disk_bytes,
        project=root.absolute(),
        redactor=Redactor(secrets),
    )
    return _CommandAdapter(endpoint, command, tuple(sorted(secrets)), variables, root)


class _CommandAdapter:
    """A program that is there; its sessions share nothing."""

    def __init__(
        self,
        endpoint: Endpoint,
        command: Command,
        secrets: tuple[str, ...],
        variables: Mapping[str, str],
        root: Path,
    ) -> None:
        self._endpoint = endpoint
        self._command = command
        self._secrets = secrets
        self._variables = variables
        self._root = root
        self._sessions: set[CommandSession] = set()

    @property
    def account(self) -> str:
        """The program, the variables that it is given, and the model."""
        names = " ".join(self._secrets)
        return f"command {self._command.words[0]} {names} {self._command.model or ''}".strip()

    async def resolve(self) -> ServedIdentity:
        """What is asked for, and why nobody can say before a trial what is served."""
        revision = await harness_revision(self._endpoint.harness, self._root, self._variables)
        notes = [UNVERIFIABLE[self._command.format], revision.reason]
        return ServedIdentity(
            requested_model=self._command.model,
            resolved_model=None,
            harness_revision=revision.commit,
            note="; ".join(note for note in notes if note),
        )

    async def open(self, brief: TrialBrief) -> Session:
        """A conversation of one trial; the program is not run yet.

        Raises:
            EndpointFault: The case has several turns, and nothing says how to go on with one.
        """
        has_more = len(brief.case.turns) > 1 or brief.case.user is not None
        if has_more and not self._command.resume:
            raise EndpointFault(
                f"endpoint '{self._endpoint.name}': case '{brief.case.id}' has several turns; "
                "say with the key resume how the program goes on with a conversation",
                kind="not_supported",
                is_transient=False,
            )
        session = CommandSession(self._command, brief, self._sessions.discard)
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        """Closes the sessions that nobody has closed; never raises."""
        for session in tuple(self._sessions):
            await session.close()


def _with_program(
    words: list[str], surrounding: Mapping[str, str], root: Path, where: str
) -> tuple[str, ...]:
    """The words with the program's whole path; one with a ``/`` is looked for in the project.

    Raises:
        UsageError: There is no such program.
    """
    name = words[0].replace("{project}", str(root.absolute()))
    if "/" in name:
        path = root.absolute() / name
        found = str(path) if path.is_file() and os.access(path, os.X_OK) else None
        looked = f"{path} is no file that may be executed"
    else:
        found = shutil.which(name, path=surrounding.get("PATH"))
        looked = "it is not in PATH"
    if found is None:
        raise UsageError(f"{where}: command: the program '{name[:200]}' was not found: {looked}")
    return (found, *words[1:])
