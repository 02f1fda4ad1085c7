"""The process in which a team's callable runs, and what is said to it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from watchkeeper.adapters._reported import Unreadable, read_json
from watchkeeper.domain.redaction import Redactor
from watchkeeper.processes import Bounds, Ended, run_bounded

GRACE_S = 2.0
_KILL_S = 15.0
_WORKER = Path(__file__).with_name("worker.py")

Said = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PythonAgent:
    """How a callable is run for every trial; ``root`` is the project folder."""

    callable: str
    interpreter: str
    model: str | None
    variables: Mapping[str, str]
    root: Path
    output_bytes: int
    disk_bytes: int
    redactor: Redactor = field(repr=False)


class Worker:
    """A process that has the callable, from its start to its end."""

    def __init__(
        self,
        agent: PythonAgent,
        folder: Path,
        temporary: Path,
        seconds: float,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Starts it.

        Args:
            agent: What it runs.
            folder: Where it runs.
            temporary: Its folder for temporary files.
            seconds: When it is ended, whatever it does.
            variables: What its environment holds beside the agent's own.
        """
        self._lines: asyncio.Queue[Said | Unreadable | None] = asyncio.Queue()
        self._stdin: asyncio.WriteTransport | None = None
        # Isolated, it does not look at PYTHONPATH itself.
        listed = agent.variables.get("PYTHONPATH", "").split(os.pathsep)
        folders = [str(agent.root), *(folder for folder in listed if folder)]
        order = {"callable": agent.callable, "folders": folders}
        self._waiting = [_line(order)]
        self._program = asyncio.create_task(
            run_bounded(
                # Isolated: no module is found in the folder where it runs, nor beside its file.
                (agent.interpreter, "-I", str(_WORKER)),
                cwd=folder,
                variables={**agent.variables, "TMPDIR": str(temporary), **(variables or {})},
                bounds=Bounds(
                    seconds=seconds,
                    output_bytes=agent.output_bytes,
                    disk_bytes=agent.disk_bytes,
                    grace_s=GRACE_S,
                ),
                stdin=self._speak_over,
                on_line=self._hear,
                watched=(folder, temporary),
            )
        )
        self._program.add_done_callback(lambda _: self._lines.put_nowait(None))

    def say(self, message: object) -> None:
        """Sends a line."""
        if self._stdin is None:
            self._waiting.append(_line(message))
        elif not self._stdin.is_closing():
            self._stdin.write(_line(message))

    async def hear(self) -> Said | None:
        """The next line; ``None`` once the process has ended.

        Raises:
            Unreadable: It is no line of the worker's.
        """
        line = await self._lines.get()
        if isinstance(line, Unreadable):
            raise line
        if line is None:
            self._lines.put_nowait(None)
        return line

    async def ended(self) -> Ended:
        """How the process ended.

        Raises:
            OSError: It could not be started.
        """
        return await asyncio.shield(self._program)

    async def stop(self, patience_s: float) -> None:
        """Ends the process and all that it started; what it said last is forgotten."""
        if self._stdin is not None:
            self._stdin.close()
        is_cancelled = False
        until = time.monotonic() + patience_s
        while not self._program.done():
            try:
                await asyncio.wait({self._program}, timeout=max(until - time.monotonic(), 0.01))
            except asyncio.CancelledError:
                is_cancelled = True
            if time.monotonic() >= until and not self._program.done():
                self._program.cancel()
                until = time.monotonic() + _KILL_S
        if not self._program.cancelled():
            self._program.exception()
        if is_cancelled:
            raise asyncio.CancelledError

    def _speak_over(self, pipe: asyncio.WriteTransport) -> None:
        self._stdin = pipe
        for line in self._waiting:
            pipe.write(line)
        self._waiting.clear()

    def _hear(self, line: bytes) -> None:
        try:
            found = read_json(line)
        except Unreadable as error:
            self._lines.put_nowait(error)
            return
        if not isinstance(found, dict):
            self._lines.put_nowait(Unreadable("a line that is no mapping"))
            return
        self._lines.put_nowait(found)


def _line(message: object) -> bytes:
    return f"{json.dumps(message)}\n".encode()
