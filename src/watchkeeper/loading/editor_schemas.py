"""JSON Schemas of the configuration files, made from the models that read them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter

from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.adapters._reported_format import trajectory_json_schema
from watchkeeper.graders import expect_json_schema
from watchkeeper.loading.models import (
    EndpointModel,
    OwnerModel,
    PricesModel,
    ProjectModel,
    SimulatorModel,
)
from watchkeeper.loading.source_models import ListedModelsModel, SourceModel
from watchkeeper.loading.suite_models import CaseModel, SuiteModel

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def editor_schemas() -> dict[str, dict[str, Any]]:
    """The schema of every file and of a report, by its name without the ending."""
    return {
        "watchkeeper": _titled(ProjectModel.model_json_schema(), "config/watchkeeper.yaml"),
        "owners": _titled(TypeAdapter(dict[str, OwnerModel]).json_schema(), "config/owners.yaml"),
        "prices": _titled(PricesModel.model_json_schema(), "config/prices.yaml"),
        "endpoints": _titled(_endpoints(), "config/endpoints.yaml"),
        "simulators": _titled(_simulators(), "config/simulators.yaml"),
        "suite": _titled(_suite(), "config/suites/*.yaml"),
        "trajectory": _titled(trajectory_json_schema(), "what an agent reports of one turn"),
    }


def _titled(schema: dict[str, Any], title: str) -> dict[str, Any]:
    return {"$schema": _DIALECT, **schema, "title": title}


def _suite() -> dict[str, Any]:
    """The suite's schema with cases and the graders of this version."""
    schema = SuiteModel.model_json_schema()
    case = CaseModel.model_json_schema()
    definitions = {**schema.pop("$defs", {}), **case.pop("$defs", {})}
    expect = expect_json_schema()
    definitions.update(expect.pop("$defs", {}))
    expect.pop("$schema", None)
    case["properties"]["expect"] = expect
    listed = {"type": "array", "items": case, "minItems": 1}
    schema["properties"]["cases"] = {"anyOf": [listed, {"type": "string"}]}
    return {**schema, "$defs": definitions}


def _branches(model: type[BaseModel]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One branch a kind, of the common keys and those of the kind; and what they refer to."""
    definitions: dict[str, Any] = {}
    branches: list[dict[str, Any]] = []
    for kind in adapter_kinds():
        common = model.model_json_schema()
        special = adapter_module(kind).Settings.model_json_schema()
        definitions.update(common.pop("$defs", {}))
        definitions.update(special.pop("$defs", {}))
        properties = {**common["properties"], **special["properties"], "kind": {"const": kind}}
        branches.append(
            {
                "title": kind,
                "type": "object",
                "additionalProperties": False,
                "properties": properties,
                "required": sorted({*common["required"], *special.get("required", [])}),
            }
        )
    return branches, definitions


def _simulators() -> dict[str, Any]:
    branches, definitions = _branches(SimulatorModel)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["simulators"],
        "properties": {
            "simulators": {"type": "object", "additionalProperties": {"oneOf": branches}}
        },
        "$defs": definitions,
    }


def _endpoints() -> dict[str, Any]:
    branches, definitions = _branches(EndpointModel)
    listed = ListedModelsModel.model_json_schema()
    listed["additionalProperties"] = True  # the keys of the kind
    models = {"type": "object", "properties": {"models": listed}, "required": ["models"]}
    sources = [
        {"const": "file"},
        {"type": "string", "pattern": "^(https?|s3)://"},
        SourceModel.model_json_schema(),
        {**models, "additionalProperties": False},
    ]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "sources": {"type": "array", "minItems": 1, "items": {"anyOf": sources}},
            "endpoints": {"type": "object", "additionalProperties": {"oneOf": branches}},
        },
        "$defs": definitions,
    }
