"""YAML with positions: the plain values of a file, and the line on which each stands.

Scalars follow the YAML 1.2 core schema: ``no`` and ``on`` are text, ``12:30`` is text, and only
``true`` and ``false`` are booleans. A key that stands twice in a mapping is a fault.
"""

from __future__ import annotations

import re
import stat
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml

from watchkeeper.domain.redaction import Redactor
from watchkeeper.errors import ConfigError, Fault

MAX_FILE_BYTES = 8_000_000
MAX_DEPTH = 60
MAX_NODES = 1_000_000
MAX_REPEATED_NODES = 20_000
MAX_MESSAGE_CHARACTERS = 1_000

KeyPath = tuple[str | int, ...]

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_ODD_BREAK = re.compile("[\x85\u2028\u2029]")
_MAX_INT_DIGITS = 300
_TAG = "tag:yaml.org,2002:"
# What the reader resolves by itself; a tag beside these was written into the file.
_PLAIN_TAGS = frozenset(
    f"{_TAG}{name}"
    for name in ("null", "bool", "int", "float", "str", "timestamp", "value", "seq", "map")
)
_KEY_SHAPES = Redactor({})


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its plain values, and for every key path the line of its key or item."""

    file: str
    value: object
    lines: dict[KeyPath, int]

    def line_of(self, path: KeyPath) -> int:
        """The line of the nearest enclosing key that exists, 1 where there is none."""
        for end in range(len(path), -1, -1):
            line = self.lines.get(path[:end])
            if line is not None:
                return line
        return 1

    def place(self, path: KeyPath) -> str:
        """Where a key path stands, as people are told it."""
        return f"{self.file}:{self.line_of(path)}"

    def fault(self, path: KeyPath, message: str) -> Fault:
        """A fault at a key path of this file."""
        return fault_at(self.file, self.line_of(path), message)


def fault_at(file: str, line: int, message: str) -> Fault:
    """A fault whose message is one line, not endless, and without what has the shape of a key."""
    text = _KEY_SHAPES.text(message)
    if not text.isprintable():
        text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    if len(text) > MAX_MESSAGE_CHARACTERS:
        text = f"{text[:MAX_MESSAGE_CHARACTERS]}…"
    return Fault(file, line, text)


def read_text(path: Path, shown: str) -> str:
    """The text of a configuration file.

    Args:
        path: Where it is.
        shown: How it is named to people.

    Raises:
        ConfigError: It is missing, too large, or not UTF-8.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _one_fault(shown, 1, "the file cannot be read: it is a folder or a device")
        size = status.st_size
        if size > MAX_FILE_BYTES:
            raise _one_fault(
                shown,
                1,
                f"the file has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read. "
                "Split it, or move long inputs to files of their own",
            )
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _one_fault(shown, 1, f"the file cannot be read: {reason}") from error
    except ValueError as error:
        raise _one_fault(shown, 1, f"no file can have this name: {error}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _one_fault(
            shown,
            line,
            f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8",
        ) from error


def read_yaml(path: Path, shown: str) -> Document:
    """A YAML file as plain values with their lines.

    Raises:
        ConfigError: The file cannot be read, is empty, or is not YAML of one document.
    """
    return parse_yaml(read_text(path, shown), shown)


def read_mapping(path: Path, shown: str, faults: list[Fault]) -> Document | None:
    """A YAML file with keys at its top, or ``None`` with the reason appended to ``faults``."""
    try:
        document = read_yaml(path, shown)
    except ConfigError as error:
        faults.extend(error.faults)
        return None
    if not isinstance(document.value, dict):
        faults.append(document.fault((), "expected a mapping of keys at the top of the file"))
        return None
    return document


def parse_yaml(text: str, shown: str) -> Document:
    """YAML text as plain values with their lines; see ``read_yaml``."""
    odd_breaks = [found.start() for found in _ODD_BREAK.finditer(text)]
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = _line(mark, odd_breaks) if mark is not None else 1
        line = min(line, text.count("\n") + 1)  # the reader's end lies behind the last line
        raise _one_fault(shown, line, _explain(error, text, line)) from error
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise _one_fault(shown, line, f"not YAML: {_first_line(str(error))}") from error
    except yaml.YAMLError as error:
        raise _one_fault(shown, 1, f"not YAML: {_first_line(str(error))}") from error
    except RecursionError as error:
        raise _one_fault(shown, 1, "nested too deeply to be read") from error
    if node is None:
        raise _one_fault(shown, 1, "the file is empty; expected a mapping of keys")
    builder = _Builder(shown, odd_breaks)
    try:
        value = builder.build(node, (), 0)
    except _TooLarge:
        value = None
    if builder.faults:
        raise ConfigError(builder.faults)
    return Document(shown, value, builder.lines)


