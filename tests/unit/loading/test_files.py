"""Files that are broken as files: encodings, tabs, aliases, sizes, nothing in them at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.loading.example import (
    ENDPOINTS,
    FILES,
    OWNERS,
    PRICES,
    SCRIPT,
    SUITE,
    WATCHKEEPER,
    faults_of,
    write,
)
from watchkeeper.domain.content import UserTurn
from watchkeeper.loading.project import load_project

BOMB = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)),
    ]
)
WHOLE: dict[str, tuple[str | bytes, int, str]] = {
    "empty": ("", 1, "the file is empty; expected a mapping of keys"),
    "only a comment": ("# nothing yet\n", 1, "the file is empty; expected a mapping of keys"),
    "text": ("just a text\n", 1, "expected a mapping of keys"),
    "a list": ("- one\n", 1, "expected a mapping of keys"),
    "a tab": ("first: {}\n\tsecond: {}\n", 2, "a tab indents this line; YAML takes spaces only"),
    "an alias of nothing": ("first: *absent\n", 1, "undefined alias"),
    "a bomb of aliases": (BOMB, 1, "aliases repeat more than 20,000 values; write them out"),
    "an alias of itself": ("first: &a [*a]\n", 1, "more than 60 levels"),
    "open brackets": ("first: " + "[" * 9_000, 1, "not YAML"),
    "an open quote": ('first: "x\nsecond: y\n', 3, "not YAML"),
    "no UTF-8": ("first: x\nsecond: größe\n".encode("latin-1"), 2, "byte 0xf6 is not UTF-8"),
    "UTF-16": ("first: {}\n".encode("utf-16"), 1, "byte 0xff is not UTF-8"),
    "a control character": (b"first: {}\nsecond: \x07\n", 2, "control characters"),
    "two documents": ("first: {}\n---\nsecond: {}\n", 2, "a second document begins here"),
    "a tag": ("first: !!python/object/apply:os.system [ls]\n", 1, "os.system' is not supported"),
    "a key that is a list": ("? [a, b]\n: {}\n", 1, "a key must be plain text"),
    "a merge": ("first: &a {}\nsecond: {<<: *a}\n", 2, "merge keys (<<) are not supported"),
    "ten megabytes of one line": (
        b"first: " + b"x" * 10_000_000,
        1,
        "the file has 10,000,007 bytes; at most 8,000,000 are read",
    ),
}
READ = (WATCHKEEPER, OWNERS, PRICES, ENDPOINTS, SUITE, SCRIPT)


@pytest.mark.parametrize("name", WHOLE)
def test_a_broken_file_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    """The same in every file that is read; the other files are checked all the same, and soon."""
    content, line, message = WHOLE[name]
    for number, file in enumerate(READ):
        root = write(tmp_path / str(number), {**FILES, file: content})
        started = time.perf_counter()
        faults = faults_of(root)
        assert time.perf_counter() - started < 2
        told = [one for one in faults if (one.file, one.line) == (file, line)]
        assert any(message in one.message for one in told), faults
        assert all("unknown owner" not in one.message for one in faults)


@pytest.mark.parametrize("file", READ)
def test_a_byte_order_mark_is_no_fault(file: str, tmp_path: Path) -> None:
    """Some editors write one; it is not part of the first key."""
    load_project(write(tmp_path, {**FILES, file: b"\xef\xbb\xbf" + FILES[file].encode()}))


@pytest.mark.parametrize("file", READ)
def test_windows_line_ends_are_no_fault(file: str, tmp_path: Path) -> None:
    """Lines are counted the same way, and no text ends in a carriage return."""
    load_project(write(tmp_path, {**FILES, file: FILES[file].replace("\n", "\r\n").encode()}))


@pytest.mark.parametrize("file", [WATCHKEEPER, OWNERS, ENDPOINTS])
def test_a_missing_file_is_told_by_its_name(file: str, tmp_path: Path) -> None:
    """What was looked for, and why it was not read."""
    root = write(tmp_path)
    (root / file).unlink()
    told = [one for one in faults_of(root) if one.file == file]
    assert [one.message for one in told] == ["the file cannot be read: No such file or directory"]


def test_a_missing_price_list_is_no_fault(tmp_path: Path) -> None:
    """Every model is unpriced then, which is said where a price is needed."""
    root = write(tmp_path)
    (root / PRICES).unlink()
    assert load_project(root).prices.prices == {}


def test_a_missing_folder_of_suites_is_told(tmp_path: Path) -> None:
    """There is nothing that could be run."""
    root = write(tmp_path)
    (root / SUITE).unlink()
    (root / "config/suites").rmdir()
    assert [one.message for one in faults_of(root) if one.file == "config/suites"] == [
        "the folder is missing; it holds one file a suite"
    ]


def test_a_mistyped_key_for_all_endpoints_is_told(tmp_path: Path) -> None:
    """What was meant, beside what is missing."""
    endpoints = FILES[ENDPOINTS].replace("endpoints:", "endpiont:")
    told = [str(one) for one in faults_of(write(tmp_path, {**FILES, ENDPOINTS: endpoints}))]
    assert f"{ENDPOINTS}:1: expected the key 'endpoints' with a mapping by name" in told
    assert any("unknown key 'endpiont'; did you mean 'endpoints'?" in one for one in told)


def test_a_suite_without_cases_is_told(tmp_path: Path) -> None:
    """A rate over zero cases is undefined, never 100 %."""
    head, _, _ = FILES[SUITE].partition("cases:")
    for cases in ("cases: []\n", "cases:\n", ""):
        faults = faults_of(write(tmp_path, {**FILES, SUITE: head + cases}))
        assert {one.file for one in faults} == {SUITE}
        assert any("cases" in one.message for one in faults), faults


def test_a_suite_in_two_files_is_told(tmp_path: Path) -> None:
    """Both places are named."""
    again = "config/suites/copy.yaml"
    (fault,) = faults_of(write(tmp_path, {**FILES, again: FILES[SUITE]}))
    assert str(fault) == f"{again}:1: suite 'basic' stands also in {SUITE}:1"


def test_one_broken_suite_hides_no_other(tmp_path: Path) -> None:
    """An endpoint that names it is not said to name something unknown."""
    other = "config/suites/other.yaml"
    broken = FILES[SUITE].replace("suite: basic", "suite: other").replace("trials: 2", "trials: x")
    suite = FILES[SUITE].replace("gate: 0.85", "gate: 2")
    endpoints = FILES[ENDPOINTS].replace("suites: [basic]", "suites: [basic, other]")
    files = {**FILES, SUITE: suite, other: broken, ENDPOINTS: endpoints}
    assert [one.file for one in faults_of(write(tmp_path, files))] == [SUITE, other]


def test_side_effects_beyond_what_an_endpoint_allows_are_told(tmp_path: Path) -> None:
    """Found before any call: a case that writes is never sent to an endpoint that forbids it."""
    for allowed, done in (("none", "sandbox"), ("none", "live"), ("sandbox", "live")):
        files = {
            **FILES,
            SUITE: FILES[SUITE].replace("side_effects: sandbox", f"side_effects: {done}"),
            ENDPOINTS: FILES[ENDPOINTS].replace("effects: sandbox", f"effects: {allowed}"),
        }
        (fault,) = faults_of(write(tmp_path, files))
        assert (fault.file, fault.line) == (ENDPOINTS, 14)
        assert f"allows side effects '{allowed}'" in fault.message
        assert "1 case 'two' of 'basic' declare more" in fault.message


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [
        ("raises", "raise RuntimeError('no database here')\n", "RuntimeError: no database here"),
        ("leaves", "import sys\nsys.exit('usage: …')\n", "SystemExit"),
        ("syntax", "def ping(:\n", "SyntaxError"),
        ("number", "TOOLS = 7\n", "is not a list of tools"),
        ("phrase", "TOOLS = 'ping'\n", "is not a list of tools"),
        ("holds_none", "TOOLS = [None]\n", "holds None; expected a function"),
        ("same", "def ping(): ...\nTOOLS = [ping, ping]\n", "two tools 'ping'"),
        ("odd", "def ping(x: open): ...\nTOOLS = [ping]\n", "arguments of 'ping' cannot be"),
    ],
)
def test_tools_that_cannot_be_used_are_told(
    module: str, text: str, says: str, tmp_path: Path
) -> None:
    """Whatever a team's module does at its import, the fault names the key that names it."""
    endpoints = FILES[ENDPOINTS].replace("example_tools:TOOLS", f"tools_{module}:TOOLS")
    root = write(tmp_path, {**FILES, ENDPOINTS: endpoints})
    (root / f"tools_{module}.py").write_text(text)
    (fault,) = faults_of(root)
    assert (fault.file, fault.line) == (ENDPOINTS, 11)
    assert says in fault.message


