"""Notices that a provider is down, stops further trials, and lets one try now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchkeeper.domain.ports import Clock
from watchkeeper.errors import EndpointFault
from watchkeeper.rollout._waiting import sleep_unless

WINDOW_REQUESTS = 20
FIRST_PAUSE_S = 30.0
LONGEST_PAUSE_S = 600.0
OUTAGE = "provider_down"
SPENT = "quota_exhausted"
# Other faults that stay are about one request, and a provider that tells so is not down.
_OF_ACCOUNT = frozenset({SPENT, "authentication", "model_not_found", "redirected"})


@dataclass(frozen=True, slots=True)
class Outage:
    """Why no trial may begin: ``kind`` is stored with each, ``text`` says what was seen."""

    kind: str
    text: str


class Breaker:
    """One account's state, shared by all its trials in this process.

    It opens when so many different trials in a row were ended by faults of the infrastructure
    with no answer between them, when half of the latest twenty requests failed for good with
    faults that may pass, or at once when the account's quota is spent. A fault that may pass is
    waited for: after a pause, which doubles each time, one trial tries, and where it is answered
    all go on. What does not pass by itself (a spent quota, a wrong key) is not waited for; so a
    row of such faults opens it only when nothing that was asked before can be answered any more.
    """

    def __init__(
        self, account: str, trials_in_a_row: int, clock: Clock, tell: Callable[[str], None]
    ) -> None:
        """``tell`` shows people a line when it opens and when it closes."""
        self._account = account
        self._tell = tell
        self._clock = clock
        self._most = trials_in_a_row
        self._failed: set[str] = set()
        self._window: deque[bool] = deque(maxlen=WINDOW_REQUESTS)
        self._outage: Outage | None = None
        self._seen = ""
        self._is_passing = False
        self._opened_at = clock.now()
        self._pause_s = FIRST_PAUSE_S
        self._try_at = 0.0
        self._trying: str | None = None
        self._changed = asyncio.Event()
        self._sleeper = asyncio.Lock()
        self._asked = 0
        self._unanswered: set[int] = set()
        self._opened = 0  # requests that had been asked when it opened
        self._suspect: tuple[int, EndpointFault, str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether trials have to wait."""
        return self._outage is not None

    @property
    def outage(self) -> Outage | None:
        """Why no trial may begin, or ``None``: they may."""
        return self._outage

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Around one request; where the block does not raise, it was answered.

        An answer to a request that was asked after the breaker opened closes it.
        """
        self._asked += 1
        number = self._asked
        self._unanswered.add(number)
        try:
            yield
        except BaseException:
            self._unanswered.discard(number)
            self._open_on_suspicion()
            raise
        self._unanswered.discard(number)
        if self._outage is not None:
            if number > self._opened:
                self._close()
            return
        self._failed.clear()
        self._suspect = None
        self._window.append(True)

    def failed(self, trial_id: str, fault: EndpointFault) -> None:
        """A request of a trial failed for good, after its repetitions."""
        if self._outage is not None:
            if trial_id == self._trying:
                self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
                self._open(fault, self._seen)
            return
        if not fault.is_transient and fault.kind not in _OF_ACCOUNT:
            return
        self._failed.add(trial_id)
        if fault.is_transient:
            self._window.append(False)
        failures = self._window.count(False)
        if fault.kind == SPENT:
            self._open(fault, "the account's quota or credit is spent")
        elif len(self._failed) >= self._most:
            seen = f"{len(self._failed)} trials in a row failed without an answer"
            if fault.is_transient:
                self._open(fault, seen)
            elif self._suspect is None:
                self._suspect = (self._asked, fault, seen)
                self._open_on_suspicion()
        elif len(self._window) == WINDOW_REQUESTS and failures * 2 >= WINDOW_REQUESTS:
            self._open(fault, f"{failures} of the latest {WINDOW_REQUESTS} requests failed")

    async def admit(
        self, trial_id: str, patience: timedelta, finish_by: datetime | None
    ) -> Outage | None:
        """Lets a trial begin, at once or after the outage; or says why it may not.

        Args:
            trial_id: Who asks, within ``watching``.
            patience: How long an outage is waited for where there is no ``finish_by``.
            finish_by: Until when it is waited for.
        """
        while self._outage is not None:
            until = finish_by if finish_by is not None else self._opened_at + patience
            if not self._is_worth_waiting(until):
                return self._outage
            if self._trying is not None:
                self._changed.clear()
                await self._changed.wait()
                continue
            async with self._sleeper:
                wait = self._try_at - self._clock.monotonic()
                if not self.is_open or self._trying is not None:
                    continue
                if wait <= 0:
                    self._trying = trial_id
                    return None
                if self._is_worth_waiting(until):
                    await sleep_unless(self._changed, wait, self._clock)
        return None

    @contextlib.contextmanager
    def watching(self, trial_id: str) -> Iterator[None]:
        """Around a trial with its admission; if it was the one that tried, another may then."""
        try:
            yield
        finally:
            if trial_id == self._trying:
                self._trying = None
                self._changed.set()

    def _open_on_suspicion(self) -> None:
        if self._suspect is None or self._outage is not None:
            return
        until, fault, seen = self._suspect
        if all(number > until for number in self._unanswered):
            self._open(fault, seen)

    def _is_worth_waiting(self, until: datetime) -> bool:
        wait = max(self._try_at - self._clock.monotonic(), 0.0)
        return self._is_passing and self._clock.now() + timedelta(seconds=wait) < until

    def _open(self, fault: EndpointFault, seen: str) -> None:
        if self._outage is None:
            self._opened_at = self._clock.now()
            self._tell(f"{self._account}: no further trials begin: {seen}; the last: {fault}")
        self._seen = seen
        is_named = not fault.is_transient or fault.kind == "rate_limited"
        self._outage = Outage(fault.kind if is_named else OUTAGE, f"{seen}; the last: {fault}")
        self._is_passing = fault.is_transient
        self._try_at = self._clock.monotonic() + max(self._pause_s, fault.retry_after_s or 0.0)
        self._trying = None
        self._failed.clear()
        self._window.clear()
        self._suspect = None
        self._opened = self._asked
        self._changed.set()

    def _close(self) -> None:
        self._tell(f"{self._account}: answers again, trials go on")
        self._outage = None
        self._trying = None
        self._pause_s = FIRST_PAUSE_S
        self._changed.set()
