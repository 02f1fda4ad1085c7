"""Where endpoints come from: the project's own file, registries, and providers' lists of models.

A registry that cannot be had at night must not cost the night: the last good copy stands in for
it, for a bounded time, and whoever reads the run's record is told so. Whoever asks whether the
configuration is right (``insist``) is told of the registry as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from watchkeeper.clock import SystemClock
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.references import NotSet, value_of
from watchkeeper.downloads import URL_RULE, DownloadBounds, download, is_plain_url, shown_url
from watchkeeper.errors import ConfigError, Fault, UsageError, WatchkeeperError
from watchkeeper.loading._copies import Copies, HeldCopy
from watchkeeper.loading._offers import Offer, Unreadable, read_listed, read_registry
from watchkeeper.loading.source_models import ListedModelsModel, SourceModel
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath
from watchkeeper.settings import read_settings

MOST_BYTES = 5_000_000
MOST_SOURCES = 20
_S3 = "s3://"
_FORMS = "expected 'file', 'https://…', 's3://bucket/key', or a mapping with 'url' or 'models'"

Mode = Literal["fetch", "insist", "copies"]


def _now() -> datetime:
    return SystemClock().now()


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """How registries are asked.

    ``mode`` is ``fetch``: a copy stands in for one that cannot be had; ``insist``: it does not;
    ``copies``: nothing is asked, what was had last is taken.
    """

    mode: Mode = "fetch"
    variables: Mapping[str, str] = field(default_factory=lambda: read_settings().variables)
    now: Callable[[], datetime] = _now


class _NotHad(Exception):
    """The source could not be asked, or did not answer as what it is; the text says why."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One source to be asked: what it is called, its bounds, how it is asked and read."""

    name: str
    copy_days: int
    ask: Callable[[], bytes]
    read: Callable[[bytes], Offer]
    path: KeyPath


def read_sources(
    root: Path,
    document: Document,
    listed: object,
    access: SourceAccess,
    faults: list[Fault],
    notes: list[str],
) -> list[Offer]:
    """What every source offers, in the order of the list.

    Args:
        root: The project folder.
        document: config/endpoints.yaml.
        listed: What stands at ``sources`` in it.
        access: How registries are asked.
        faults: Receives everything that is wrong.
        notes: Receives what people should know: copies that stand in for a registry.
    """
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_SOURCES:
        message = f"sources: expected a list of 1 to {MOST_SOURCES}; {_FORMS}"
        faults.append(document.fault(("sources",), message))
        return []
    offers: list[Offer] = []
    entries: list[_Entry] = []
    for index, source in enumerate(listed):
        path: KeyPath = ("sources", index)
        if source == "file":
            offers.append(_own_file(document))
            continue
        entry = _entry(document, path, source, access, faults)
        if entry is not None:
            entries.append(entry)
    doubled = {one.name for one in entries if sum(one.name == two.name for two in entries) > 1}
    if doubled or len(offers) > 1:
        faults.append(document.fault(("sources",), "sources: a source is named twice"))
        return offers[:1]
    copies = Copies(root)
    with ThreadPoolExecutor(max_workers=MOST_SOURCES) as pool:
        read = list(pool.map(lambda entry: _read(entry, copies, access), entries))
    for entry, found in zip(entries, read, strict=True):
        faults.extend(
            document.fault(entry.path, f"{entry.name}: {one}") if isinstance(one, str) else one
            for one in found.faults
        )
        notes.extend([found.note] if found.note else [])
        if found.offer is not None:
            offers.append(found.offer)
    return offers


@dataclass(frozen=True, slots=True)
class _Found:
    offer: Offer | None = None
    faults: tuple[str | Fault, ...] = ()
    note: str | None = None


def _read(entry: _Entry, copies: Copies, access: SourceAccess) -> _Found:
    """What one source offers now, or offered when it was last had."""
    now = access.now()
    held = copies.held(entry.name)
    if access.mode == "copies":
        if held is None:
            return _Found(note=f"{entry.name}: never read here, its endpoints are unknown")
        return _of_copy(entry, held, None)
    try:
        content = entry.ask()
        offer = entry.read(content)
    except ConfigError as error:  # it answers as what it is, and what it says is wrong
        return _Found(faults=error.faults)
    except (_NotHad, Unreadable) as trouble:
        why = str(trouble)
    else:
        copies.keep(entry.name, content, now)
        return _Found(offer)
    if access.mode == "insist" or held is None:
        return _Found(faults=(why,))
    since = copies.failing_since(entry.name, now)
    if now - held.fetched_at > timedelta(days=entry.copy_days):
        too_old = f"; the copy of {_when(held.fetched_at)} is older than {entry.copy_days} days"
        return _Found(faults=(why + too_old,))
    note = (
        f"{entry.name}: not readable since {_when(since)} ({why}); used the copy of "
        f"{_when(held.fetched_at)} ({held.sha256[:10]})"
    )
    return _of_copy(entry, held, note)


