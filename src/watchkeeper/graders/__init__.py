"""One grader a file: the file's name is the key under ``expect`` in a case.

Every module here whose name does not begin with ``_`` offers two names: one subclass of
``GraderModel``, and ``EXAMPLE``, a YAML value that it reads. docs/graders.md says what each
passes and fails. A module is imported when a case first asks for its kind.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any, cast

from watchkeeper.domain.grade import Grader
from watchkeeper.graders._base import (
    FINISHED,
    FINISHED_VERSION,
    GraderModel,
    GraderValueError,
    finished_grade,
    is_silent,
)
from watchkeeper.graders._grading import grade_trial

__all__ = [
    "GraderModel",
    "GraderValueError",
    "build_graders",
    "expect_json_schema",
    "finished_grade",
    "grade_trial",
    "grader_class",
    "grader_kinds",
    "grader_versions",
    "is_silent",
]


@functools.cache
def grader_kinds() -> tuple[str, ...]:
    """The keys that ``expect`` may hold in this version, sorted."""
    return tuple(
        sorted(
            module.name
            for module in pkgutil.iter_modules(__path__)
            if not module.name.startswith("_")
        )
    )


@functools.cache
def grader_class(kind: str) -> type[GraderModel]:
    """The grader that serves a kind.

    Raises:
        KeyError: There is no such kind.
    """
    if kind not in grader_kinds():
        raise KeyError(kind)
    module = importlib.import_module(f"{__name__}.{kind}")
    (only,) = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, GraderModel)
        and one.__module__ == module.__name__
    ]
    return only


def grader_versions() -> dict[str, int]:
    """The version of every grader that can give a grade, ``finished`` included."""
    versions = {kind: grader_class(kind).version for kind in grader_kinds()}
    return {**versions, FINISHED: FINISHED_VERSION}


def build_graders(kind: str, value: object) -> list[Grader]:
    """The graders that ``kind: value`` under ``expect`` asks for, one for each assertion.

    Raises:
        KeyError: There is no such kind.
        GraderValueError: The value is wrong; every problem is in it.
    """
    # A frozen model's fields are read-only, which the port does not ask for but mypy compares.
    return cast("list[Grader]", grader_class(kind).read(value))


def expect_json_schema() -> dict[str, Any]:
    """The JSON Schema of a whole ``expect`` mapping, for editors; every short form is in it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "expect",
        "description": "What must be true of a trial; every assertion of it must pass.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {kind: grader_class(kind).value_schema() for kind in grader_kinds()},
    }
