"""A team's own agent behind a URL, which owns its loop and reports what it did.

A request is never repeated here; a repeat of the caller's carries the same ``Idempotency-Key``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from watchkeeper.adapters._harness import harness_revision
from watchkeeper.adapters._http.faults import Faults
from watchkeeper.adapters._http.mapping import name_of
from watchkeeper.adapters._http.settings import Settings, Version
from watchkeeper.adapters._reported import Unreadable, clean, read_json
from watchkeeper.domain.endpoint import Endpoint, Harness, ServedIdentity
from watchkeeper.domain.ports import Adapter, Clock, Session, TrialBrief
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.references import NotSet, referred_variable, value_of
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.adapters._http.wire import Wire

__all__ = ["Settings", "connect"]

_MAX_MODEL = 200


def connect(endpoint: Endpoint, variables: Mapping[str, str], root: Path, clock: Clock) -> Adapter:
    """The connected adapter; no call is made yet.

    Raises:
        UsageError: A variable of a secret is not set, or holds what no header can hold.
    """
    settings = endpoint.settings
    assert isinstance(settings, Settings)  # noqa: S101 - the loader built it
    where = f"{endpoint.location}: endpoint '{endpoint.name}'".removeprefix(": ")
    headers, secrets = _headers(settings, variables, where)

    # The client takes a tenth of a second, which a command that calls no agent should not pay.
    from watchkeeper.adapters._http.exchange import Bounds, Exchange  # noqa: PLC0415
    from watchkeeper.adapters._http.wire import Wire  # noqa: PLC0415

    faults = Faults(endpoint.name, Redactor(secrets))
    bounds = Bounds(settings.request_seconds, settings.max_response_bytes)
    exchange = Exchange(settings.url, headers, bounds, faults, clock)
    wire = Wire(settings, exchange, faults, clock)
    return _HttpAdapter(wire, endpoint.harness, variables, root)


def _headers(
    settings: Settings, variables: Mapping[str, str], where: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The headers with their values, and the secrets among these by their variables."""
    headers: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for name, text in settings.headers.items():
        try:
            headers[name.lower()] = value_of(text, variables)
        except NotSet as error:
            raise UsageError(
                f"{where}: headers.{name} is taken from the variable {error.args[0]}, which is not "
                "set; set it, or name another one"
            ) from error
        variable = referred_variable(text)
        if variable is None:
            continue
        secrets[variable] = variables[variable].strip()
        if not (secrets[variable].isascii() and secrets[variable].isprintable()):
            raise UsageError(f"{where}: the variable {variable} holds what no header can hold")
    return headers, secrets


class _HttpAdapter:
    """One endpoint's connections; its sessions share them and nothing else."""

    def __init__(
        self, wire: Wire, harness: Harness, variables: Mapping[str, str], root: Path
    ) -> None:
        self._wire = wire
        self._harness = harness
        self._variables = variables
        self._root = root

    @property
    def account(self) -> str:
        """The address without its query, and the model that is asked for."""
        parts = urlsplit(self._wire.settings.url)
        address = f"{parts.scheme}://{parts.netloc}{parts.path}"
        return f"{address} {self._wire.settings.model or ''}".strip()

    async def resolve(self) -> ServedIdentity:
        """What the version URL says, where there is one; the rest is unverifiable.

        Raises:
            EndpointFault: The version URL did not answer, or refused.
        """
        revision = await harness_revision(self._harness, self._root, self._variables)
        model, note = None, "identity unverifiable: no version.url is configured"
        version = self._wire.settings.version
        if version is not None:
            model = await self._told(version)
            note = "identity unverifiable: the version URL names no model"
        notes = [text for text in (None if model else note, revision.reason) if text]
        return ServedIdentity(
            requested_model=self._wire.settings.model,
            resolved_model=model,
            harness_revision=revision.commit,
            note="; ".join(notes) or None,
        )

    async def open(self, brief: TrialBrief) -> Session:
        """A new conversation for one trial.

        Raises:
            EndpointFault: The case sends files and the request has no place for them.
        """
        has_place = "attachments" in self._wire.settings.placeholders
        if not has_place and any(turn.attachments for turn in brief.case.turns):
            what = "the case sends files, and 'request' has no {{attachments}} to put them in"
            raise self._wire.faults.refused("media_refused", what)
        from watchkeeper.adapters._http.session import HttpSession  # noqa: PLC0415

        return HttpSession(self._wire, brief)

    async def close(self) -> None:
        """Closes the connections; never raises."""
        await self._wire.exchange.close()

    async def _told(self, version: Version) -> str | None:
        """The model that the version URL names."""
        answer = await self._wire.exchange.ask("GET", version.url)
        if answer.media_type == "text/html":
            raise self._wire.faults.unreadable("HTML", answer.content, is_transient=True)
        if version.model is None:
            return _short(answer.content.decode("utf-8", "replace"))
        try:
            body = clean(read_json(answer.content))
        except Unreadable as error:
            why = str(error)
            raise self._wire.faults.unreadable(why, answer.content, is_transient=True) from None
        return _short(self._wire.found(version.model, body, answer))


def _short(value: object) -> str | None:
    text = name_of(value)
    return text if text and len(text) <= _MAX_MODEL else None
