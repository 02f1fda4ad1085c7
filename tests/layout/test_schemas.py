"""The editor schemas in docs/schemas are those that the models give."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from watchkeeper.loading.editor_schemas import editor_schemas

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(editor_schemas()))
def test_a_stored_schema_is_fresh(name: str) -> None:
    """Whoever changes a model writes the schemas anew: watchkeeper schemas docs/schemas."""
    stored = (ROOT / f"docs/schemas/{name}.schema.json").read_text()
    assert json.loads(stored) == json.loads(json.dumps(editor_schemas()[name]))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("watchkeeper", "watchkeeper.yaml"),
        ("owners", "owners.yaml"),
        ("prices", "prices.yaml"),
        ("endpoints", "endpoints.yaml"),
        ("suite", "suites/discovery.yaml"),
    ],
)
def test_the_starter_fits_its_schema(name: str, file: str) -> None:
    """An editor shows no error in the files that init writes."""
    schema = editor_schemas()[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load((ROOT / "config" / file).read_text()), schema)


@pytest.mark.parametrize(
    "broken",
    [
        {"expect": {}},
        {"expect": {"must_mentoin": "x"}},
        {"expect": {"must_mention": "x"}, "id": "a/b"},
        {"expect": {"must_mention": "x"}, "colour": "red"},
    ],
)
def test_the_suite_schema_refuses_what_loading_refuses(broken: dict[str, object]) -> None:
    """A case without assertions, with an unknown grader or key, or a bad id is marked."""
    suite = yaml.safe_load((ROOT / "config/suites/discovery.yaml").read_text())
    suite["cases"][0] = {**suite["cases"][0], **broken}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(suite, editor_schemas()["suite"])
