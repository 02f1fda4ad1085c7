"""Asks endpoints what they serve, keeps what was seen, and tells of what retires."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from watchkeeper.domain.endpoint import Endpoint, ServedIdentity
from watchkeeper.domain.sighting import Sighting, next_sighting
from watchkeeper.errors import EndpointFault, EndpointUnreachable, UsageError, WatchkeeperError
from watchkeeper.notifiers.retirement import is_due, retirement_message
from watchkeeper.pipeline.steps import telling
from watchkeeper.store.sightings import Sightings
from watchkeeper.wiring import Services

RESOLVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one endpoint now.

    ``served`` is ``None`` where it could not be asked, and ``trouble`` says why. ``sighting`` is
    the newest one; ``is_new`` says that it was not there before.
    """

    endpoint: Endpoint
    served: ServedIdentity | None
    trouble: WatchkeeperError | None = None
    sighting: Sighting | None = None
    is_new: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether something differs from what was seen last; the first sight is no change."""
        return self.is_new and self.sighting is not None and bool(self.sighting.changes)


async def ask(services: Services, endpoint: Endpoint) -> Seen:
    """What an endpoint serves now; nothing is kept."""
    try:
        adapter = services.connect(endpoint)
    except UsageError as error:
        return Seen(endpoint, None, error)
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            served = await adapter.resolve()
    except EndpointFault as error:
        return Seen(endpoint, None, error)
    except TimeoutError:
        what = f"endpoint '{endpoint.name}': not resolved within {RESOLVE_SECONDS:g} s"
        return Seen(endpoint, None, EndpointUnreachable(what, kind="timeout", is_transient=True))
    finally:
        await adapter.close()
    return Seen(endpoint, _without_secrets(services, served))


def _without_secrets(services: Services, served: ServedIdentity) -> ServedIdentity:
    """What a server said of itself is a text like any other."""

    def cleaned(text: str | None) -> str | None:
        return None if text is None else services.redactor.text(text)

    return replace(
        served,
        resolved_model=cleaned(served.resolved_model),
        lifecycle=cleaned(served.lifecycle),
        harness_revision=cleaned(served.harness_revision),
        note=cleaned(served.note),
    )


def keep(services: Services, seen: Seen) -> Seen:
    """The same with the endpoint's newest sighting, which is this one where it is new.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    sightings = Sightings(services.records.objects)
    last = sightings.last(seen.endpoint.name)
    if seen.served is None:
        return Seen(seen.endpoint, None, seen.trouble, last)
    following = next_sighting(seen.endpoint.name, last, seen.served, services.clock.now())
    if following is None:
        return Seen(seen.endpoint, seen.served, None, last)
    return Seen(seen.endpoint, seen.served, None, sightings.put(following), is_new=True)


def is_owed(services: Services, seen: Seen) -> bool:
    """Whether the newest change is still to be handed on to whoever evaluates it."""
    sighting = seen.sighting
    if sighting is None or not sighting.wants_evaluation or not seen.endpoint.suites:
        return False
    return not Sightings(services.records.objects).is_announced(sighting)


def mark_announced(services: Services, sighting: Sighting) -> None:
    """Notes that a change was handed on; before this a restart hands it on once more."""
    Sightings(services.records.objects).put_announced(sighting, services.clock.now())


def announce_retirement(services: Services, endpoint: Endpoint, served: ServedIdentity) -> None:
    """Queues the notice of a retirement that is due, once for each endpoint, model and date."""
    now = services.clock.now()
    if is_due(served, now, services.project.retirement_notice_days):
        message = retirement_message(endpoint.name, endpoint.owner, served, endpoint.suites, now)
        telling.tell(services, message)


def refuse_retired(endpoint: Endpoint, served: ServedIdentity) -> None:
    """Nothing, unless the provider says that the model has retired.

    Raises:
        UsageError: It has; found before the first call.
    """
    if served.lifecycle != "retired":
        return
    model = served.resolved_model or served.requested_model
    day = f" on {served.retires_at:%Y-%m-%d}" if served.retires_at is not None else ""
    raise UsageError(
        f"{endpoint.location}: endpoint '{endpoint.name}': model '{model}' has retired{day}, says "
        "its provider; set another model. Nothing was called"
    )
