"""A Prefect server on a socket that was opened for it; it ends with whoever started it.

The parent holds the other end of standard input. When the parent is gone, by whatever signal, the
pipe closes and so does the server: a killed night leaves no server behind.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

import uvicorn
from prefect.server.api.server import create_app

GRACE_S = 1
LAST_RESORT_S = 10


def main() -> None:
    """Serves until the parent ends or asks for it; the socket's descriptor is the only argument."""
    listening = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    config = uvicorn.Config(
        create_app, factory=True, log_level="error", timeout_graceful_shutdown=GRACE_S
    )
    uvicorn.Server(config).run(sockets=[listening])


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_RESORT_S)
    os._exit(1)


if __name__ == "__main__":
    main()
