"""config/endpoints.yaml → endpoints, each checked by the adapter of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.domain.endpoint import Endpoint, Harness
from watchkeeper.domain.identity import NAME_RULE, content_hash, is_name
from watchkeeper.domain.ports import Recipient
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.loading.models import EndpointModel
from watchkeeper.parsing.suggest import known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath, read_text, read_yaml

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
    try:
        document = read_yaml(root / _FILE, _FILE)
    except ConfigError as error:
        faults.extend(error.faults)
        return {}
    top = document.value
    if not isinstance(top, dict) or not isinstance(top.get("endpoints"), dict):
        faults.append(document.fault((), "expected the key 'endpoints' with a mapping by name"))
        return {}
    for key in top:
        if key not in {"endpoints", "sources"}:
            known = known_names(key, ["endpoints", "sources"])
            faults.append(document.fault((key,), f"unknown key '{key}'; {known}"))
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
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in adapter_kinds():
        faults.append(
            document.fault(
                (*path, "kind"),
                f"endpoint '{name}': unknown kind {kind!r:.60}; "
                f"{known_names(str(kind), adapter_kinds())}",
            )
        )
        return None
    common = {key: item for key, item in value.items() if key in _COMMON}
    special = {key: item for key, item in value.items() if key not in _COMMON}
    model = validated(EndpointModel, document, path, common, faults)
    settings = validated(adapter_module(kind).Settings, document, path, special, faults)
    if model is not None:
        _check_endpoint(document, path, name, model, owners, faults)
    if model is None or settings is None or len(faults) > before:
        return None
    system = None
    if model.harness.system is not None:
        try:
            system = read_text(root / model.harness.system, model.harness.system)
        except ConfigError as error:
            message = f"harness.system: {error.faults[0].message}: {model.harness.system}"
            faults.append(document.fault((*path, "harness", "system"), message))
            return None
    dumped = settings.model_dump(mode="json")
    requested = dumped.get("model")
    return Endpoint(
        name=name,
        kind=kind,
        owner=model.owner,
        env=model.env,
        requested_model=requested if isinstance(requested, str) else None,
        suites=tuple(model.suites),
        settings=settings,
        config_hash=content_hash(
            [
                kind,
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


def _check_endpoint(
    document: Document,
    path: KeyPath,
    name: str,
    model: EndpointModel,
    owners: Mapping[str, Recipient],
    faults: list[Fault],
) -> None:
    if model.owner not in owners:
        faults.append(
            document.fault(
                (*path, "owner"),
                f"endpoint '{name}': unknown owner '{model.owner}'; "
                f"{known_names(model.owner, owners)}",
            )
        )
    if model.work_pool != "default":
        faults.append(
            document.fault(
                (*path, "work_pool"),
                f"endpoint '{name}': work pools other than 'default' are not supported by this "
                "version",
            )
        )
    revision = model.harness.revision
    if revision.git is not None and revision.version is not None:
        faults.append(
            document.fault(
                (*path, "harness", "revision"), "revision: expected either git or version"
            )
        )
    if len(set(model.suites)) != len(model.suites):
        faults.append(document.fault((*path, "suites"), "suites: a suite is named twice"))
