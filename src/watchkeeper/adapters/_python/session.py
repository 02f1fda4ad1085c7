"""One trial of a Python agent: a process of its own, which is called once a turn."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from watchkeeper.adapters._command.stream_faults import one_line, provider_fault
from watchkeeper.adapters._python.process import PythonAgent, Worker
from watchkeeper.adapters._reported import ReportedStream, Unreadable, read_reported
from watchkeeper.domain.content import Attachment, UserTurn
from watchkeeper.domain.ports import Observation, Step, TrialBrief
from watchkeeper.errors import EndpointFault, EndpointUnreachable

_EXIT_S = 2.0  # for a process to leave once nothing more is asked of it
_MARGIN_S = 60.0  # the trial's own deadline comes first
_FROM_OUTSIDE = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM})
_SHOWN_STDERR = 300


class PythonSession:
    """A conversation in which every turn is one call, in a process that lives as long."""

    def __init__(
        self,
        agent: PythonAgent,
        brief: TrialBrief,
        on_close: Callable[[PythonSession], None] = lambda _: None,
    ) -> None:
        self._agent = agent
        self._brief = brief
        self._on_close = on_close
        self._own: Path | None = None
        self._worker: Worker | None = None
        self._is_busy = False
        self._has_acted = False
        self._spoilt: EndpointFault | None = None
        self._turn_count = 0
        self._messages: list[dict[str, str]] = []

    async def step(self, observation: Observation) -> Step:
        """What the callable did with a turn of the user.

        A fault that came after it had told of calls of tools leaves a workspace that no repeat
        could begin in: it is raised again, and the trial's next attempt has a fresh one.

        Raises:
            EndpointFault: The process was ended from outside, or its provider failed.
            ValueError: The observation is not a turn of the user.
        """
        if not isinstance(observation, UserTurn):
            raise ValueError("the agent carries out its own calls; expected a turn of the user")  # noqa: TRY004 - as in every session
        if self._spoilt is not None:
            raise self._spoilt
        try:
            step = await self._turn(observation)
        except EndpointFault as fault:
            self._spoilt = fault if self._has_acted else None
            if self._turn_count == 0:
                # The repeat begins as this one did.
                await self._stop(0)
            raise
        self._turn_count += 1
        self._messages.append({"role": "user", "text": observation.text})
        self._messages.append({"role": "assistant", "text": step.answer})
        return step

    async def close(self) -> None:
        """Ends the process, and removes what the session made for itself."""
        self._on_close(self)
        try:
            await self._stop(0 if self._is_busy else _EXIT_S)
        finally:
            own, self._own = self._own, None
            if own is not None:
                await asyncio.to_thread(shutil.rmtree, own, ignore_errors=True)

    async def _stop(self, patience_s: float) -> None:
        worker, self._worker = self._worker, None
        self._is_busy = False
        if worker is not None:
            await worker.stop(patience_s)

    async def _turn(self, turn: UserTurn) -> Step:
        own = await self._own_folder()
        workspace = self._brief.workspace or own / "workspace"
        message = await asyncio.to_thread(self._message, turn, own, workspace)
        if self._worker is None:
            seconds = self._brief.limits.seconds + _MARGIN_S
            known = {"WATCHKEEPER_TRIAL_ID": self._brief.trial_id}
            self._worker = Worker(self._agent, workspace, own / "tmp", seconds, known)
        worker = self._worker
        worker.say(message)
        self._is_busy = True
        began = time.monotonic()
        stream: ReportedStream | None = None
        try:
            while (said := await worker.hear()) is not None:
                if "broken" in said or "raised" in said:
                    self._is_busy = False
                    return self._raised(said.get("broken") or said.get("raised"))
                if "value" in said:
                    self._is_busy = False
                    return read_reported(said["value"])
                if "event" in said:
                    stream = stream or ReportedStream()
                    event = said["event"]
                    self._has_acted |= isinstance(event, dict) and bool(event.get("tool_calls"))
                    _add(stream, event, (time.monotonic() - began) * 1000)
                elif "events_end" in said:
                    self._is_busy = False
                    stream = stream or ReportedStream()
                    if not stream.is_complete:
                        stream.add({"type": "result"})
                    return stream.step()
        except Unreadable as error:
            return self._failed(f"the agent reported what is no trial: {error}")
        return await self._died(worker)

    def _raised(self, told: object) -> Step:
        """What an exception of the callable comes to: a failed trial, or an outage.

        Raises:
            EndpointFault: The text, or its HTTP status, says that the provider failed.
        """
        assert isinstance(told, dict)  # noqa: S101 - our own worker said it
        status = told.get("status")
        text = self._agent.redactor.text(str(told.get("error")))
        fault = provider_fault(text, status if isinstance(status, int) else None)
        if fault is not None:
            raise fault
        place = str(told.get("place") or "")
        return self._failed(f"{text} ({place})" if place else text)

    async def _died(self, worker: Worker) -> Step:
        """What the end of the process in the middle of a turn comes to.

        Raises:
            EndpointFault: It could not be started, or was ended from outside.
        """
        try:
            ended = await worker.ended()
        except OSError as error:
            what = f"{self._agent.interpreter} could not be started: {error.strerror}"
            raise self._fault("not_started", what) from error
        stderr = self._agent.redactor.text(ended.stderr.decode("utf-8", "replace")).strip()
        said = f": {stderr[-_SHOWN_STDERR:]}" if stderr else ""
        if ended.reason == "output":
            return self._failed(f"the agent wrote more than {self._agent.output_bytes:,} bytes")
        if ended.reason == "disk":
            return self._failed(
                f"the agent took more than {self._agent.disk_bytes:,} bytes of disk"
            )
        if ended.reason == "time":
            raise TimeoutError
        if ended.signal is None:
            return self._failed(
                f"the agent's process ended with exit code {ended.exit_code} in a turn{said}"
            )
        name = signal.Signals(ended.signal).name
        if ended.signal in _FROM_OUTSIDE:
            what = f"the agent's process was ended from outside by {name}"
            raise self._fault("killed", what, is_transient=self._turn_count == 0)
        return self._failed(f"the agent's process crashed: {name}{said}")

    def _failed(self, what: str) -> Step:
        return Step(end="agent_error", error=one_line(self._agent.redactor.text(what)))

    def _fault(self, kind: str, what: str, *, is_transient: bool = False) -> EndpointFault:
        text = one_line(self._agent.redactor.text(what))
        return EndpointUnreachable(text, kind=kind, is_transient=is_transient)

    def _message(self, turn: UserTurn, own: Path, workspace: Path) -> dict[str, object]:
        """A turn as the callable is given it; files are copies of the trial's own."""
        brief = self._brief
        limits = brief.limits
        folder = own / "attachments" / str(self._turn_count)
        parts: list[object] = []
        for number, part in enumerate(turn.parts or (turn.text,)):
            place = folder / str(number)
            parts.append(_copied(part, place) if isinstance(part, Attachment) else part)
        return {
            "input": turn.text,
            "parts": parts,
            "attachments": [one for one in parts if isinstance(one, dict)],
            "messages": [*self._messages, {"role": "user", "text": turn.text}],
            "turn_number": self._turn_count + 1,
            "workspace": str(workspace),
            "trial_id": brief.trial_id,
            "case_id": brief.case.id,
            "seed": brief.seed,
            "model": self._agent.model,
            "limits": {
                "rounds": limits.rounds,
                "seconds": limits.seconds,
                "tokens": limits.tokens,
                "cost_usd": limits.cost_usd,
            },
        }

    async def _own_folder(self) -> Path:
        if self._own is None:
            made = await asyncio.to_thread(tempfile.mkdtemp, prefix="watchkeeper-")
            self._own = Path(made)
            for name in ("tmp", "workspace"):
                await asyncio.to_thread((self._own / name).mkdir)
        return self._own


def _add(stream: ReportedStream, event: object, at_ms: float) -> None:
    """Takes an event; a bare text is a piece of the response."""
    stream.add({"type": "text", "text": event} if isinstance(event, str) else event, at_ms)


def _copied(one: Attachment, folder: Path) -> dict[str, object]:
    """A file that the user sends, where the agent may do with it what it likes.

    Raises:
        EndpointFault: It is not there, or not what it was.
    """
    try:
        content = one.path.read_bytes()
    except OSError as error:
        content, why = b"", error.strerror or "cannot be read"
    else:
        why = "it is not what it was when the suite was loaded"
    if hashlib.sha256(content).hexdigest() != one.sha256:
        raise EndpointFault(f"{one.path}: {why}", kind="setup_failed", is_transient=False)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / (Path(one.name).name or "file")
    place.write_bytes(content)
    return {
        "name": one.name,
        "media_type": one.media_type,
        "sha256": one.sha256,
        "path": str(place),
    }
