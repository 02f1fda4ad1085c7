"""An endpoint that is a model behind its provider's SDK, with a system prompt and tools."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from watchkeeper.adapters._attachments import Unsendable, refuse_media
from watchkeeper.adapters._harness import harness_revision
from watchkeeper.adapters._model.faults import Faults
from watchkeeper.adapters._model.json import (
    Json,
    Unreadable,
    read_object,
    text_at,
)
from watchkeeper.adapters._model.requests import Line, sent, whole
from watchkeeper.adapters._model.session import Heard, ModelSession, Reply, Stops, Turns
from watchkeeper.adapters._model.settings import ModelSettings
from watchkeeper.adapters._model.stream import Assembly, read_stream
from watchkeeper.domain.endpoint import Endpoint, ServedIdentity
from watchkeeper.domain.ports import Clock, Session, ToolSpec, TrialBrief
from watchkeeper.domain.redaction import whole_text
from watchkeeper.domain.trajectory import Round
from watchkeeper.errors import EndpointFault

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


class Wire(Turns, Protocol):
    """One API in both directions, as JSON: what is sent, and what came back."""

    @property
    def stops(self) -> Stops:
        """What its stop reasons mean."""
        ...

    @property
    def accepted_media(self) -> tuple[str, ...]:
        """Media types of the files that it takes."""
        ...

    def request(self, tools: Iterable[ToolSpec]) -> dict[str, Any]:
        """What every request of a conversation says."""
        ...

    def said(self, system: str | None, messages: tuple[Json, ...]) -> dict[str, Any]:
        """The prompt and the conversation so far, as a request says them."""
        ...

    def read(self, body: Json, silent: frozenset[str]) -> Reply:
        """What the model answered.

        Raises:
            Unreadable: It is not what the API promises.
            ReportedError: It says that the request failed.
        """
        ...

    def assembly(self) -> Assembly:
        """Puts a streamed response together."""
        ...

    def identity(self, entry: Json) -> dict[str, Any]:
        """Age and lifecycle from a model's entry, by the names of ``ServedIdentity``."""
        ...


class ModelAdapter:
    """One endpoint's connection; its sessions share the client and nothing else."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ModelSettings,
        wire: Wire,
        line: Line,
        faults: Faults,
        variables: Mapping[str, str],
        root: Path,
        clock: Clock,
    ) -> None:
        self._harness = endpoint.harness
        self._settings = settings
        self._wire = wire
        self._line = line
        self._faults = faults
        self._variables = variables
        self._root = root
        self._clock = clock

    @property
    def account(self) -> str:
        """The address, the variable of the key and the model."""
        return f"{self._line.account} {self._settings.api_key} {self._settings.model}"

    async def resolve(self) -> ServedIdentity:
        """What the server's list of models says; what it does not say is unverifiable.

        Raises:
            EndpointFault: The server could not be reached, refused the key, or is overloaded.
        """
        revision = await harness_revision(self._harness, self._root, self._variables)
        listed, note = await self._listed_model()
        notes = [text for text in (note, revision.reason) if text]
        return ServedIdentity(
            requested_model=self._settings.model,
            resolved_model=text_at(listed.get("id")),
            harness_revision=revision.commit,
            note="; ".join(notes) or None,
            **self._wire.identity(listed),
        )

    async def open(self, brief: TrialBrief) -> Session:
        """A new conversation that offers the brief's tools.

        Raises:
            EndpointFault: The case sends files of a type that the API does not take.
        """
        files = (one for turn in brief.case.turns for one in turn.attachments)
        try:
            refuse_media(files, self._wire.accepted_media)
        except Unsendable as error:
            raise self._faults.unsendable(error.kind, str(error)) from error
        fixed = self._wire.request(brief.tools)
        prompt = self._harness.system
        # A blank one is refused by some APIs.
        system = whole_text(prompt) if prompt and prompt.strip() else None
        silent = frozenset(tool.name for tool in brief.tools if tool.is_silent)

        async def ask(messages: tuple[Json, ...]) -> Heard:
            return await self._ask({**fixed, **self._wire.said(system, messages)}, silent)

        return ModelSession(ask, self._wire, self._wire.stops, self._faults)

    async def close(self) -> None:
        """Closes the connections; never raises."""
        with contextlib.suppress(Exception):
            await self._line.client.close()

    async def _ask(self, request: dict[str, Any], silent: frozenset[str]) -> Heard:
        """One request, its answer, and the round that it makes."""
        started = self._clock.monotonic()

        async def read(response: httpx2.Response) -> Heard:
            body, first = await self._body(response)
            latency_ms = (self._clock.monotonic() - started) * 1000
            reply = self._wire.read(body, silent)
            headers = response.headers
            one = Round(
                text=reply.text,
                tool_calls=reply.calls,
                usage=reply.usage,
                stop_reason=reply.stop_reason,
                served_model=reply.served_model,
                latency_ms=latency_ms,
                request_id=headers.get(self._faults.id_header),
                first_token_ms=None if first is None else (first - started) * 1000,
            )
            return Heard(reply, one, self._faults.limits(headers, self._clock.now()))

        return await self._sent(self._line.send(**request), read)

    async def _body(self, response: httpx2.Response) -> tuple[Json, float | None]:
        """The response's body, and when its first piece came."""
        if self._settings.stream:
            assembly = self._wire.assembly()
            return await read_stream(response, assembly, self._clock.monotonic)
        return read_object(response.content), None

    async def _listed_model(self) -> tuple[Json, str | None]:
        """The model's entry in the server's list; or nothing, and why."""
        asked = self._line.retrieve(self._settings.model)
        try:
            entry = read_object((await self._sent(asked, whole)).content)
        except Unreadable:
            return {}, "identity unverifiable: the server's list of models is unreadable"
        except EndpointFault as fault:
            if fault.kind not in {"model_not_found", "not_supported"}:
                raise
            return {}, "identity unverifiable: the server does not list the model"
        if text_at(entry.get("id")) is None:
            return {}, "identity unverifiable: the server's list of models gives no id"
        return entry, None

    async def _sent(
        self, request: Awaitable[Any], read: Callable[[httpx2.Response], Awaitable[T]]
    ) -> T:
        seconds = self._settings.request_seconds
        return await sent(request, self._line, self._faults, seconds, self._clock, read)
