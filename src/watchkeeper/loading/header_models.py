"""Headers in the configuration: their values are secrets, which come from variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from watchkeeper.domain.references import referred_variable


def _without_literals(headers: object) -> object:
    """Headers without what is no reference, which an error would quote."""
    if not isinstance(headers, Mapping):
        return headers
    return {
        name: text if isinstance(text, str) and referred_variable(text) else ""
        for name, text in headers.items()
    }


def _refers(text: str) -> str:
    if not text:
        raise ValueError(
            "env:NAME, or with a scheme as in 'Bearer env:NAME'; the value found is not shown"
        )
    return text


HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,80}$")]
Headers = Annotated[
    dict[HeaderName, Annotated[str, AfterValidator(_refers)]], BeforeValidator(_without_literals)
]
