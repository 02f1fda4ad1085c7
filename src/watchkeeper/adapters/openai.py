"""A model behind Chat Completions or the Responses API, with a system prompt and tools.

OpenAI's own, and every server or gateway that speaks one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from watchkeeper.adapters._model.adapter import ModelAdapter, Wire
from watchkeeper.adapters._model.faults import Faults
from watchkeeper.adapters._model.list import listed_models
from watchkeeper.adapters._model.rate_limits import openai_limits
from watchkeeper.adapters._model.requests import Line
from watchkeeper.adapters._model.settings import key_of
from watchkeeper.adapters._openai.chat import ChatWire
from watchkeeper.adapters._openai.responses import ResponsesWire
from watchkeeper.adapters._openai.shapes import ACCEPTED_MEDIA, Settings, identity
from watchkeeper.domain.endpoint import Endpoint, ListedModel
from watchkeeper.domain.ports import Adapter, Clock
from watchkeeper.domain.redaction import Redactor

__all__ = ["PUBLIC_ADDRESS", "Settings", "accepted_media", "connect", "list_models"]

PUBLIC_ADDRESS = "https://api.openai.com/v1"


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
    wire: Wire = ChatWire(settings) if settings.api == "chat" else ResponsesWire(settings)
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
        # All of them are on one page.
        return await listed_models(
            lambda _: models.list(), identity, line, faults, settings.request_seconds
        )
    finally:
        await line.client.close()


def _line(settings: Settings, key: str) -> Line:
    # About a second, which a command that calls no model should not pay.
    import openai  # noqa: PLC0415

    address, seconds = settings.base_url or PUBLIC_ADDRESS, settings.request_seconds
    client = openai.AsyncOpenAI(
        api_key=key,
        base_url=address,
        timeout=seconds,
        max_retries=0,
        # Given, because the environment may hold one that would take the key's place.
        default_headers={"Authorization": f"Bearer {key}"},
        http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False, timeout=seconds),
    )
    # As configured: the SDK takes what is not given from the environment.
    client.organization, client.project = settings.organization, settings.project
    raw = client.chat.completions if settings.api == "chat" else client.responses
    billed = [text for text in (settings.organization, settings.project) if text]
    return Line(
        sdk=openai,
        error=openai.OpenAIError,
        client=client,
        send=raw.with_raw_response.create,
        retrieve=client.models.with_raw_response.retrieve,
        account=" ".join([address, *billed]),
    )


def _faults(place: str, settings: Settings, key: str) -> Faults:
    api = "Chat Completions" if settings.api == "chat" else "the Responses API"
    return Faults(
        place=place,
        model=settings.model,
        key_variable=settings.key_variable,
        redactor=Redactor({settings.key_variable: key}),
        api=api,
        id_header="x-request-id",
        limits=openai_limits,
    )
