"""Stands between us and a foreign program, and ends everything that the program started.

This file runs as a program of its own (``processes`` starts it). It is the reaper of every orphan
below it, so a child that left its group and its session is still found; and where Watchkeeper
itself is killed, the closed socket tells it to end the program. It needs nothing but the standard
library, and of that as little as possible: every trial of a command waits for its imports. On
systems without reapers (macOS) it ends the program's process group.

Over the socket comes the order, marshalled, after its length in eight bytes. Back go
``started PID`` or ``failed ERRNO``, and at the end ``exited CODE LEFT`` or ``killed SIGNAL LEFT``,
where LEFT counts what would not die.
"""

# ruff: noqa: SIM105 - contextlib takes a third as long to import as all the others together

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 5.0
POLL_SECONDS = 0.02


def main(descriptor: int) -> None:
    """Runs the program that the socket orders, until it and all that it started are gone."""
    os.set_inheritable(descriptor, False)
    order = _order(descriptor)
    if order is None:
        return
    control = _process_control()
    control(PR_SET_CHILD_SUBREAPER, 1)
    woken = _woken_by_children()
    try:
        leader = _started(order, control)
    except OSError as error:
        _tell(descriptor, f"failed {error.errno}")
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    _tell(descriptor, f"started {leader}")
    status: int | None = None
    while status is None:
        ready, _, _ = select.select([descriptor, woken], [], [])
        if descriptor in ready:
            break
        os.read(woken, 4096)
        status = _reaped(leader)
    status = _all_ended(leader, status, float(order["grace_s"]))
    left = len(_descendants()) if _is_anybody_left() else 0
    if status is None:
        _tell(descriptor, f"killed {int(signal.SIGKILL)} {left}")
    elif os.WIFSIGNALED(status):
        _tell(descriptor, f"killed {os.WTERMSIG(status)} {left}")
    else:
        _tell(descriptor, f"exited {os.WEXITSTATUS(status)} {left}")


def _order(descriptor: int) -> dict[str, Any] | None:
    """The order; ``None`` where Watchkeeper is gone already."""
    size = int.from_bytes(os.read(descriptor, 8), "big")
    found = bytearray()
    while len(found) < size:
        piece = os.read(descriptor, min(size - len(found), 1 << 20))
        if not piece:
            return None
        found += piece
    return marshal.loads(found) if found else None  # noqa: S302


def _tell(descriptor: int, line: str) -> None:
    try:
        os.write(descriptor, f"{line}\n".encode())
    except OSError:
        pass  # nobody is there to hear it


def _process_control() -> Callable[[int, int], None]:
    """Linux's ``prctl`` of two arguments; elsewhere something that does nothing."""
    if sys.platform == "linux":
        try:
            import ctypes  # noqa: PLC0415 - only where it is used

            library = ctypes.CDLL(None)
        except (OSError, ImportError):
            pass
        else:
            return lambda option, value: library.prctl(option, value, 0, 0, 0) and None
    return lambda option, value: None  # noqa: ARG005 - nothing to set


def _woken_by_children() -> int:
    """A pipe's end that is readable after a child has ended."""
    woken, waker = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    return woken


def _started(order: dict[str, Any], control: Callable[[int, int], None]) -> int:
    """Starts the program in a session of its own and says its process id.

    Raises:
        OSError: It could not be executed.
    """
    heard, said = os.pipe()
    leader = os.fork()
    if leader == 0:
        try:
            _become(order, control)
        except OSError as error:
            os.write(said, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(said)
    failure = os.read(heard, 16)
    os.close(heard)
    if failure:
        os.waitpid(leader, 0)
        raise OSError(int(failure), "")
    return leader


def _become(order: dict[str, Any], control: Callable[[int, int], None]) -> None:
    """In the child: the limits, then the program in place of this one."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for one in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(one, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    control(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file_bytes = order["file_bytes"]
    if file_bytes is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        lowest = file_bytes if hard == resource.RLIM_INFINITY else min(file_bytes, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (lowest, lowest))
    os.execvpe(order["words"][0], order["words"], order["variables"])  # noqa: S606 - its purpose


def _reaped(leader: int) -> int | None:
    """Takes every child that has ended; the leader's wait status where it is among them."""
    status: int | None = None
    while True:
        try:
            pid, found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == leader:
            status = found


def _all_ended(leader: int, status: int | None, grace_s: float) -> int | None:
    """Asks everything to end, then ends it; the leader's wait status."""
    for number, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_SECONDS)):
        until = time.monotonic() + seconds
        is_asked = False
        while True:
            found = _reaped(leader)
            status = found if status is None else status
            if not _is_anybody_left() and not _has_group(leader):
                return status
            if time.monotonic() >= until:
                break
            # What is to be killed may start more meanwhile; what was asked is asked once.
            if number == signal.SIGKILL or not is_asked:
                _send(leader, number)
                is_asked = True
            time.sleep(POLL_SECONDS)
    return status


def _send(leader: int, number: int) -> None:
    """A signal to the program's group and to every process below us, to each once."""
    try:
        os.killpg(leader, number)
    except OSError:
        pass
    for pid in _descendants():
        try:
            if os.getpgid(pid) != leader:
                os.kill(pid, number)
        except OSError:
            pass


def _is_anybody_left() -> bool:
    """Whether there is a process below us: every one of them has a child of ours above it."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _has_group(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    return True


def _descendants() -> list[int]:
    """Every process below us, as /proc tells it; empty where there is none."""
    children: dict[int, list[int]] = {}
    names = os.listdir("/proc") if sys.platform == "linux" else []  # noqa: PTH208 - see above
    for name in names:
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - see above
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]))
