"""Events on their way to Prefect's server, which must never keep a finished night waiting."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from prefect.events.clients import PrefectEventsClient
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, PREFECT_CLOUD_API_URL

DRAIN_TIMEOUT_S = 10.0
# The third and further attempts wait a second each, for every event, at the end of the process
# too: with Prefect's ten a server that is lost keeps a night of a thousand tasks for hours. All
# that is lost is what Prefect's pages show.
RECONNECTIONS = 2


@contextlib.contextmanager
def bounded_events() -> Iterator[None]:
    """Events of this context are delivered before it ends, or given up within seconds."""
    api_url = PREFECT_API_URL.value() or ""
    if not api_url.startswith(PREFECT_CLOUD_API_URL.value()):
        EventsWorker.set_client_override(PrefectEventsClient, reconnection_attempts=RECONNECTIONS)
    # It says every few seconds of an end that it is not done yet.
    logging.getLogger(EventsWorker.__name__).setLevel(logging.ERROR)
    try:
        yield
    finally:
        EventsWorker.drain_all(timeout=DRAIN_TIMEOUT_S)
        EventsWorker.set_client_override(None)
