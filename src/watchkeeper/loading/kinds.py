"""The keys that a kind of endpoint adds to the common ones."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.errors import Fault
from watchkeeper.parsing.suggest import known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath


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
