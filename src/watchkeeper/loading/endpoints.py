"""config/endpoints.yaml → endpoints, each checked by the adapter of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.domain.endpoint import Endpoint, Harness
from watchkeeper.domain.identity import NAME_RULE, content_hash, is_name
from watchkeeper.domain.ports import Recipient
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.loading.models import EndpointModel
from watchkeeper.parsing.suggest import is_unknown_name, known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath, read_mapping, read_text

_FILE = "config/endpoints.yaml"
_COMMON = frozenset(EndpointModel.model_fields)


def load_endpoints(
    root: Path, owners: Mapping[str, Recipient], faults: list[Fault]
) -> dict[str, tuple[Endpoint, Document]]:
    """The endpoints of a project with the file that each came from, by name.

    Args:
        root: The project folder.
        owners: The known owners.
        faults: Receives everything that is wrong.
    """
    document = read_mapping(root / _FILE, _FILE, faults)
    top = document.value if document is not None else None
    if document is None or not isinstance(top, dict):
        return {}
    for key in top:
        if key not in {"endpoints", "sources"}:
            known = known_names(key, ["endpoints", "sources"])
            faults.append(document.fault((key,), f"unknown key '{key}'; {known}"))
    if not isinstance(top.get("endpoints"), dict):
        message = "expected the key 'endpoints' with a mapping by name"
        faults.append(document.fault(("endpoints",), message))
        return {}
    _check_sources(document, top.get("sources", ["file"]), faults)
    endpoints: dict[str, tuple[Endpoint, Document]] = {}
    for name, value in top["endpoints"].items():
        path: KeyPath = ("endpoints", name)
        if not is_name(name):
            faults.append(document.fault(path, f"endpoint '{name[:80]}': expected {NAME_RULE}"))
            continue
        endpoint = _endpoint(root, document, name, value, owners, faults)
        if endpoint is not None:
            endpoints[name] = (endpoint, document)
    return endpoints


def _check_sources(document: Document, sources: object, faults: list[Fault]) -> None:
    if not isinstance(sources, list) or any(source != "file" for source in sources):
        faults.append(
            document.fault(
                ("sources",),
                "sources: this version reads endpoints from this file only; expected [file]. "
                "Registries behind a URL or on object storage are not supported yet",
            )
        )


def _endpoint(
    root: Path,
    document: Document,
    name: str,
    value: object,
    owners: Mapping[str, Recipient],
    faults: list[Fault],
) -> Endpoint | None:
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
    dumped = settings.model_dump(mode="json")
    requested = dumped.get("model")
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
            ]
        ),
        harness=Harness(
            system=system,
            tools=model.harness.tools,
            revision_git=model.harness.revision.git,
            version=model.harness.revision.version,
        ),
        allow_side_effects=model.allow_side_effects,
        concurrency=model.concurrency,
        call_retries=model.call_retries,
        run_budget_usd=model.run_budget_usd,
        run_token_cap=model.run_token_cap,
        location=f"{document.file}:{document.line_of(path)}",
    )


def kind_settings(
    document: Document,
    path: KeyPath,
    name: str,
    value: Mapping[str, object],
    common: frozenset[str],
    faults: list[Fault],
) -> BaseModel | None:
    """What the kind adds to the common keys; every key that neither knows is a fault."""
    kind = value.get("kind")
    if not isinstance(kind, str):
        return None
    if kind not in adapter_kinds():
        known_kinds = known_names(kind, adapter_kinds())
        message = f"endpoint '{name}': unknown kind {kind!r:.60}; {known_kinds}"
        faults.append(document.fault((*path, "kind"), message))
        return None
    model = adapter_module(kind).Settings
    known = common | set(model.model_fields)
    faults.extend(
        document.fault((*path, key), f"unknown key '{key}'; {known_names(key, known, limit=20)}")
        for key in value
        if key not in known
    )
    special = {key: item for key, item in value.items() if key in model.model_fields}
    return validated(model, document, path, special, faults)


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
    if revision.git is not None and revision.version is not None:
        faults.append(
            document.fault(
                (*path, "harness", "revision"), "revision: expected either git or version"
            )
        )
    if len(set(model.suites)) != len(model.suites):
        faults.append(document.fault((*path, "suites"), "suites: a suite is named twice"))
