"""What a registry or a provider's list says, as endpoints to be checked like those of the file."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from watchkeeper.domain.identity import is_name
from watchkeeper.domain.references import referred_variable
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.loading.source_models import ListedModelsModel, SourceModel
from watchkeeper.parsing.suggest import known_names
from watchkeeper.parsing.yaml_source import Document, KeyPath, fault_at, parse_yaml

MOST_ENDPOINTS = 500
_PROGRAMS = frozenset({"command", "python"})


class Unreadable(Exception):
    """The answer is not what a registry answers; the text says why."""


@dataclass(frozen=True, slots=True)
class RemoteDocument(Document):
    """What was not read from a file: places in it are JSON pointers."""

    def place(self, path: KeyPath) -> str:
        """The address with the pointer."""
        return f"{self.file}#{_pointer(path)}"

    def fault(self, path: KeyPath, message: str) -> Fault:
        """A fault at a pointer."""
        return fault_at(self.place(path), 0, message)


@dataclass(frozen=True, slots=True)
class Offer:
    """The endpoints of one source by name, unchecked, and the document that they stand in.

    ``note`` says why a copy stands in for the source.
    """

    document: Document
    endpoints: Mapping[str, object]
    note: str | None = None


def read_registry(content: bytes, name: str, source: SourceModel) -> Offer:
    """What a registry offers, in the schema of config/endpoints.yaml.

    Raises:
        Unreadable: It is neither JSON nor YAML, or holds no mapping.
        ConfigError: It is a registry's answer, and wrong.
    """
    value = _parsed(content, name)
    document = RemoteDocument(name, value, {})
    faults = [
        document.fault((key,), f"unknown key '{key}'; {known_names(key, ['endpoints'])}")
        for key in value
        if key != "endpoints"
    ]
    endpoints = value.get("endpoints")
    if not isinstance(endpoints, dict):
        message = "expected the key 'endpoints' with a mapping by name"
        raise ConfigError([*faults, document.fault(("endpoints",), message)])
    if len(endpoints) > MOST_ENDPOINTS:
        message = f"{len(endpoints):,} endpoints; at most {MOST_ENDPOINTS} are read"
        faults.append(document.fault(("endpoints",), message))
    for key, one in endpoints.items():
        faults.extend(_refused(document, ("endpoints", key), one, source))
    if faults:
        raise ConfigError(faults)
    return Offer(document, endpoints)


def read_listed(
    content: bytes,
    document: Document,
    path: KeyPath,
    model: ListedModelsModel,
    settings: Mapping[str, object],
) -> Offer:
    """One endpoint for every listed model that matches.

    Args:
        content: The names of the listed models, as a JSON list.
        document: config/endpoints.yaml.
        path: Where in it the source stands.
        model: What the source says.
        settings: The keys of its kind.

    Raises:
        Unreadable: The list is none.
        ConfigError: Too many models match, or two of them would have the same name.
    """
    try:
        names = json.loads(content)
    except ValueError as error:
        raise Unreadable("the list of models is not JSON") from error
    if not isinstance(names, list):
        raise Unreadable("the list of models is no list")
    matching = [
        name for name in names if isinstance(name, str) and fnmatch.fnmatchcase(name, model.match)
    ]
    if not matching:
        raise Unreadable(f"none of {len(names):,} listed models is like '{model.match}'")
    if len(matching) > model.most:
        message = (
            f"{len(matching):,} listed models are like '{model.match}', at most {model.most} are "
            "wanted; narrow match, or raise most"
        )
        raise ConfigError([document.fault((*path, "match"), message)])
    endpoints: dict[str, object] = {}
    for found in matching:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", found).lstrip("_.-")[:80]
        if not is_name(name) or name in endpoints:
            message = f"no endpoint can be named after the listed model {found!r:.100}"
            raise ConfigError([document.fault((*path, "match"), message)])
        endpoints[name] = {"kind": model.kind, **settings, **model.template, "model": found}
    here = Document(document.file, None, {(): document.line_of(path)})
    return Offer(here, endpoints)


def _parsed(content: bytes, name: str) -> dict[str, Any]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable("the answer is not UTF-8") from error
    if text.lstrip().startswith("<"):
        raise Unreadable("it answers with a page in place of JSON or YAML")
    try:
        value = _json(text, name) if text.lstrip()[:1] in "{[" else parse_yaml(text, name).value
    except ConfigError as error:
        raise Unreadable(error.faults[0].message) from error
    if not isinstance(value, dict):
        raise Unreadable("expected a mapping with the key 'endpoints'")
    return value


def _json(text: str, name: str) -> object:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(found)
        if len(result) < len(found):
            twice = next(key for key in result if sum(key == one for one, _ in found) > 1)
            raise ConfigError([fault_at(name, 0, f"key '{twice}' stands twice")])
        return result

    def constant(text: str) -> object:
        raise ValueError(text)

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Unreadable(f"the answer is not JSON{where}") from error


def _refused(
    document: Document, path: KeyPath, value: object, source: SourceModel
) -> Iterator[Fault]:
    """What a registry may not say, because whoever writes there is not whoever runs this."""
    if not isinstance(value, dict):
        return
    harness = value.get("harness")
    harness = harness if isinstance(harness, dict) else {}
    if not source.may_run_programs:
        starts = value.get("kind") in _PROGRAMS or "tools" in harness or _names_command(harness)
        if starts:
            yield document.fault(
                path,
                "it would start a program or load a module on this machine; a source may offer "
                "that only where config/endpoints.yaml says may_run_programs: true for it",
            )
    system = harness.get("system")
    if isinstance(system, str):
        file = PurePosixPath(system)
        if file.is_absolute() or ".." in file.parts:
            message = "harness.system: expected a file within the project folder"
            yield document.fault((*path, "harness", "system"), message)
    if source.variables is not None:
        allowed = {f"env:{name}" for name in source.variables}
        for reference in sorted(set(references_in(value)) - allowed):
            yield document.fault(path, f"it names {reference}, which its source may not use")


def _names_command(value: object) -> bool:
    if isinstance(value, dict):
        return "command" in value or any(_names_command(one) for one in value.values())
    return isinstance(value, list) and any(_names_command(one) for one in value)


def references_in(value: object) -> Iterator[str]:
    """Every ``env:NAME`` in a value."""
    if isinstance(value, str):
        name = referred_variable(value)
        if name is not None:
            yield f"env:{name}"
    elif isinstance(value, dict):
        for one in value.values():
            yield from references_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from references_in(one)


def _pointer(path: KeyPath) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
