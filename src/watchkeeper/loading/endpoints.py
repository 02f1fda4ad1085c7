"""config/endpoints.yaml → endpoints, each checked by the adapter of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.domain.endpoint import Endpoint, Harness
from watchkeeper.domain.identity import NAME_RULE, content_hash, is_name
from watchkeeper.domain.ports import Recipient
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.loading._offers import Offer, references_in
from watchkeeper.loading.kinds import kind_settings
from watchkeeper.loading.mcp_servers import mcp_servers
from watchkeeper.loading.models import EndpointModel
from watchkeeper.loading.sources import SourceAccess, read_sources
from watchkeeper.parsing.suggest import is_unknown_name, known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath, read_mapping, read_text

_FILE = "config/endpoints.yaml"
_COMMON = frozenset(EndpointModel.model_fields)


@dataclass(frozen=True, slots=True)
class LoadedEndpoints:
    """Endpoints by name with the document that each came from.

    ``notes`` say which registries copies stand in for; ``secrets`` are the ``env:NAME`` that
    registries are asked with.
    """

    by_name: Mapping[str, tuple[Endpoint, Document]]
    notes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def load_endpoints(
    root: Path,
    owners: Mapping[str, Recipient],
    faults: list[Fault],
    access: SourceAccess | None = None,
) -> LoadedEndpoints:
    """The endpoints of a project, from its file and from registries.

    Args:
        root: The project folder.
        owners: The known owners.
        faults: Receives everything that is wrong.
        access: How registries are asked; as a command that makes calls asks them by default.
    """
    document = read_mapping(root / _FILE, _FILE, faults)
    top = document.value if document is not None else None
    if document is None or not isinstance(top, dict):
        return LoadedEndpoints({})
    for key in top:
        if key not in {"endpoints", "sources"}:
            known = known_names(key, ["endpoints", "sources"])
            faults.append(document.fault((key,), f"unknown key '{key}'; {known}"))
    sources = top.get("sources", ["file"])
    has_file = isinstance(sources, list) and "file" in sources
    is_needed = has_file and (len(sources) == 1 or "endpoints" in top)
    if is_needed and not isinstance(top.get("endpoints"), dict):
        message = "expected the key 'endpoints' with a mapping by name"
        faults.append(document.fault(("endpoints",), message))
        return LoadedEndpoints({})
    if not has_file and "endpoints" in top and isinstance(sources, list):
        message = "endpoints are written here, but sources does not name 'file'; add it"
        faults.append(document.fault(("endpoints",), message))
    endpoints: dict[str, tuple[Endpoint, Document]] = {}
    seen: dict[str, str] = {}
    notes: list[str] = []
    offers = read_sources(root, document, sources, access or SourceAccess(), faults, notes)
    for offer in offers:
        for name, value in offer.endpoints.items():
            path: KeyPath = ("endpoints", name)
            if not is_name(name):
                message = f"endpoint '{name[:80]}': expected {NAME_RULE}"
                faults.append(offer.document.fault(path, message))
                continue
            if name in seen:
                message = f"endpoint '{name}' stands also in {seen[name]}; give one another name"
                faults.append(offer.document.fault(path, message))
                continue
            seen[name] = offer.document.place(path)
            endpoint = _endpoint(root, offer, name, value, owners, faults)
            if endpoint is not None:
                endpoints[name] = (endpoint, offer.document)
    return LoadedEndpoints(endpoints, tuple(notes), tuple(references_in(sources)))


def _endpoint(
    root: Path,
    offer: Offer,
    name: str,
    value: object,
    owners: Mapping[str, Recipient],
    faults: list[Fault],
) -> Endpoint | None:
    document = offer.document
    path: KeyPath = ("endpoints", name)
    if not isinstance(value, dict):
        faults.append(document.fault(path, f"endpoint '{name}': expected a mapping of keys"))
        return None
    before = len(faults)
    owner = value.get("owner")
    if is_unknown_name(owner, owners):
        known = known_names(owner, owners)
        message = f"endpoint '{name}': unknown owner '{owner}'; {known}"
        faults.append(document.fault((*path, "owner"), message))
    common = {key: item for key, item in value.items() if key in _COMMON}
    model = validated(EndpointModel, document, path, common, faults)
    system = None
    if model is not None:
        _check_endpoint(document, path, model, faults)
        system = _system_prompt(root, document, path, model, faults)
    settings = kind_settings(document, path, name, value, _COMMON, faults)
    if model is None or settings is None or len(faults) > before:
        return None
    revision = model.harness.revision
    dumped = settings.model_dump(mode="json")
    requested = dumped.get("model")
    servers = model.harness.model_dump(mode="json")["mcp"]
    return Endpoint(
        name=name,
        kind=model.kind,
        owner=model.owner,
        env=model.env,
        requested_model=requested if isinstance(requested, str) else None,
        suites=tuple(model.suites),
        settings=settings,
        config_hash=content_hash(
            [
                model.kind,
                {key: item for key, item in dumped.items() if key != "model"},
                system,
                model.harness.tools,
                model.allow_side_effects,
                *([servers] if servers else []),
            ]
        ),
        harness=Harness(
            system=system,
            tools=model.harness.tools,
            mcp=mcp_servers(model.harness.mcp, root),
            revision_git=revision.git,
            version=revision.version,
            revision_url=revision.url,
            revision_pointer=revision.pointer,
            revision_headers=revision.headers,
            revision_command=tuple(revision.command or ()),
        ),
        allow_side_effects=model.allow_side_effects,
        concurrency=model.concurrency,
        call_retries=model.call_retries,
        run_budget_usd=model.run_budget_usd,
        run_token_cap=model.run_token_cap,
        requests_per_minute=model.requests_per_minute,
        tokens_per_minute=model.tokens_per_minute,
        shared_limit=model.shared_limit,
        location=document.place(path),
        source_note=offer.note,
    )


def _system_prompt(
    root: Path, document: Document, path: KeyPath, model: EndpointModel, faults: list[Fault]
) -> str | None:
    file = model.harness.system
    if file is None:
        return None
    try:
        return read_text(root / file, file)
    except ConfigError as error:
        message = f"harness.system: {error.faults[0].message}: {file}"
        faults.append(document.fault((*path, "harness", "system"), message))
        return None


def _check_endpoint(
    document: Document, path: KeyPath, model: EndpointModel, faults: list[Fault]
) -> None:
    revision = model.harness.revision
    place = (*path, "harness", "revision")
    told_by = [key for key in ("git", "url", "command", "version") if getattr(revision, key)]
    if len(told_by) > 1:
        message = f"revision: found {', '.join(told_by)}; expected one of them"
        faults.append(document.fault(place, message))
    if revision.url is None and (revision.pointer is not None or revision.headers):
        message = "revision: pointer and headers belong to url, which is missing"
        faults.append(document.fault(place, message))
    if len(set(model.suites)) != len(model.suites):
        faults.append(document.fault((*path, "suites"), "suites: a suite is named twice"))
    settings = adapter_module(model.kind).Settings if model.kind in adapter_kinds() else None
    if getattr(settings, "owns_loop", False):
        for key in ("system", "tools", "mcp"):
            if getattr(model.harness, key):
                what = f"an agent of kind {model.kind} has a prompt and tools of its own"
                message = f"harness.{key}: {what}; leave the key out"
                faults.append(document.fault((*path, "harness", key), message))
