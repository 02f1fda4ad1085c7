"""The answer, or the final state, fits a JSON Schema (Draft 2020-12)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic import Field

from watchkeeper.domain.grade import Evidence, Grade, GradingContext
from watchkeeper.domain.identity import content_hash
from watchkeeper.graders._base import GraderModel
from watchkeeper.graders._json import NOT_JSON, NotJson, json_fault, read_answer
from watchkeeper.graders._pattern import pattern_test
from watchkeeper.graders._refusals import GraderValueError, Problem, json_problems
from watchkeeper.graders._schema_rules import DIALECT, schema_problems
from watchkeeper.graders._wording import compact, quoted, shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

EXAMPLE = {
    "type": "object",
    "required": ["amount_cents", "currency"],
    "properties": {"amount_cents": {"type": "integer"}, "currency": {"enum": ["ARS", "USD"]}},
}
_TYPES = "array, boolean, integer, null, number, object, string"


class JsonSchema(GraderModel):
    """A JSON Schema, inline or as ``{schema, source}``, that the answer or the state must fit."""

    kind: ClassVar[str] = "json_schema"
    version: ClassVar[int] = 1
    evidence: ClassVar[Evidence] = "answer"
    forms: ClassVar[str] = "a JSON Schema, or {schema, source, severity}"
    takes_list: ClassVar[bool] = False

    document: dict[str, object] = Field(alias="schema", description="a JSON Schema, Draft 2020-12")
    source: Literal["answer", "state"] = Field("answer", description="answer or state")

    @property
    def assertion(self) -> str:
        """``json_schema answer #1a2b3c4d``, with the schema's title where it has one."""
        title = self.document.get("title")
        name = f" {quoted(title, 40)}" if isinstance(title, str) else ""
        return f"{self.kind} {self.source}{name} #{content_hash(self.document)[:8]}"

    def seen(self) -> Evidence:
        """The answer or the state."""
        return self.source

    def decide(self, context: GradingContext) -> Grade:
        """Passed where the value is JSON and fits the schema."""
        if self.source == "state":
            value: object = context.trajectory.state
            if value is None:
                return self.failed("the endpoint reported no state")
            fault = json_fault(value)
            if fault is not None:
                return self.failed(f"the state is not JSON: {fault}")
        else:
            try:
                value = read_answer(context.trajectory.answer, exact=False)
            except NotJson as error:
                return self.failed(f"{NOT_JSON}: {error}")
        validator = _validator(json.dumps(self.document))
        try:
            misfit = next(iter(validator.iter_errors(cast("Any", value))), None)
        except RecursionError:
            return self.error("the schema is nested too deeply to be held against this answer")
        if misfit is None:
            return self.passed(f"the {self.source} fits the schema")
        return self.failed(f"the {self.source} does not fit the schema: {_words(misfit)}")

    @classmethod
    def build(cls, item: object) -> Self:
        """The grader of an inline schema, or of the long form: a mapping with the key ``schema``.

        Raises:
            GraderValueError: The value is not a mapping, or the schema is not usable.
        """
        is_inline = isinstance(item, Mapping) and "schema" not in item
        if not is_inline:
            return super().build(item)
        try:
            return super().build({"schema": item})
        except GraderValueError as error:
            raise GraderValueError((path[1:], text) for path, text in error.problems) from None

    @classmethod
    def early_problems(cls, given: Mapping[object, object]) -> list[Problem]:
        """Adds everything that is wrong with the schema itself."""
        problems = super().early_problems(given)
        schema = given.get("schema")
        if not isinstance(schema, Mapping):
            return problems
        below = json_problems(schema) or _checked(json.dumps(schema))
        return problems + [(("schema", *path), message) for path, message in below]

    @classmethod
    def value_schema(cls) -> dict[str, Any]:
        """The JSON Schema of both forms; a schema is checked against its own meta-schema."""
        long_form = cls.form_schema()
        about = long_form.pop("description")
        schema = {"$ref": DIALECT, "type": "object"}
        long_form["properties"]["schema"] = schema
        inline = {**schema, "not": {"required": ["schema"]}}
        return {"description": about, "anyOf": [inline, long_form]}


