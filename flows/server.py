"""The Prefect server that flows talk to: the one that is configured, else one of our own."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    get_current_settings,
    temporary_settings,
)

from watchkeeper.flows.events import bounded_events
from watchkeeper.settings import read_settings

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
SETTLE_S = 1.0  # what the server was told last is recorded half a second later
# A server on the same machine is busy for seconds or gone for good.
_CLIENT_RETRIES = 3
PROGRAM = "watchkeeper.flows.server_process"
# A queue that is read message by message drops task runs when thousands come at once.
_RECORDERS = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "0.5",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "50",
}
_PAGES = "PREFECT_SERVER_UI_API_URL"  # where Prefect's pages look for the API
# What one night does not need, and a server that lives on does.
_FOR_ONE_NIGHT = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED": "false",
}


class ServerTrouble(Exception):
    """Prefect's server could not be started; nothing of Watchkeeper's was touched."""


@contextlib.contextmanager
def prefect_server(*, is_lasting: bool = False, port: int = 0) -> Iterator[str]:
    """The address of a Prefect API, which answers for as long as the context lasts.

    Where a profile or ``PREFECT_API_URL`` names a server, it is that one. Otherwise a server is
    started on the loopback interface, with the database of Prefect's home folder. Prefect's own
    temporary server would take twice as long, survive a killed parent, and never start a
    scheduled run.

    Args:
        is_lasting: Whether it must schedule runs and show its pages, as ``serve`` needs it.
        port: Where it should listen; any free port for 0, or where that one is taken.

    Raises:
        ServerTrouble: It ended at once or did not answer in time.
    """
    configured = PREFECT_API_URL.value()
    if configured:
        with bounded_events():
            yield configured
        return
    with tempfile.TemporaryFile() as log, _listening(port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        api = f"{address}/api"
        child = _start(listening, log, {_PAGES: api} if is_lasting else _FOR_ONE_NIGHT)
        listening.close()  # a server that ended then refuses calls, where it would let them wait
        try:
            _wait_until_ready(child, address, log)
            retries = min(_CLIENT_RETRIES, PREFECT_CLIENT_MAX_RETRIES.value())
            ours = {PREFECT_API_URL: api, PREFECT_CLIENT_MAX_RETRIES: retries}
            with temporary_settings(updates=ours):
                with bounded_events():
                    yield api
                time.sleep(SETTLE_S)
        finally:
            _stop(child)


def _listening(port: int) -> socket.socket:
    for wanted in (port, 0):
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(("127.0.0.1", wanted))
        except OSError:
            opened.close()
            continue
        opened.listen(128)
        return opened
    raise ServerTrouble("no port is free on the loopback interface")


def _start(
    listening: socket.socket, log: BinaryIO, special: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    variables = {
        **read_settings().variables,
        **_RECORDERS,
        **get_current_settings().to_environment_variables(exclude_unset=True),
        **special,
    }
    descriptor = listening.fileno()
    return subprocess.Popen(  # noqa: S603 - our own program, and a number
        [sys.executable, "-m", PROGRAM, str(descriptor)],
        env=variables,
        pass_fds=[descriptor],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for the night, which still has to tell its server
    )


def _wait_until_ready(child: subprocess.Popen[bytes], address: str, log: BinaryIO) -> None:
    """Returns when the server answers; calls wait in the socket's queue until then."""
    host = address.removeprefix("http://")
    until = time.monotonic() + START_TIMEOUT_S
    while child.poll() is None and (left := until - time.monotonic()) > 0:
        connection = http.client.HTTPConnection(host, timeout=min(left, 5.0))
        try:
            connection.request("GET", "/api/health")
            if connection.getresponse().status == http.client.OK:
                return
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
        finally:
            connection.close()
    said = _last_lines(log)
    if child.poll() is not None:
        raise ServerTrouble(f"Prefect's server ended with code {child.returncode}: {said}")
    raise ServerTrouble(f"Prefect's server did not answer in {START_TIMEOUT_S:g} s: {said}")


def _last_lines(log: BinaryIO) -> str:
    end = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), 2000, max(0, end - 2000)).decode(errors="replace").strip()


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdin is not None:
        child.stdin.close()
