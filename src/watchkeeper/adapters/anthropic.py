"""A model behind the Messages API, with a system prompt and tools.

The SDK sends one request and nothing more: repeating it is the caller's, who counts it, and every
request has a deadline of its own, because the SDK bounds each phase (connect, read, write) and
not their sum.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import (
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from watchkeeper.adapters._anthropic_faults import Faults
from watchkeeper.adapters._anthropic_messages import (
    Json,
    Reply,
    Unreadable,
    read_object,
    read_reply,
    tool_definitions,
)
from watchkeeper.adapters._anthropic_session import MessagesSession
from watchkeeper.adapters._harness import Revision, git_revision
from watchkeeper.domain.endpoint import Endpoint, ServedIdentity
from watchkeeper.domain.ports import Adapter, Clock, Session, TrialBrief
from watchkeeper.domain.redaction import Redactor, whole_text
from watchkeeper.domain.trajectory import Round
from watchkeeper.errors import EndpointFault, UsageError

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic, AsyncAPIResponse

PUBLIC_ADDRESS = "https://api.anthropic.com"

_FROM_VARIABLE = "env:"
_REFERENCE = rf"^{_FROM_VARIABLE}[A-Za-z_][A-Za-z0-9_]*$"
_ADDRESS_RULE = "http(s)://host[:port][/path], without a user, a key or a query in it"


class Settings(BaseModel):
    """What an endpoint behind the Messages API adds to the common keys.

    Without ``base_url`` it is the public address, whatever the SDK finds in the environment: what
    an endpoint is stands in its configuration.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    model: str = Field(min_length=1, max_length=200, description="model or alias to ask for")
    api_key: str = Field(
        pattern=_REFERENCE,
        json_schema_extra={"secret": True},
        description="the key, as env:NAME",
    )
    base_url: str | None = Field(None, description="address of another server or a gateway")
    max_tokens: int = Field(4096, ge=1, le=128_000, description="output tokens of one response")
    request_seconds: float = Field(
        120, gt=0, le=3600, allow_inf_nan=False, description="deadline of one request"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, given: object) -> object:
        """Takes a literal key and a user in an address out before an error can quote them."""
        if not isinstance(given, Mapping):
            return given
        hidden = {}
        if "api_key" in given and not re.match(_REFERENCE, str(given["api_key"])):
            hidden["api_key"] = ""
        if "@" in str(given.get("base_url", "")):
            hidden["base_url"] = ""
        return {**given, **hidden}

    @field_validator("model")
    @classmethod
    def _model_is_name(cls, model: str) -> str:
        if not model.isprintable() or " " in model or model in {".", ".."}:
            raise ValueError("a model's name, without spaces")
        return model

    @field_validator("base_url")
    @classmethod
    def _address_is_plain(cls, address: str | None) -> str | None:
        if address is None:
            return None
        try:
            url = TypeAdapter(AnyHttpUrl).validate_python(address)
        except ValidationError as error:
            raise ValueError(_ADDRESS_RULE) from error
        if url.username or url.password or url.query or url.fragment:
            raise ValueError(_ADDRESS_RULE)
        return address


def connect(endpoint: Endpoint, variables: Mapping[str, str], root: Path, clock: Clock) -> Adapter:
    """The connected adapter; no call is made yet.

    Raises:
        UsageError: The variable of the key is not set, or holds no key.
    """
    settings = endpoint.settings
    assert isinstance(settings, Settings)  # noqa: S101 - the loader built it
    where = f"{endpoint.location}: endpoint '{endpoint.name}'".removeprefix(": ")
    variable = settings.api_key.removeprefix(_FROM_VARIABLE)
    key = variables.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"{where}: api_key is taken from the variable {variable}, which is not set; set it, "
            "or name another one"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{where}: the variable {variable} holds something that is not a key")

    # More than a second, which a command that calls no model should not pay.
    from anthropic import AsyncAnthropic  # noqa: PLC0415

    client = AsyncAnthropic(
        api_key=key,
        base_url=settings.base_url or PUBLIC_ADDRESS,
        timeout=settings.request_seconds,
        max_retries=0,
    )
    faults = Faults(endpoint.name, settings.model, variable, Redactor({variable: key}))
    return _MessagesAdapter(endpoint, settings, client, faults, variables, root, clock)