CASE_LINE = '{"id": "one", "category": "facts", "input": "q", "expect": {"must_mention": "yes"}}'


def with_cases(tmp_path: Path, name: str, content: str) -> Path:
    """The example with the cases of its suite in a file beside it."""
    head, _, _ = FILES[SUITE].partition("cases:")
    suite = f"{head}cases: {name}\n"
    return write(tmp_path, {**FILES, SUITE: suite, f"config/suites/{name}": content})


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (f"{CASE_LINE}\n{CASE_LINE}\n", 2, "case 'one' stands also at config/suites/c.jsonl:1"),
        (f"{CASE_LINE}\nnot json\n", 2, "not JSON"),
        (f"{CASE_LINE}\n\n[1]\n", 3, "expected a mapping of keys"),
        (f"{CASE_LINE}\n" + "[" * 100_000 + "\n", 2, "not JSON"),
        (CASE_LINE.replace('"input"', '"inptu"'), 1, "did you mean 'input'?"),
        (CASE_LINE.replace('"input": "q"', '"id": "two", "input": "q"'), 1, "'id' stands twice"),
        (CASE_LINE.replace("must_mention", "must_mentoin"), 1, "did you mean 'must_mention'?"),
        (CASE_LINE.replace('"facts"', '"fatcs"'), 1, "did you mean 'facts'?"),
    ],
)
def test_a_fault_in_json_lines_is_told_with_its_line(
    content: str, line: int, says: str, tmp_path: Path
) -> None:
    """One object a line; a fault is that line's."""
    faults = faults_of(with_cases(tmp_path, "c.jsonl", content))
    told = [one for one in faults if (one.file, one.line) == ("config/suites/c.jsonl", line)]
    assert any(says in one.message for one in told), faults


