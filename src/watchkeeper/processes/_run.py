"""One foreign program between its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, cast

from watchkeeper.processes._bounds import Bounds, Disk, Ended, EndReason, Output

_SUPERVISOR = Path(__file__).with_name("_supervisor.py")
_DISK_CHECK_S = 0.5
_SUPERVISOR_S = 8.0  # beyond the grace: what the supervisor may take to kill, and a margin
_DRAIN_S = 1.0  # for output in the pipes of a program that has ended


class Run(asyncio.SubprocessProtocol):
    """A program between its start and its end."""

    def __init__(
        self, bounds: Bounds, on_line: Callable[[bytes], bool | None] | None, disk: Disk | None
    ) -> None:
        self._bounds = bounds
        self._disk = disk
        self._outputs = {1: Output(bounds.output_bytes, on_line), 2: Output(bounds.output_bytes)}
        self._open = {1, 2}
        self._said = b""
        self._failure: Exception | None = None
        loop = asyncio.get_running_loop()
        self._why: asyncio.Future[EndReason] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._drained: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Takes what the program wrote."""
        try:
            why = self._outputs[fd].take(data)
        except Exception as error:  # noqa: BLE001 - the caller's own, raised again in play
            self._failure = error
            why = "stopped"
        if why is not None:
            self._end(why)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        """One of the streams has ended."""
        self._open.discard(fd)
        if not self._open and not self._drained.done():
            self._drained.set_result(None)

    def process_exited(self) -> None:
        """The supervisor has ended, and so has everything below it."""
        if not self._gone.done():
            self._gone.set_result(None)

    def _end(self, why: EndReason) -> None:
        if not self._why.done():
            self._why.set_result(why)

    async def play(
        self,
        order: Mapping[str, object],
        cwd: Path,
        stdin: bytes | Callable[[asyncio.WriteTransport], None] | None,
    ) -> Ended:
        """Runs the order; see ``run_bounded``."""
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            with theirs:
                command = (sys.executable, "-I", "-S", str(_SUPERVISOR), str(theirs.fileno()))
                transport, _ = await loop.subprocess_exec(
                    lambda: self,
                    *command,
                    stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=cwd,
                    env={},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            content = marshal.dumps(order)  # type: ignore[arg-type]  # texts and numbers
            packed = len(content).to_bytes(8, "big") + content
            helpers = [loop.create_task(self._talk(ours, packed))]
            if self._disk is not None:
                helpers.append(loop.create_task(self._watch(self._disk)))
            try:
                if stdin is not None:
                    pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
                    if callable(stdin):
                        stdin(pipe)
                    else:
                        pipe.write(stdin)
                        pipe.write_eof()
                waited: set[asyncio.Future[Any]] = {self._why, self._gone}
                seconds = self._bounds.seconds
                if not (await asyncio.wait(waited, timeout=seconds, return_when="FIRST_COMPLETED"))[
                    0
                ]:
                    self._end("time")
            finally:
                await _whatever_comes(self._finish(transport, ours, helpers))
        if self._failure is not None:
            raise self._failure
        if self._disk is not None and await asyncio.to_thread(self._disk.is_full):
            self._end("disk")
        return self._ended(str(cast("list[str]", order["words"])[0]), time.monotonic() - started)

    async def _talk(self, channel: socket.socket, order: bytes) -> None:
        """Gives the supervisor its order and hears its answer until it ends."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.sock_sendall(channel, order)
            while piece := await loop.sock_recv(channel, 4096):
                self._said += piece

    async def _watch(self, disk: Disk) -> None:
        """Ends the program when its folders have grown too much."""
        pause = _DISK_CHECK_S
        while True:
            await asyncio.sleep(pause)
            before = time.monotonic()
            if await asyncio.to_thread(disk.is_full):
                self._end("disk")
                return
            # A folder that takes long to measure is not measured all the time.
            pause = max(_DISK_CHECK_S, 5 * (time.monotonic() - before))

    async def _finish(
        self,
        transport: asyncio.SubprocessTransport,
        channel: socket.socket,
        helpers: list[asyncio.Task[None]],
    ) -> None:
        """Has everything ended, and takes what is left in the pipes; never raises."""
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_WR)
        await asyncio.wait({self._gone}, timeout=self._bounds.grace_s + _SUPERVISOR_S)
        if not self._gone.done():
            transport.kill()
        await asyncio.wait({helpers[0], self._drained}, timeout=_DRAIN_S)
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        transport.close()
        answer = self._answers().get("started")
        if answer is not None and not {"exited", "killed"} & self._answers().keys():
            # The supervisor itself was killed, and its program with it; not the program's group.
            with contextlib.suppress(OSError):
                os.killpg(answer[0], signal.SIGKILL)
        try:
            self._outputs[1].finish()
        except Exception as error:  # noqa: BLE001 - the caller's own, raised again in play
            self._failure = error

    def _answers(self) -> dict[str, list[int]]:
        """What the supervisor said: a word and its numbers."""
        lines = [line.split() for line in self._said.decode().splitlines()]
        return {line[0]: [int(number) for number in line[1:]] for line in lines if line}

    def _ended(self, program: str, seconds: float) -> Ended:
        answers = self._answers()
        if "failed" in answers:
            number = answers["failed"][0]
            raise OSError(number, os.strerror(number), program)
        # Without an answer the supervisor itself was killed, and its program with it.
        exited = answers.get("exited")
        killed = answers.get("killed", [int(signal.SIGKILL), 0])
        code, left = (exited[0], exited[1]) if exited is not None else (None, killed[1])
        ended_by = None if exited is not None else killed[0]
        out, err = self._outputs[1], self._outputs[2]
        why: EndReason = self._why.result() if self._why.done() else "exited"
        if why == "exited" and ended_by == signal.SIGXFSZ and self._disk is not None:
            why = "disk"
        return Ended(
            reason=why,
            exit_code=code,
            signal=ended_by,
            stdout=bytes(out.kept),
            stderr=bytes(err.kept),
            stdout_byte_count=out.byte_count,
            stderr_byte_count=err.byte_count,
            seconds=seconds,
            left_count=left,
        )


async def _whatever_comes(work: Coroutine[None, None, None]) -> None:
    """Waits for work that a cancellation must not cut, and passes the cancellation on."""
    task = asyncio.ensure_future(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    task.result()
    if is_cancelled:
        raise asyncio.CancelledError
