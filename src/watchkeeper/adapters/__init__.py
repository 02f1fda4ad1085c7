"""One kind of endpoint a file: the file's name is the ``kind`` in config/endpoints.yaml.

Every module here whose name does not begin with ``_`` offers two names:

``Settings``
    a frozen pydantic model of the keys that this kind adds to an endpoint;
``connect(endpoint, variables, root, clock)``
    the connected ``Adapter``; a missing secret is a ``UsageError`` here, before any call.

``Settings`` may have ``offered_tools(root)`` (the tools that graders may name), ``refused(case)``
(why the kind cannot be asked a case) and ``needs_workspace`` (whether every trial gets a folder); a
module may have ``accepted_media()``, the media types that it can be shown, as patterns.

One that can also ask the provider which models there are offers ``list_models`` (``ModelLister``).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Protocol, cast

from pydantic import BaseModel

from watchkeeper.domain.endpoint import Endpoint, ListedModel
from watchkeeper.domain.ports import Adapter, Clock


class AdapterModule(Protocol):
    """What a module of this package offers."""

    Settings: type[BaseModel]

    def connect(
        self, endpoint: Endpoint, variables: Mapping[str, str], root: Path, clock: Clock
    ) -> Adapter:
        """The connected adapter."""
        ...


class ModelLister(Protocol):
    """What a module offers where the provider lists its models."""

    def __call__(
        self, settings: BaseModel, variables: Mapping[str, str]
    ) -> Awaitable[list[ListedModel]]:
        """Every model of the list.

        Raises:
            UsageError: The variable of the key is not set.
            EndpointFault: The provider could not be reached or refused the key.
        """
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


def model_lister(kind: str) -> ModelLister | None:
    """What asks the provider for its models, or ``None``: the kind has no such list."""
    found: ModelLister | None = getattr(adapter_module(kind), "list_models", None)
    return found
