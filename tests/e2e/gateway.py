"""An address that stays the same while what stands behind it changes, stalls or is gone."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.servers.loopback import DROPPED, LoopbackServer, Reply, Request

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length"}
PATIENCE_S = 60.0

Rule = Callable[[Request], Reply | None]
"""Asked before a request is passed on: an answer of its own, or ``None``."""


@dataclass(slots=True)
class Hold:
    """The first request that fits is held; ``is_done`` says whether it was carried out before."""

    verb: str
    part: str
    is_done: bool
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        """Returns once the request is there.

        Raises:
            AssertionError: It did not come.
        """
        assert self.reached.wait(PATIENCE_S), f"no {self.verb} of {self.part} came"


class Gateway(LoopbackServer):
    """Passes requests on to ``target``, and hangs up where there is none.

    Attributes:
        target: Where requests go now; it may be exchanged at any time.
        rule: What some requests meet instead.
    """

    def __init__(self, target: str | None = None) -> None:
        super().__init__()
        self.target = target
        self.rule: Rule = lambda _: None
        self._hold: Hold | None = None

    @contextmanager
    def holding(self, verb: str, part: str, *, is_done: bool) -> Iterator[Hold]:
        """Within the block the first request of that verb whose path holds ``part`` is held.

        It is never answered: whoever waits for it is meant to be killed.
        """
        hold = Hold(verb, part, is_done)
        self._hold = hold
        try:
            yield hold
        finally:
            self._hold = None
            hold.released.set()

    def answer(self, request: Request) -> Reply:
        """What the target says."""
        hold = self._hold
        if hold is not None and request.verb == hold.verb and hold.part in request.path:
            with self.lock:
                is_first = not hold.reached.is_set()
                if is_first and not hold.is_done:
                    hold.reached.set()
            if is_first:
                if hold.is_done:
                    self._passed_on(request)
                    hold.reached.set()
                hold.released.wait(PATIENCE_S)
                return DROPPED
        return self.rule(request) or self._passed_on(request)

    def _passed_on(self, request: Request) -> Reply:
        if self.target is None:
            return DROPPED
        query = f"?{request.raw_query}" if request.raw_query else ""
        headers = {k: v for k, v in request.headers.items() if k not in _HOP_BY_HOP}
        connection = http.client.HTTPConnection(
            self.target.removeprefix("http://"), timeout=PATIENCE_S
        )
        try:
            connection.request(request.verb, request.path + query, request.body, headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        kept = {k: v for k, v in response.getheaders() if k.lower() not in _HOP_BY_HOP}
        if request.verb == "HEAD":
            kept["content-length"] = response.getheader("content-length") or "0"
        return Reply(response.status, body, kept)
