"""Where the cases of a suite stand: in its own file, in JSON lines or CSV, or one file a case.

    cases: [{id: …}, …]          in the suite's file
    cases: refunds.jsonl         one JSON object a line
    cases: refunds.csv           a column a key; dots lead inward: expect.must_mention
    cases: refunds/              a folder with one YAML file a case

Paths start from the folder of the suite's file.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from watchkeeper.errors import ConfigError, Fault
from watchkeeper.parsing.validation import shown
from watchkeeper.parsing.yaml_source import (
    Document,
    KeyPath,
    fault_at,
    plain_scalar,
    read_text,
    read_yaml,
)

_NUMBERS = frozenset({"weight"})

Source = tuple[Document, KeyPath, object]


def case_sources(
    document: Document, folder: Path, cases: object, faults: list[Fault]
) -> Iterator[Source]:
    """Every case with the file and the key path that it stands at.

    Args:
        document: The suite's file.
        folder: The folder that it lies in.
        cases: What stands under ``cases``.
        faults: Receives everything that is wrong.
    """
    if isinstance(cases, list):
        if not cases:
            message = "cases: the suite has no case; zero cases prove nothing"
            faults.append(document.fault(("cases",), message))
        for index, value in enumerate(cases):
            yield document, ("cases", index), value
        return
    if not isinstance(cases, str):
        faults.append(
            document.fault(
                ("cases",),
                f"cases: found {shown(cases)}; expected a list of cases, or the name of a .jsonl "
                "or .csv file or of a folder",
            )
        )
        return
    path = folder / cases
    name = f"{Path(document.file).parent}/{cases}"
    if "\0" in cases or not path.resolve().is_relative_to(folder.resolve()):
        message = f"cases: '{cases}' leads out of the suite's folder"
        faults.append(document.fault(("cases",), message))
        return
    found = 0
    try:
        for source in _in_files(document, path, name, cases, faults):
            found += 1
            yield source
    except ConfigError as error:
        faults.extend(error.faults)
        return
    if not found:
        message = f"cases: {name} holds no case; zero cases prove nothing"
        faults.append(document.fault(("cases",), message))


def _in_files(
    document: Document, path: Path, name: str, cases: str, faults: list[Fault]
) -> Iterator[Source]:
    if path.is_dir():
        for file in sorted([*path.glob("*.yaml"), *path.glob("*.yml")]):
            try:
                one = read_yaml(file, f"{name.rstrip('/')}/{file.name}")
            except ConfigError as error:
                faults.extend(error.faults)
                continue
            yield one, (), one.value
    elif cases.endswith(".jsonl"):
        yield from _json_lines(read_text(path, name), name, faults)
    elif cases.endswith(".csv"):
        yield from _table(read_text(path, name), name, faults)
    else:
        faults.append(
            document.fault(
                ("cases",),
                f"cases: '{cases}' is no folder and ends neither in .jsonl nor in .csv",
            )
        )


def _json_lines(text: str, name: str, faults: list[Fault]) -> Iterator[Source]:
    # Only a line feed ends a line: JSON texts may hold what other alphabets break lines with.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            faults.append(fault_at(name, number, f"not JSON: {str(error)[:200]}"))
            continue
        yield Document(name, value, {(): number}), (), value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object in which no key stands twice: of two the first would be lost in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"key '{twice}' stands twice")
    return found


def _table(text: str, name: str, faults: list[Fault]) -> Iterator[Source]:
    reader = csv.reader(io.StringIO(text), strict=True)
    header: list[str] = []
    try:
        for row in reader:
            if not header:
                header = [column.strip() for column in row]
                for column in sorted({one for one in header if header.count(one) > 1}):
                    message = f"column '{column}' stands twice"
                    faults.append(fault_at(name, reader.line_num, message))
                continue
            if not any(row):
                continue
            number = reader.line_num
            if len(row) != len(header):
                message = f"found {len(row)} columns; the first line names {len(header)}"
                faults.append(fault_at(name, number, message))
                continue
            value = _nested(dict(zip(header, row, strict=True)), name, number, faults)
            yield Document(name, value, {(): number}), (), value
    except csv.Error as error:
        faults.append(fault_at(name, max(reader.line_num, 1), f"not CSV: {error}"))


def _nested(row: dict[str, str], name: str, number: int, faults: list[Fault]) -> dict[str, object]:
    """A row as a mapping; an empty cell is no key, a cell that begins with [ or { is JSON."""
    result: dict[str, object] = {}
    for column, text in row.items():
        if not text:
            continue
        value: object = plain_scalar(text) if column in _NUMBERS else text
        if text[0] in "[{":
            try:
                value = json.loads(text, object_pairs_hook=_once)
            except ValueError as error:
                message = f"{column}: not JSON: {str(error)[:200]}"
                faults.append(fault_at(name, number, message))
                continue
        *parents, last = column.split(".")
        inner = result
        for parent in parents:
            deeper = inner.setdefault(parent, {})
            if not isinstance(deeper, dict):
                message = f"{column}: '{parent}' has a value already"
                faults.append(fault_at(name, number, message))
                break
            inner = deeper
        else:
            inner[last] = value
    return result
