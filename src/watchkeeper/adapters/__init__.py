"""One kind of endpoint a file: the file's name is the ``kind`` in config/endpoints.yaml.

Every module here whose name does not begin with ``_`` offers two names:

``Settings``
    a frozen pydantic model of the keys that this kind adds to an endpoint;
``connect(endpoint, variables, root, clock)``
    the connected ``Adapter``; a missing secret is a ``UsageError`` here, before any call.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

from pydantic import BaseModel

from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Adapter, Clock


class AdapterModule(Protocol):
    """What a module of this package offers."""

    Settings: type[BaseModel]

    def connect(
        self, endpoint: Endpoint, variables: Mapping[str, str], root: Path, clock: Clock
    ) -> Adapter:
        """The connected adapter."""
        ...


def adapter_kinds() -> tuple[str, ...]:
    """The kinds of endpoint that this version supports."""
    return tuple(
        sorted(
            module.name
            for module in pkgutil.iter_modules(__path__)
            if not module.name.startswith("_")
        )
    )


def adapter_module(kind: str) -> AdapterModule:
    """The module that serves a kind.

    Raises:
        KeyError: There is no such kind.
    """
    if kind not in adapter_kinds():
        raise KeyError(kind)
    return cast("AdapterModule", importlib.import_module(f"{__name__}.{kind}"))