def _of_copy(entry: _Entry, held: HeldCopy, note: str | None) -> _Found:
    """What a copy offers; what is asked of a source may have changed since it was good."""
    try:
        offer = entry.read(held.content)
    except ConfigError as error:
        return _Found(faults=error.faults, note=note)
    except Unreadable as trouble:
        return _Found(faults=(str(trouble),), note=note)
    return _Found(replace(offer, note=note), note=note)


def _own_file(document: Document) -> Offer:
    top = document.value
    values = top.get("endpoints") if isinstance(top, dict) else None
    return Offer(document, values if isinstance(values, dict) else {})


def _entry(
    document: Document,
    path: KeyPath,
    source: object,
    access: SourceAccess,
    faults: list[Fault],
) -> _Entry | None:
    """One source of the list; ``None`` where it is none, with the reason in ``faults``."""
    if isinstance(source, str):
        source = {"url": source}
    elif isinstance(source, dict) and set(source) == {"models"}:
        return _listed_entry(document, path, source["models"], access, faults)
    if not isinstance(source, dict) or "url" not in source:
        faults.append(document.fault(path, f"sources: {_FORMS}"))
        return None
    model = validated(SourceModel, document, path, source, faults)
    if model is None:
        return None
    if model.url.startswith(_S3):
        return _s3_entry(document, path, model, faults)
    if not is_plain_url(model.url):
        message = f"sources: expected {URL_RULE}, or s3://bucket/key"
        faults.append(document.fault((*path, "url"), message))
        return None
    name = shown_url(model.url)

    def ask() -> bytes:
        try:
            headers = {
                name: value_of(text, access.variables) for name, text in model.headers.items()
            }
        except NotSet as error:
            raise _NotHad(f"a header is taken from {error}, which is not set") from error
        bounds = DownloadBounds(seconds=model.seconds, most_bytes=MOST_BYTES)
        found = asyncio.run(download(model.url, headers, bounds))
        if found.content is None:
            raise _NotHad(found.reason or "no answer")
        if found.media_type == "text/html":
            raise _NotHad("it answers with a page (text/html) in place of JSON or YAML")
        return found.content

    return _Entry(
        name, model.copy_days, ask, lambda content: read_registry(content, name, model), path
    )


def _s3_entry(
    document: Document, path: KeyPath, model: SourceModel, faults: list[Fault]
) -> _Entry | None:
    # boto3 is loaded for those alone who have something there.
    from watchkeeper.store.objects.single import SingleObject  # noqa: PLC0415

    try:
        place = SingleObject(model.url)
    except UsageError as error:
        faults.append(document.fault((*path, "url"), f"sources: {error}"))
        return None

    def ask() -> bytes:
        try:
            return place.read(MOST_BYTES, model.seconds)
        except WatchkeeperError as error:
            raise _NotHad(str(error)) from error

    def read(content: bytes) -> Offer:
        return read_registry(content, place.name, model)

    return _Entry(place.name, model.copy_days, ask, read, path)


def _listed_entry(
    document: Document,
    path: KeyPath,
    source: object,
    access: SourceAccess,
    faults: list[Fault],
) -> _Entry | None:
    from watchkeeper.loading._listed_models import asked_list, listing  # noqa: PLC0415

    found = listing(document, (*path, "models"), source, faults)
    if found is None:
        return None
    model, settings = found

    def ask() -> bytes:
        try:
            return asked_list(model, settings, access.variables)
        except WatchkeeperError as error:
            raise _NotHad(Redactor({}).text(str(error))) from error

    return _Entry(
        _listed_name(model, settings),
        model.copy_days,
        ask,
        lambda content: read_listed(content, document, (*path, "models"), model, settings),
        path,
    )


def _listed_name(model: ListedModelsModel, settings: Mapping[str, object]) -> str:
    where = settings.get("base_url")
    at = f" at {where}" if isinstance(where, str) else ""
    return f"models of {model.kind}{at} like {model.match}"


def _when(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
