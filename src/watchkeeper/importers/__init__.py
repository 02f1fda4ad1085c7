"""One foreign format a file: what other systems have written down of trials, read as data.

Every module here whose name does not begin with ``_`` is one kind and offers three names:

``TITLE``
    what kind of file it reads, in a few words;
``recognises(source)``
    whether a file is of this kind, by its beginning and its shape;
``read(path)``
    the trials of a file, one after the other; a ``UsageError`` says where it cannot be read.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.errors import UsageError
from watchkeeper.importers._source import Source
from watchkeeper.parsing.suggest import known_names


class ImporterModule(Protocol):
    """What a module of this package offers."""

    TITLE: str

    def recognises(self, source: Source) -> bool:
        """Whether the file is of this kind."""
        ...

    def read(self, path: Path) -> Iterator[ImportedTrial]:
        """The trials of the file.

        Raises:
            UsageError: The file cannot be read; the message says where and why.
        """
        ...


def importer_kinds() -> tuple[str, ...]:
    """The formats that this version reads."""
    return tuple(
        sorted(
            module.name
            for module in pkgutil.iter_modules(__path__)
            if not module.name.startswith("_")
        )
    )


def importer_module(kind: str) -> ImporterModule:
    """The module that reads a format.

    Raises:
        UsageError: There is no such format.
    """
    if kind not in importer_kinds():
        raise UsageError(f"there is no format '{kind}'; {known_names(kind, importer_kinds())}")
    return cast("ImporterModule", importlib.import_module(f"{__name__}.{kind}"))


def kind_of(path: Path) -> str:
    """The format of a file.

    Raises:
        UsageError: The file cannot be read, or is of none of the known formats.
    """
    source = Source(path)
    source.stamp()
    titles = "; ".join(f"{kind} ({importer_module(kind).TITLE})" for kind in importer_kinds())
    try:
        for kind in importer_kinds():
            if importer_module(kind).recognises(source):
                return kind
        source.check()
    except UsageError as error:
        raise UsageError(f"{error}; formats: {titles}") from error
    raise UsageError(f"{path}: of no known format; formats: {titles}")
