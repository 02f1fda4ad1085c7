"""What a JSON Schema under ``expect`` may hold, beyond what the meta-schema itself demands.

A keyword that would be ignored is refused, because a gate that checks less than it says is worse
than none. A reference leads to another place of the same schema, and never in a circle without
going down into the answer: such a circle would never end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from watchkeeper.graders._pattern import PatternRefused, pattern_test
from watchkeeper.graders._refusals import Path, Problem
from watchkeeper.graders._wording import nearest, quoted, shown

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SAME_VALUE_LISTS = frozenset({"allOf", "anyOf", "oneOf"})
_SAME_VALUE_ONES = frozenset({"not", "if", "then", "else"})
_LISTS = _SAME_VALUE_LISTS | {"prefixItems"}
_ONES = _SAME_VALUE_ONES | {
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
}
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "properties"})
_LIMITS = frozenset(
    {
        *("const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum"),
        *("maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains"),
        *("minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern"),
        *("required", "type", "uniqueItems"),
    }
)
_NOTES = frozenset(
    {
        *("$anchor", "$comment", "default", "deprecated", "description", "examples"),
        *("readOnly", "title", "writeOnly"),
    }
)
_AT_THE_TOP = frozenset({"$id", "$schema"})
_KNOWN = _LISTS | _ONES | _MAPS | _LIMITS | _NOTES | {"$ref"}
_UNSUPPORTED: Mapping[str, str] = {
    "format": "it would not be checked (Draft 2020-12 takes it for a note); use 'pattern'",
    "contentEncoding": "it would not be checked",
    "contentMediaType": "it would not be checked",
    "contentSchema": "it would not be checked",
    "patternProperties": "it is not supported by this version; use 'propertyNames'",
    "$dynamicRef": "it is not supported by this version; use '$ref'",
    "$dynamicAnchor": "it is not supported by this version; use '$anchor'",
    "$vocabulary": "it is not supported by this version",
    "additionalItems": "it belongs to an older draft; use 'prefixItems' and 'items'",
    "dependencies": "it belongs to an older draft; use 'dependentRequired' or 'dependentSchemas'",
    "id": "it belongs to an older draft",
}


def schema_problems(schema: Mapping[str, object]) -> list[Problem]:
    """Everything in a schema that would be ignored, read from elsewhere, or never end.

    Args:
        schema: A JSON value of bounded depth; what is malformed is left to the meta-schema.
    """
    places = dict(_places(schema, ()))
    anchors = {
        str(one["$anchor"]): place
        for place, one in places.items()
        if isinstance(one, Mapping) and isinstance(one.get("$anchor"), str)
    }
    problems: list[Problem] = []
    targets: dict[Path, Path] = {}
    for place, one in places.items():
        if not isinstance(one, Mapping):
            continue
        problems += _keyword_problems(one, place)
        reference = one.get("$ref")
        if isinstance(reference, str):
            target = _target(reference, places, anchors)
            if isinstance(target, str):
                problems.append(((*place, "$ref"), target))
            else:
                targets[place] = target
    if not problems:
        problems += _circles(places, targets)
    return problems


def _places(schema: object, place: Path) -> Iterator[tuple[Path, object]]:
    """Every subschema with its place, the schema itself first."""
    yield place, schema
    if isinstance(schema, Mapping):
        for keyword, value in schema.items():
            for below in _subschemas(keyword, value):
                inner = value
                for step in below:
                    inner = inner[step]
                yield from _places(inner, (*place, keyword, *below))


def _subschemas(keyword: str, value: object) -> list[Path]:
    """Where the subschemas stand below a keyword's value."""
    if keyword in _ONES:
        return [()]
    if keyword in _LISTS and isinstance(value, list):
        return [(index,) for index in range(len(value))]
    if keyword in _MAPS and isinstance(value, Mapping):
        return [(key,) for key in value]
    return []


def _keyword_problems(schema: Mapping[str, object], place: Path) -> Iterator[Problem]:
    for keyword, value in schema.items():
        where = (*place, keyword)
        if keyword in _UNSUPPORTED:
            yield where, f"'{keyword}' is refused: {_UNSUPPORTED[keyword]}"
        elif keyword in _AT_THE_TOP and place:
            yield where, f"'{keyword}' may stand only at the top of the schema"
        elif keyword not in _KNOWN | _AT_THE_TOP and not keyword.startswith("x-"):
            closest = nearest(keyword, _KNOWN)
            hint = f"; did you mean '{closest}'?" if closest else ""
            yield where, f"unknown keyword {quoted(keyword)}, which would be ignored{hint}"
        elif keyword == "$schema" and value not in (DIALECT, f"{DIALECT}#"):
            yield where, f"found {shown(value)}, expected '{DIALECT}', or no '$schema'"
        elif keyword == "pattern" and isinstance(value, str):
            try:
                pattern_test(value)
            except PatternRefused as error:
                yield where, f"the pattern {quoted(value)} cannot be used: {error}"


def _target(
    reference: str, places: Mapping[Path, object], anchors: Mapping[str, Path]
) -> Path | str:
    """The place that a reference leads to, or what is wrong with it."""
    if not reference.startswith("#"):
        return f"'$ref' leads to {quoted(reference)}; only places of this schema are read: #/…"
    fragment = unquote(reference[1:])
    if fragment and not fragment.startswith("/"):
        place = anchors.get(fragment)
        return (
            f"there is no '$anchor' {quoted(fragment)} in this schema" if place is None else place
        )
    steps = [one.replace("~1", "/").replace("~0", "~") for one in fragment.split("/")[1:]]
    for place in places:
        if [str(one) for one in place] == steps:
            return place
    return f"'$ref' leads to {quoted(reference)}, and there is no schema at that place"


def _circles(places: Mapping[Path, object], targets: Mapping[Path, Path]) -> list[Problem]:
    """The references that lead back to where they stand without going down into the value."""
    onward: dict[Path, list[Path]] = {}
    for place, schema in places.items():
        onward[place] = [targets[place]] if place in targets else []
        if isinstance(schema, Mapping):
            for keyword, value in schema.items():
                if keyword in _SAME_VALUE_LISTS | _SAME_VALUE_ONES | {"dependentSchemas"}:
                    onward[place] += [
                        (*place, keyword, *below) for below in _subschemas(keyword, value)
                    ]
    problems: list[Problem] = []
    for start in targets:
        reached: set[Path] = set()
        waiting = list(onward[start])
        while waiting:
            place = waiting.pop()
            if place not in reached:
                reached.add(place)
                waiting += onward[place]
        if start in reached:
            problems.append(((*start, "$ref"), "'$ref' leads back to itself without end"))
    return problems
