"""The JSON that is sent to an agent: a template in which ``{{name}}`` stands for a value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Discriminator, JsonValue, Tag
from typing_extensions import TypeAliasType

PLACEHOLDERS = frozenset(
    {
        "attachments",
        "case_id",
        "input",
        "messages",
        "model",
        "seed",
        "session_id",
        "tools",
        "trial_id",
    }
)
DEFAULT_TEMPLATE: Mapping[str, str] = {
    "input": "{{input}}",
    "messages": "{{messages}}",
    "session_id": "{{session_id}}",
}
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def _known(text: str) -> str:
    for name in _PLACEHOLDER.findall(text):
        if name not in PLACEHOLDERS:
            known = ", ".join(sorted(PLACEHOLDERS))
            raise ValueError(f"a placeholder that exists instead of {{{{{name}}}}}; known: {known}")
    return text


def _branch(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list) else "mapping" if isinstance(value, dict) else "plain"


if TYPE_CHECKING:
    Template = JsonValue
else:
    # With branches that are told apart, so that a mistake is told with its place in the template.
    Template = TypeAliasType(
        "Template",
        Annotated[
            Annotated[Annotated[str, AfterValidator(_known)], Tag("text")]
            | Annotated[list["Template"], Tag("list")]
            | Annotated[dict[str, "Template"], Tag("mapping")]
            | Annotated[bool | int | float | None, Tag("plain")],
            Discriminator(_branch),
        ],
    )


def used_placeholders(template: object) -> frozenset[str]:
    """The names that a template asks for, wherever they stand."""
    if isinstance(template, str):
        return frozenset(_PLACEHOLDER.findall(template))
    inner = list(template.values()) if isinstance(template, Mapping) else template
    if not isinstance(inner, list):
        return frozenset()
    return frozenset[str]().union(*(used_placeholders(one) for one in inner))


def filled(template: object, values: Mapping[str, Any]) -> object:
    """The template with every placeholder replaced.

    A text that is one placeholder and nothing else becomes the value with its JSON type. Within a
    longer text a text stands as it is, nothing as no text, and everything else as its JSON.
    """
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template)
        if whole is not None:
            return values[whole.group(1)]
        return _PLACEHOLDER.sub(lambda match: _as_text(values[match.group(1)]), template)
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    return template


def _as_text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