@lru_cache(maxsize=4096)
def _checked(text: str) -> tuple[Problem, ...]:
    """What is wrong with the schema that this JSON text is; each schema is looked at once."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow, needed by this kind alone

    schema = json.loads(text)
    own = [
        (tuple(error.absolute_path), f"not a JSON Schema: {_meta_words(error)}")
        for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)
    ]
    told = {path for path, _ in own}
    return (*own, *(one for one in schema_problems(schema) if one[0] not in told))


def _meta_words(error: ValidationError) -> str:
    if list(error.absolute_path)[-1:] == ["type"]:
        return f"found {shown(error.instance)}, expected a type ({_TYPES}), or a list of them"
    return _words(error)


@lru_cache(maxsize=1024)
def _validator(text: str) -> Validator:
    """The validator of the schema that this JSON text is; it never reads another document."""
    from referencing import Registry  # noqa: PLC0415 - see above

    schema = json.loads(text)
    return _validator_class()(schema, registry=Registry())


@lru_cache(maxsize=1)
def _validator_class() -> Callable[..., Validator]:
    """Draft 2020-12 with the three keywords that take too long or too little care elsewhere."""
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 - see above

    extend: Callable[..., Callable[..., Validator]] = validators.extend
    return extend(
        Draft202012Validator,
        {"multipleOf": _multiple_of, "pattern": _pattern, "uniqueItems": _unique_items},
    )


def _misfit(message: str) -> ValidationError:
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - see above

    return ValidationError(message)


def _pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    """``pattern``, in linear time."""
    if isinstance(instance, str) and not pattern_test(pattern)(instance):
        yield _misfit("does not match")


def _multiple_of(
    _validator: object, unit: float, instance: object, _schema: object
) -> Iterator[ValidationError]:
    """``multipleOf``, exact for decimals: 125.05 is a multiple of 0.01."""
    if not isinstance(instance, int | float) or isinstance(instance, bool):
        return
    if (_fraction(instance) / _fraction(unit)).denominator != 1:
        yield _misfit("is no multiple")


def _fraction(number: float) -> Fraction:
    return Fraction(Decimal(repr(number)))


def _unique_items(
    _validator: object, is_wanted: object, instance: object, _schema: object
) -> Iterator[ValidationError]:
    """``uniqueItems``, in linear time; 1 and 1.0 are the same, 1 and true are not."""
    if is_wanted is True and isinstance(instance, list):
        seen = {json.dumps(_canonical(one), sort_keys=True) for one in instance}
        if len(seen) < len(instance):
            yield _misfit("has an item twice")


def _canonical(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value


def _words(error: ValidationError) -> str:
    """Where the value does not fit, which keyword says so, and what it expected."""
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - see above

    error = best_match(iter([error])) or error  # of several alternatives, the nearest
    path = ".".join(str(step)[:40] for step in error.absolute_path)
    where = f"{path}: " if path else ""
    instance, schema = error.instance, error.schema
    keyword, wanted = str(error.validator), error.validator_value
    if schema is False:
        return f"{where}found {shown(instance)}, expected nothing here"
    if keyword == "required" and isinstance(instance, Mapping) and isinstance(wanted, list):
        missing = [str(key) for key in wanted if key not in instance]
        return f"{where}{', '.join(map(quoted, missing[:3]))} is missing"
    is_extra = keyword == "additionalProperties" and wanted is False
    if is_extra and isinstance(schema, Mapping) and isinstance(instance, Mapping):
        extra = [str(key) for key in instance if key not in schema.get("properties", {})]
        return f"{where}{', '.join(quoted(key, 40) for key in extra[:3])} was not expected"
    return f"{where}found {shown(instance)}, expected {keyword} {compact(wanted, 80)}"
