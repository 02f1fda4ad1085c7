"""Regular expressions whose matching takes time in proportion to the text, whatever they are.

They are pydantic's, which are those of the Rust crate ``regex``: no look-around, no references
back, and no text that an agent can write makes them slow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


class PatternRefused(ValueError):
    """The pattern is malformed, or needs what a linear-time matcher cannot do."""


@lru_cache(maxsize=1024)
def pattern_test(pattern: str) -> Callable[[str], bool]:
    """A function that says whether the pattern matches anywhere in a text.

    Raises:
        PatternRefused: The pattern cannot be used; the message says why.
    """
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True))
    except SchemaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise PatternRefused(lines[-1].removeprefix("error: ")) from error
    return validator.isinstance_python
