"""A threaded HTTP/1.1 server on loopback that keeps connections alive and can misbehave."""

import json
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer, and how it is to be given.

    Args:
        delay_s: Seconds between the request and the answer.
        drop: Hang up after the delay instead of answering.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False

    @classmethod
    def json(cls, body: object, *, status: int = 200, **headers: str) -> Self:
        """The reply with the body as JSON; header names are given with underscores."""
        return cls(
            status=status,
            body=json.dumps(body).encode(),
            headers={
                "content-type": "application/json; charset=utf-8",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
        )

    def after(self, seconds: float) -> Self:
        """The same reply, given later."""
        return replace(self, delay_s=seconds)


DROPPED = Reply(drop=True)


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as it arrived; header names in lower case, the path still quoted."""

    verb: str
    path: str
    raw_query: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class LoopbackServer(ThreadingHTTPServer):
    """Answers on 127.0.0.1, one thread a connection; subclasses say what in `answer`.

    `answer` runs on many threads at once: it takes `lock` around what it changes.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.faults: list[BaseException] = []
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, request: Request) -> Reply:
        """The reply to one request; an exception here hangs up and fails `running`."""
        raise NotImplementedError

    def answered(self, request: Request, reply: Reply) -> None:
        """Called once the reply was due, whether or not anyone was still there to read it."""

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serve from a thread until the block ends, then close every connection.

        Raises:
            AssertionError: `answer` itself failed on some request.
        """
        thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, name="loopback", daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self.shutdown()
            thread.join(5.0)
            self.server_close()
            with self.lock:
                connections = list(self._connections)
            for connection in connections:
                _hang_up(connection)
        if self.faults:
            raise AssertionError("the test server failed itself") from self.faults[0]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, so that closing the server closes it too."""
        with self.lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection and close it."""
        with self.lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what went wrong, unless the client merely went away."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, (ConnectionError, TimeoutError)):
            self.faults.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize: ClassVar[int] = -1  # head and body leave in one packet
    disable_nagle_algorithm: ClassVar[bool] = True
    server: LoopbackServer

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        request = Request(
            verb=self.command,
            path=parts.path,
            raw_query=parts.query,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length) if length else b"",
        )
        reply = self.server.answer(request)
        if reply.delay_s and self.server.closing.wait(reply.delay_s):
            self.close_connection = True
            return
        self.server.answered(request, reply)
        if reply.drop:
            self.close_connection = True
            _hang_up(self.connection)
        else:
            self._send(reply)

    def handle_expect_100(self) -> bool:
        """Ask for the body at once: a client that heard nothing would wait for a second."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name in reply.headers):
            self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)
        self.wfile.flush()

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, *args: object, **named: object) -> None:
        """Nothing: a test reads the server's record, not its log."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
