"""A provider's own list of models as a source of endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from pydantic import BaseModel

from watchkeeper.adapters import adapter_module, model_lister
from watchkeeper.errors import EndpointUnreachable, Fault
from watchkeeper.loading.kinds import kind_settings
from watchkeeper.loading.models import EndpointModel
from watchkeeper.loading.source_models import ListedModelsModel
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath

_COMMON = frozenset(ListedModelsModel.model_fields)
_PLACEHOLDER = "listed"


def listing(
    document: Document, path: KeyPath, source: object, faults: list[Fault]
) -> tuple[ListedModelsModel, dict[str, object]] | None:
    """What a source of the form ``models: …`` says, and the keys of its kind.

    Returns:
        ``None`` where it is wrong, with every reason in ``faults``.
    """
    if not isinstance(source, dict):
        faults.append(document.fault(path, "models: expected a mapping of keys"))
        return None
    common = {key: value for key, value in source.items() if key in _COMMON}
    model = validated(ListedModelsModel, document, path, common, faults)
    if model is None:
        return None
    own = {key: value for key, value in source.items() if key not in _COMMON}
    for key in ("model", "kind"):
        if key in model.template or key in own:
            message = f"{key}: every listed model brings its own; remove it"
            faults.append(document.fault((*path, key), message))
            return None
    if _settings(document, path, model.kind, own, faults) is None:
        return None
    if model_lister(model.kind) is None:
        message = f"models: no list of models can be asked for of the kind '{model.kind}'"
        faults.append(document.fault((*path, "kind"), message))
        return None
    unknown = [key for key in model.template if key not in EndpointModel.model_fields]
    special = set(adapter_module(model.kind).Settings.model_fields)
    for key in unknown:
        if key not in special:
            faults.append(document.fault((*path, "template", key), f"unknown key '{key}'"))
            return None
    return model, own


def asked_list(
    model: ListedModelsModel, own: Mapping[str, object], variables: Mapping[str, str]
) -> bytes:
    """The names of the models that a provider lists and has not retired, as a JSON list.

    Raises:
        UsageError: The variable of the key is not set.
        EndpointFault: The provider could not be asked.
    """
    settings = adapter_module(model.kind).Settings.model_validate({**own, "model": _PLACEHOLDER})

    list_models = model_lister(model.kind)
    assert list_models is not None  # noqa: S101 - the source was checked

    async def asked() -> list[str]:
        async with asyncio.timeout(model.seconds):
            found = await list_models(settings, variables)
        return [one.name for one in found if one.lifecycle != "retired"]

    try:
        return json.dumps(asyncio.run(asked())).encode()
    except TimeoutError as error:
        raise EndpointUnreachable(
            f"no list of models within {model.seconds:g} s", kind="timeout", is_transient=True
        ) from error


def _settings(
    document: Document,
    path: KeyPath,
    kind: str,
    own: Mapping[str, object],
    faults: list[Fault],
) -> BaseModel | None:
    value = {"kind": kind, **own, "model": _PLACEHOLDER}
    return kind_settings(document, path, "models", value, frozenset({"kind"}), faults)