class _TooLarge(Exception):
    """The file is not worth reading on; the fault says why."""


class _Builder:
    """Turns nodes into plain values and keeps the line of every key path."""

    def __init__(self, shown: str, odd_breaks: list[int]) -> None:
        self.shown = shown
        self.odd_breaks = odd_breaks
        self.lines: dict[KeyPath, int] = {}
        self.faults: list[Fault] = []
        self.node_count = 0
        self.known: set[int] = set()  # a node that comes again is reached through an alias

    def build(self, node: yaml.Node, path: KeyPath, depth: int) -> object:
        line = _line(node.start_mark, self.odd_breaks)
        self.lines.setdefault(path, line)
        self.node_count += 1
        self.known.add(id(node))
        repeated = self.node_count - len(self.known)
        if depth > MAX_DEPTH:
            self._too_large(line, f"more than {MAX_DEPTH} levels")
        if self.node_count - repeated > MAX_NODES:
            self._too_large(line, f"more than {MAX_NODES:,} values; split the file")
        if repeated > MAX_REPEATED_NODES:
            reason = f"aliases repeat more than {MAX_REPEATED_NODES:,} values; write them out"
            self._too_large(line, reason)
        if node.tag not in _PLAIN_TAGS:
            self._fault(line, f"tag '{node.tag}' is not supported; write plain values")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [
                self.build(item, (*path, index), depth + 1) for index, item in enumerate(node.value)
            ]
        return self._mapping(node, path, depth)

    def _mapping(self, node: yaml.Node, path: KeyPath, depth: int) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = _line(key_node.start_mark, self.odd_breaks)
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(line, "a key must be plain text")
                continue
            if key_node.tag == f"{_TAG}merge":
                self._fault(line, "merge keys (<<) are not supported; write the keys out")
                continue
            key = key_node.value
            if key in result:
                first = self.lines.get((*path, key), line)
                self._fault(line, f"key '{key}' stands twice; the first is on line {first}")
                continue
            self.lines[*path, key] = line
            result[key] = self.build(value_node, (*path, key), depth + 1)
        return result

    def _scalar(self, node: yaml.ScalarNode) -> object:
        text: str = node.value
        return text if node.style else plain_scalar(text)

    def _fault(self, line: int, message: str) -> None:
        if len(self.faults) < 100:
            self.faults.append(fault_at(self.shown, line, message))

    def _too_large(self, line: int, message: str) -> NoReturn:
        self._fault(line, message)
        raise _TooLarge


def plain_scalar(text: str) -> object:
    """An unquoted scalar by the YAML 1.2 core schema."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    head = text[0]
    if not (head.isdigit() or head in "+-."):
        return text
    if _INT.fullmatch(text) and len(text) <= _MAX_INT_DIGITS:
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text) and len(text) <= _MAX_INT_DIGITS:
        return float(text)
    return text


def _line(mark: yaml.Mark, odd_breaks: list[int]) -> int:
    """The line as editors count it; the reader also counts breaks that they take for characters."""
    return mark.line + 1 - (bisect_left(odd_breaks, mark.index) if odd_breaks else 0)


def _explain(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    problem = error.problem or "not YAML"
    if "another document" in problem:
        return "a second document begins here; expected one document a file"
    lines = text.split("\n")
    shown = lines[line - 1] if line <= len(lines) else ""
    if "\t" in shown[: len(shown) - len(shown.lstrip())] or "'\\t'" in problem:
        return "a tab indents this line; YAML takes spaces only"
    if "undefined alias" in problem:
        return f"{problem.replace('found ', '')}: no anchor of that name stands before it"
    return f"not YAML: {_first_line(problem)}"


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:200]


def _one_fault(shown: str, line: int, message: str) -> ConfigError:
    return ConfigError([fault_at(shown, line, message)])