def test_a_line_of_json_ends_at_its_line_feed(tmp_path: Path) -> None:
    """What breaks lines elsewhere (U+2028, U+0085) may stand in a text as it is."""
    line = CASE_LINE.replace('"q"', '"one\u2028two\u0085three"')
    project = load_project(with_cases(tmp_path, "c.jsonl", line))
    assert project.suites["basic"].cases[0].turns == (UserTurn("one\u2028two\u0085three"),)


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("id,category,input\none,facts\n", 2, "found 2 columns; the first line names 3"),
        ("id,id,category\none,two,facts\n", 1, "column 'id' stands twice"),
        ('id,category\n"one,facts\n', 2, "not CSV"),
        ("id,category,input,expect\none,facts,q,[\n", 2, "expect: not JSON"),
        ("id,category,input,expect,expect.calls\none,facts,q,x,y\n", 2, "'expect' has a value"),
        ("id,category,input,expect.must_mentoin\none,facts,q,yes\n", 2, "'must_mention'?"),
    ],
)
def test_a_fault_in_a_table_is_told_with_its_line(
    content: str, line: int, says: str, tmp_path: Path
) -> None:
    """A row is a case; a fault is that row's."""
    faults = faults_of(with_cases(tmp_path, "c.csv", content))
    told = [one for one in faults if (one.file, one.line) == ("config/suites/c.csv", line)]
    assert any(says in one.message for one in told), faults


@pytest.mark.parametrize(
    ("cases", "says"),
    [
        ("../../prompts", "leads out of the suite's folder"),
        ("absent.jsonl", "the file cannot be read: No such file"),
        ("absent.txt", "is no folder and ends neither in .jsonl nor in .csv"),
        ('"a\\0.jsonl"', "leads out of the suite's folder"),
        ("7", "found 7; expected a list of cases"),
    ],
)
def test_cases_that_are_nowhere_are_told(cases: str, says: str, tmp_path: Path) -> None:
    """A path that holds no cases, or may not be read."""
    head, _, _ = FILES[SUITE].partition("cases:")
    faults = faults_of(write(tmp_path, {**FILES, SUITE: f"{head}cases: {cases}\n"}))
    assert any(says in one.message for one in faults), faults
