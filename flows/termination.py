"""A request to end (SIGTERM) as an exception, wherever the process is when it comes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from prefect.exceptions import TerminationSignal


@contextlib.contextmanager
def raising_sigterm() -> Iterator[None]:
    """Within the block SIGTERM raises ``TerminationSignal``, also before and after a flow.

    Inside a flow Prefect raises it too. Where that reaches the flow itself, Prefect puts the
    former handler back and sends the signal once more; the system's own handler would end the
    process there, with nothing said and a server left behind.

    Raises:
        TerminationSignal: The process was told to end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread alone
        return
    former = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _raise(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's form
    raise TerminationSignal(signal=number)