class _MessagesAdapter:
    """One endpoint's connection; its sessions share the client and nothing else."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        client: AsyncAnthropic,
        faults: Faults,
        variables: Mapping[str, str],
        root: Path,
        clock: Clock,
    ) -> None:
        self._harness = endpoint.harness
        self._settings = settings
        self._client = client
        self._faults = faults
        self._variables = variables
        self._root = root
        self._clock = clock

    @property
    def account(self) -> str:
        """The address, the variable of the key and the model."""
        address = self._settings.base_url or PUBLIC_ADDRESS
        return f"{address} {self._settings.api_key} {self._settings.model}"

    async def resolve(self) -> ServedIdentity:
        """What the server's list of models says; what it does not say is unverifiable.

        Raises:
            EndpointFault: The server could not be reached, refused the key, or is overloaded.
        """
        revision = Revision(self._harness.version)
        if self._harness.revision_git is not None:
            folder = self._root / self._harness.revision_git
            revision = await git_revision(folder, self._variables)
        listed, note = await self._listed_model()
        notes = [text for text in (note, revision.reason) if text]
        return ServedIdentity(
            requested_model=self._settings.model,
            resolved_model=_text(listed.get("id")),
            created_at=_moment(listed.get("created_at")),
            lifecycle=_text(listed.get("lifecycle")),
            retires_at=_moment(listed.get("retires_at")),
            harness_revision=revision.commit,
            note="; ".join(notes) or None,
        )

    async def open(self, brief: TrialBrief) -> Session:
        """A new conversation that offers the brief's tools."""
        fixed: dict[str, Any] = {
            "model": self._settings.model,
            "max_tokens": self._settings.max_tokens,
        }
        if self._harness.system and self._harness.system.strip():
            fixed["system"] = whole_text(self._harness.system)
        if brief.tools:
            fixed["tools"] = tool_definitions(brief.tools)
        silent = frozenset(tool.name for tool in brief.tools if tool.is_silent)

        async def ask(messages: tuple[Json, ...]) -> tuple[Reply, Round]:
            return await self._ask({**fixed, "messages": list(messages)}, silent)

        return MessagesSession(ask, self._faults)

    async def close(self) -> None:
        """Closes the connections; never raises."""
        with contextlib.suppress(Exception):
            await self._client.close()

    async def _ask(self, request: dict[str, Any], silent: frozenset[str]) -> tuple[Reply, Round]:
        """One request, its answer, and the round that it makes."""
        started = self._clock.monotonic()
        response = await self._sent(self._client.messages.with_raw_response.create(**request))
        latency_ms = (self._clock.monotonic() - started) * 1000
        try:
            reply = read_reply(response.content, silent)
        except Unreadable as error:
            fault = self._faults.unreadable(response.status_code, response.content, str(error))
            raise fault from error
        return reply, Round(
            text=reply.text,
            tool_calls=reply.calls,
            usage=reply.usage,
            stop_reason=reply.stop_reason,
            served_model=reply.served_model,
            latency_ms=latency_ms,
            request_id=response.headers.get("request-id"),
        )

    async def _listed_model(self) -> tuple[Json, str | None]:
        """The model's entry in the server's list; or nothing, and why."""
        asked = self._client.models.with_raw_response.retrieve(self._settings.model)
        try:
            entry = read_object((await self._sent(asked)).content)
        except Unreadable:
            return {}, "identity unverifiable: the server's list of models is unreadable"
        except EndpointFault as fault:
            if fault.kind not in {"model_not_found", "not_supported"}:
                raise
            return {}, "identity unverifiable: the server does not list the model"
        if _text(entry.get("id")) is None:
            return {}, "identity unverifiable: the server's list of models gives no id"
        return entry, None

    async def _sent(self, request: Awaitable[AsyncAPIResponse[Any]]) -> httpx2.Response:
        """The response with status 2xx; everything else is raised as a fault."""
        import anthropic  # noqa: PLC0415 - loaded by connect

        try:
            async with asyncio.timeout(self._settings.request_seconds):
                return (await request).http_response
        except (TimeoutError, anthropic.APITimeoutError):
            what = f"no answer within {self._settings.request_seconds:g} s"
            fault = self._faults.unreachable("timeout", what)
        except anthropic.APIConnectionError as error:
            cause = error.__cause__ or error
            what = f"no connection: {type(cause).__name__}: {cause}"
            fault = self._faults.unreachable("connection", what)
        except anthropic.APIStatusError as error:
            headers, now = error.response.headers, self._clock.now()
            fault = self._faults.of_status(error.status_code, headers, error.body, now)
        except anthropic.AnthropicError as error:
            what = f"the SDK refused the answer: {type(error).__name__}: {error}"
            fault = self._faults.unreachable("bad_response", what)
        # Not within the handlers: the SDK's error holds the request with the key.
        raise fault


def _text(value: object) -> str | None:
    return value[:200] if isinstance(value, str) and value.strip() else None


def _moment(value: object) -> datetime | None:
    """A time that the server gave; the epoch stands for one that it does not know."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if moment is None or moment.year <= 1970:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
