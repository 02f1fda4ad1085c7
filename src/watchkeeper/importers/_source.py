"""A foreign file, read within bounds: plain, gzipped or zipped JSON, and JSON lines."""

from __future__ import annotations

import gzip
import json
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from watchkeeper.errors import UsageError
from watchkeeper.parsing.validation import shown

MAX_BYTES = 512 * 1024**2
_BROKEN = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError)
_WORDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "missing": "a value",
}

M = TypeVar("M", bound=BaseModel)


class Foreign(BaseModel):
    """A part of a foreign file: what is read is checked, what is not read may be anything."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file something stands: ``runs.json: [3].traj[0]``."""

    file: str
    keys: str = ""

    def below(self, keys: str) -> Place:
        """The place with some more keys (``.traj[0]``)."""
        return Place(self.file, self.keys + keys)

    def __str__(self) -> str:
        """The form in which errors name it."""
        keys = self.keys.removeprefix(".")
        return f"{self.file}: {keys}" if keys else self.file


class Source:
    """A file that may be of any format; it is read once, also where several importers ask."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> tuple[int, int]:
        """When the file was changed, and its size.

        Raises:
            UsageError: There is no such file.
        """
        try:
            status = self.path.stat()
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {_said(error)}") from error
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{self.path}: not a file")
        return status.st_mtime_ns, status.st_size

    def check(self) -> None:
        """Reads the file to its end.

        Raises:
            UsageError: It is neither JSON nor JSON lines, or cannot be read at all.
        """
        if not self.entries():
            _ = self.lines() if self.is_lines else self.document()

    @property
    def is_lines(self) -> bool:
        """Whether the file holds a JSON value a line, by its name."""
        return self.path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson"))

    def entries(self) -> tuple[str, ...]:
        """The names within a zip file; none where it is no zip file."""
        try:
            if not zipfile.is_zipfile(self.path):
                return ()
            with zipfile.ZipFile(self.path) as archive:
                return tuple(archive.namelist())
        except _BROKEN as error:
            raise UsageError(f"{self.path}: cannot be read: {_said(error)}") from error

    def entry(self, name: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The JSON value in an entry of a zip file."""
        place = f"{self.path}: {name}"
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as stream:
                return parse_json(_bounded(stream, place), place)
        except (*_BROKEN, KeyError) as error:
            raise UsageError(f"{place}: cannot be read: {_said(error)}") from error

    def document(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The file's one JSON value."""
        return _document(str(self.path), self.stamp())

    def lines(self) -> tuple[tuple[int, Any], ...]:
        """The JSON values of the lines that are not blank, each with its number from 1."""
        return _lines(str(self.path), self.stamp())


def parse_json(text: bytes, place: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """A JSON value; NaN and infinities, which are no numbers, are unknown.

    Raises:
        UsageError: It is no JSON; the message begins with ``place``, line and column.
    """
    try:
        return json.loads(text.decode("utf-8-sig"), parse_constant=lambda _: None)
    except json.JSONDecodeError as error:
        raise UsageError(f"{place}:{error.lineno}:{error.colno}: no JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: not UTF-8 text: byte {error.start}") from error
    except RecursionError as error:
        raise UsageError(f"{place}: nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"{place}: cannot be read: {_said(error)}") from error


def parsed(model: type[M], value: object, place: Place) -> M:
    """A JSON value as a model.

    Raises:
        UsageError: It does not fit; the message says where in the file, and what was expected.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        where = place.below(_keys(value, detail["loc"]))
        kind = detail["type"]
        if kind == "missing":
            raise UsageError(f"{where}: key '{detail['loc'][-1]}' is missing") from error
        expected = _WORDS.get(kind, str(detail["msg"]).removeprefix("Input should be "))
        raise UsageError(f"{where}: found {shown(detail['input'])}; expected {expected}") from error
    except RecursionError as error:
        raise UsageError(f"{place}: nested too deeply") from error


def items(value: object, place: Place) -> Iterator[tuple[Place, Any]]:
    """The items of a list, each with its place.

    Raises:
        UsageError: It is no list.
    """
    if not isinstance(value, list):
        raise UsageError(f"{place}: found {shown(value)}; expected a list")
    for number, item in enumerate(value):
        yield place.below(f"[{number}]"), item


def _keys(value: object, location: tuple[int | str, ...]) -> str:
    """The part of an error's location that are keys of the file, as ``.messages[3].role``."""
    text = ""
    for part in location:
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inner, dict) and part in inner:
            text += f"[{part}]" if isinstance(part, int) else f".{part}"
            value = inner[part]
    return text


@lru_cache(maxsize=1)
def _document(path: str, stamp: object) -> Any:  # noqa: ANN401, ARG001 - a changed file is new
    return parse_json(_whole(Path(path)), path)


@lru_cache(maxsize=1)
def _lines(path: str, stamp: object) -> tuple[tuple[int, Any], ...]:  # noqa: ARG001
    found = enumerate(_whole(Path(path)).split(b"\n"), start=1)
    return tuple(
        (number, parse_json(line, f"{path}: line {number}"))
        for number, line in found
        if line.strip()
    )


def _whole(path: Path) -> bytes:
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not is_gzip:
                return _bounded(raw, str(path))
            with gzip.open(raw) as stream:
                return _bounded(stream, str(path))
    except _BROKEN as error:
        raise UsageError(f"{path}: cannot be read: {_said(error)}") from error


def _bounded(stream: BinaryIO | Any, place: str) -> bytes:  # noqa: ANN401 - of zip or gzip
    content: bytes = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"{place}: larger than {MAX_BYTES // 1024**2} MB; split it")
    return content


def _said(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:200] or type(error).__name__
