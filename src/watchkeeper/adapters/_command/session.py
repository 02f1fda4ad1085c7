"""One trial of a command: a process for each turn of the user, in the trial's workspace."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from watchkeeper.adapters._command.codex import CodexStream
from watchkeeper.adapters._command.output import Format, Unreadable, reader_of
from watchkeeper.adapters._command.stream_faults import one_line
from watchkeeper.adapters._command.stream_rounds import StreamReader
from watchkeeper.domain.content import Attachment, UserTurn
from watchkeeper.domain.ports import Observation, Step, TrialBrief
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.trajectory import Round, Usage
from watchkeeper.errors import EndpointFault, EndpointUnreachable
from watchkeeper.processes import Bounds, Ended, run_bounded

PLACEHOLDERS = ("input", "workspace", "project", "trial_id", "model", "session_id")
TEMPORARY_FAILURE = 75  # EX_TEMPFAIL of sysexits.h: the program says that it may pass
GRACE_S = 2.0
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")
_FROM_OUTSIDE = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM})
_MOST_STDERR = 20_000
_SHOWN_STDERR = 300


@dataclass(frozen=True, slots=True)
class Command:
    """How the program of an endpoint is run for every trial.

    ``name`` is the endpoint's, ``words`` begins with the program's path, ``resume`` are the words
    of further turns.
    """

    name: str
    words: tuple[str, ...]
    resume: tuple[str, ...]
    is_input_on_stdin: bool
    format: Format
    model: str | None
    silent: frozenset[str]
    variables: Mapping[str, str]
    output_bytes: int
    disk_bytes: int
    project: Path
    redactor: Redactor = field(repr=False)


def used_placeholders(words: tuple[str, ...]) -> frozenset[str]:
    """The placeholders that some words hold."""
    return frozenset(name for word in words for name in _PLACEHOLDER.findall(word))


class CommandSession:
    """A conversation in which every turn is one run of the program, which owns its loop."""

    def __init__(
        self, command: Command, brief: TrialBrief, forget: Callable[[CommandSession], None]
    ) -> None:
        """``forget`` is told when the session is closed."""
        self._command = command
        self._brief = brief
        self._forget = forget
        self._own: Path | None = None
        self._session_id: str | None = None
        self._counted: Usage | None = None
        self._turn_count = 0
        self._used_s = 0.0
        self._reader: StreamReader | None = None
        self._spoilt: EndpointFault | None = None

    @property
    def unfinished(self) -> tuple[Round, ...]:
        """The rounds of a step that was cut before its end."""
        return self._reader.rounds if self._reader is not None else ()

    async def step(self, observation: Observation) -> Step:
        """What the program did with a turn of the user.

        A fault that came after the program had called tools leaves a workspace that no repeat
        could begin in: it is raised again, and the trial's next attempt has a fresh one.

        Raises:
            EndpointFault: The program was ended from outside, or says that its provider failed.
            TimeoutError: The trial's time was over; ``unfinished`` has what was done.
            ValueError: The observation is not a turn of the user.
        """
        if not isinstance(observation, UserTurn):
            raise ValueError("the program carries out its own calls; expected a turn of the user")  # noqa: TRY004 - as in every session
        if self._spoilt is not None:
            raise self._spoilt
        started = time.monotonic()
        before = self._counted
        reader = reader_of(self._command.format, self._command.silent, before)
        self._reader = reader
        try:
            step = await self._run(observation, reader)
        except EndpointFault as fault:
            if any(one.tool_calls for one in reader.rounds):
                self._spoilt = fault
            raise
        finally:
            self._used_s += time.monotonic() - started
        self._reader = None
        self._turn_count += 1
        self._session_id = reader.session_id or self._session_id
        if isinstance(reader, CodexStream):
            self._counted = reader.total or before
        return step

    async def close(self) -> None:
        """Removes what the session made for itself."""
        own, self._own = self._own, None
        self._forget(self)
        if own is not None:
            await asyncio.to_thread(shutil.rmtree, own, ignore_errors=True)

    async def _run(self, turn: UserTurn, reader: StreamReader) -> Step:
        """One run of the program, and what it comes to."""
        own = self._own_folder()
        workspace = self._brief.workspace or own / "workspace"
        text = await asyncio.to_thread(_with_attachments, turn, own)
        is_first = self._turn_count == 0 or not self._command.resume
        words = self._filled(self._command.words if is_first else self._command.resume, text)
        began = time.monotonic()
        problem: str | None = None
        line_count = 0

        def take(line: bytes) -> bool:
            nonlocal problem, line_count
            line_count += 1
            try:
                reader.line(line, (time.monotonic() - began) * 1000)
            except Unreadable as error:
                what = str(error)
                is_json = what.startswith("not JSON")
                problem = (
                    f"line {line_count} is {what}" if is_json else f"line {line_count}: {what}"
                )
            return problem is not None or reader.round_count > self._brief.limits.rounds

        temporary = own / "tmp"
        variables = {"TMPDIR": str(temporary), **self._command.variables}
        try:
            ended = await run_bounded(
                words,
                cwd=workspace,
                variables={**variables, "WATCHKEEPER_TRIAL_ID": self._brief.trial_id},
                bounds=Bounds(
                    seconds=max(self._brief.limits.seconds - self._used_s, 0.0),
                    output_bytes=self._command.output_bytes,
                    disk_bytes=self._command.disk_bytes,
                    grace_s=GRACE_S,
                ),
                stdin=text if self._command.is_input_on_stdin else None,
                on_line=take,
                watched=(workspace, temporary),
            )
        except OSError as error:
            raise self._not_started(error) from error
        except ValueError as error:
            what = "the input holds a NUL, which no argument can; use input: stdin"
            raise self._fault("not_supported", what) from error
        return self._concluded(reader, ended, problem, (time.monotonic() - began) * 1000)

    def _concluded(
        self, reader: StreamReader, ended: Ended, problem: str | None, at_ms: float
    ) -> Step:
        """What a run of the program comes to."""
        if ended.reason == "time":
            raise TimeoutError
        failure = problem or self._cut(ended)
        if failure is None and ended.signal is not None:
            name = signal.Signals(ended.signal).name
            if ended.signal in _FROM_OUTSIDE:
                what = f"the program was ended from outside by {name}"
                raise self._fault("killed", what, is_transient=True)
            failure = f"the program crashed: {name}{self._said(ended)}"
        if ended.exit_code == TEMPORARY_FAILURE:
            what = f"the program exited with {TEMPORARY_FAILURE}{self._said(ended)}"
            raise self._fault("temporary_failure", what, is_transient=True)
        if failure is None and ended.exit_code and self._command.format == "text":
            failure = f"the program exited with {ended.exit_code}{self._said(ended)}"
        if failure is None:
            try:
                step = reader.step(at_ms)
            except EndpointFault as fault:
                kept = {"kind": fault.kind, "is_transient": fault.is_transient}
                raise type(fault)(self._shown(str(fault)), **kept) from None  # type: ignore[arg-type]
            except Unreadable as error:
                failure = str(error)
                if ended.exit_code:
                    what = f"the program exited with {ended.exit_code}: {failure}"
                    failure = f"{what}{self._said(ended)}"
            else:
                said = None if step.error is None else self._clean(step.error)
                return replace(step, error=said)
        return Step(rounds=reader.rounds, end="agent_error", error=self._clean(failure))

    def _cut(self, ended: Ended) -> str | None:
        """Why we ended the program, in words."""
        if ended.reason == "output":
            return f"the program wrote more than {self._command.output_bytes:,} bytes of output"
        if ended.reason == "disk":
            return f"the program took more than {self._command.disk_bytes:,} bytes of disk"
        if ended.reason == "stopped":
            return f"the program made more than {self._brief.limits.rounds} rounds"
        return None

    def _said(self, ended: Ended) -> str:
        """The last lines of standard error, for an error's end."""
        # More than is shown: a secret at the beginning of what is shown is found whole.
        text = ended.stderr[-_MOST_STDERR:].decode("utf-8", "replace").strip()
        return f": {self._command.redactor.text(text)[-_SHOWN_STDERR:]}" if text else ""

    def _clean(self, text: str) -> str:
        """A text of the program's, without secrets and then within bounds."""
        return one_line(self._command.redactor.text(text))

    def _shown(self, what: str) -> str:
        """A fault's text."""
        return self._clean(f"endpoint '{self._command.name}': {what}")

    def _filled(self, words: tuple[str, ...], text: str) -> list[str]:
        """The words with every placeholder replaced, once: the input is never looked through."""
        workspace = self._brief.workspace
        values = {
            "input": text,
            "workspace": str(workspace or (self._own or Path()) / "workspace"),
            "project": str(self._command.project),
            "trial_id": self._brief.trial_id,
            "model": self._command.model or "",
            "session_id": self._session_id or "",
        }
        return [_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in words]

    def _own_folder(self) -> Path:
        """A folder of the session's own, with room for temporary files.

        Not in a thread: one that is made while a step is cancelled would be nobody's.
        """
        if self._own is None:
            self._own = Path(tempfile.mkdtemp(prefix="watchkeeper-"))
            for name in ("tmp", "workspace"):
                (self._own / name).mkdir()
        return self._own

    def _not_started(self, error: OSError) -> EndpointFault:
        what = f"{error.filename or self._command.words[0]} could not be started: {error.strerror}"
        return self._fault("not_started", what)

    def _fault(self, kind: str, what: str, *, is_transient: bool = False) -> EndpointFault:
        return EndpointUnreachable(self._shown(what), kind=kind, is_transient=is_transient)


def _with_attachments(turn: UserTurn, own: Path) -> str:
    """What the user says; a file that is sent along is named by where a copy of it lies."""
    lines = [turn.text]
    for number, one in enumerate(turn.attachments):
        folder = own / "attachments" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / (Path(one.name).name or "file")
        place.write_bytes(_content(one))
        lines.append(f"Attached: {place}")
    return "\n".join(lines)


def _content(one: Attachment) -> bytes:
    """The bytes of an attachment.

    Raises:
        EndpointFault: They are not there, or not what they were.
    """
    try:
        content = one.path.read_bytes()
    except OSError as error:
        content, why = b"", error.strerror or "cannot be read"
    else:
        why = "it is not what it was when the suite was loaded"
    if hashlib.sha256(content).hexdigest() != one.sha256:
        raise EndpointFault(f"{one.path}: {why}", kind="setup_failed", is_transient=False)
    return content
