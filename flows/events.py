"""Events on their way to Prefect's server, which must never keep a finished night waiting."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from prefect.events import Event
from prefect.events.clients import PrefectEventsClient
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, PREFECT_CLOUD_API_URL

DRAIN_TIMEOUT_S = 10.0
_RECONNECTIONS = 3


class DroppingEventsClient(PrefectEventsClient):
    """Hands events on until the server is lost, and drops them from then on.

    Prefect's own client tries every one of them for seconds, at the end of the process too: an
    hour for a night of a thousand tasks. All that is lost is what Prefect's pages show.
    """

    def __init__(self) -> None:
        super().__init__(reconnection_attempts=_RECONNECTIONS)
        self._is_lost = False

    async def emit(self, event: Event) -> None:
        """Hands an event on, or drops it."""
        if self._is_lost:
            return
        try:
            await super().emit(event)
        except Exception:  # noqa: BLE001 - whatever it is, the next one would meet it again
            self._is_lost = True


@contextlib.contextmanager
def bounded_events() -> Iterator[None]:
    """Events of this context are delivered before it ends, or given up within seconds."""
    api_url = PREFECT_API_URL.value() or ""
    is_cloud = api_url.startswith(PREFECT_CLOUD_API_URL.value())
    EventsWorker.set_client_override(None if is_cloud else DroppingEventsClient)
    # It says every few seconds of an end that it is not done yet.
    logging.getLogger(EventsWorker.__name__).setLevel(logging.ERROR)
    try:
        yield
    finally:
        EventsWorker.drain_all(timeout=DRAIN_TIMEOUT_S)
        EventsWorker.set_client_override(None)
