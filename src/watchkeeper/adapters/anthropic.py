"""A model behind the Messages API, with a system prompt and tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from watchkeeper.adapters._anthropic.messages import ACCEPTED_MEDIA, MessagesWire, identity
from watchkeeper.adapters._model.adapter import ModelAdapter
from watchkeeper.adapters._model.faults import Faults
from watchkeeper.adapters._model.list import listed_models
from watchkeeper.adapters._model.rate_limits import anthropic_limits
from watchkeeper.adapters._model.requests import Line
from watchkeeper.adapters._model.settings import ModelSettings, key_of
from watchkeeper.domain.endpoint import Endpoint, ListedModel
from watchkeeper.domain.ports import Adapter, Clock
from watchkeeper.domain.redaction import Redactor

PUBLIC_ADDRESS = "https://api.anthropic.com"
_PAGE_SIZE = 100


class Settings(ModelSettings):
    """What an endpoint behind the Messages API adds to the common keys."""


def accepted_media() -> tuple[str, ...]:
    """Media types of images and files that a case may send; ``text/*`` stands for all of them."""
    return ACCEPTED_MEDIA


def connect(endpoint: Endpoint, variables: Mapping[str, str], root: Path, clock: Clock) -> Adapter:
    """The connected adapter; no call is made yet.

    Raises:
        UsageError: The variable of the key is not set, or holds no key.
    """
    settings = endpoint.settings
    assert isinstance(settings, Settings)  # noqa: S101 - the loader built it
    where = f"{endpoint.location}: endpoint '{endpoint.name}'".removeprefix(": ")
    key = key_of(settings, variables, where)
    line, faults = _line(settings, key), _faults(f"endpoint '{endpoint.name}'", settings, key)
    wire = MessagesWire(settings)
    return ModelAdapter(endpoint, settings, wire, line, faults, variables, root, clock)


async def list_models(settings: BaseModel, variables: Mapping[str, str]) -> list[ListedModel]:
    """Every model that the server lists for a key.

    Raises:
        UsageError: The variable of the key is not set.
        EndpointFault: The server could not be reached or refused the key.
    """
    assert isinstance(settings, Settings)  # noqa: S101 - the loader built it
    key = key_of(settings, variables, "the list of models")
    line, faults = _line(settings, key), _faults("the list of models", settings, key)
    models = line.client.models.with_raw_response
    try:
        return await listed_models(
            lambda after: models.list(limit=_PAGE_SIZE, **({"after_id": after} if after else {})),
            identity,
            line,
            faults,
            settings.request_seconds,
        )
    finally:
        await line.client.close()


def _line(settings: Settings, key: str) -> Line:
    # More than a second, which a command that calls no model should not pay.
    import anthropic  # noqa: PLC0415

    address, seconds = settings.base_url or PUBLIC_ADDRESS, settings.request_seconds
    client = anthropic.AsyncAnthropic(
        api_key=key,
        base_url=address,
        timeout=seconds,
        max_retries=0,
        http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False, timeout=seconds),
    )
    return Line(
        sdk=anthropic,
        error=anthropic.AnthropicError,
        client=client,
        send=client.messages.with_raw_response.create,
        retrieve=client.models.with_raw_response.retrieve,
        account=address,
    )


def _faults(place: str, settings: Settings, key: str) -> Faults:
    return Faults(
        place=place,
        model=settings.model,
        key_variable=settings.key_variable,
        redactor=Redactor({settings.key_variable: key}),
        api="the Messages API",
        id_header="request-id",
        limits=anthropic_limits,
    )
