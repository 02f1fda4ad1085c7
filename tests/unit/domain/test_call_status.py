"""What a tool's answer is worth: real texts of tools, each with what it is."""

from __future__ import annotations

import pytest

from watchkeeper.domain.trajectory import CallStatus, call_status

LISTING = "\n".join(f"src/module_{number}/widgets.py" for number in range(30))
SOURCE = (
    "1\timport os\n2\t\n3\tdef load(path):\n4\t    if not os.path.exists(path):\n"
    '5\t        raise FileNotFoundError(f"no such file or directory: {path}")\n'
)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/repo/load.py", line 5, in <module>\n'
    "    load('a')\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "[]",
        "{}",
        "null",
        "None",
        '""',
        'No matches found for "handler.py" in /repo',
        "No files found",
        "No results.",
        "0 matches found",
        "No matching files found in src",
        "Your command ran successfully and did not produce any output.",
        "(Bash completed with no output)",
        "Tool ran without output or errors",
        "(no output)",
    ],
)
def test_what_says_nothing_is_empty(text: str) -> None:
    """A blank result, and what tools write in its place."""
    assert call_status(text) == "empty"


@pytest.mark.parametrize(
    "text",
    [
        "cat: notes.txt: No such file or directory",
        "ls: cannot access 'src/x': No such file or directory",
        "bash: line 1: ./run.sh: No such file or directory",
        "ENOENT: no such file or directory, open '/repo/a.ts'",
        "[Errno 2] No such file or directory: 'a.txt'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'a.txt'",
        "File src/nothing.py not found",
        "Directory src/nothing not found",
        "File does not exist. Note: your current working directory is /repo.",
        "The path /repo/x does not exist. Please provide a valid path.",
        "The system cannot find the path specified.",
        "Error: could not find file 'a.txt'",
        '{"error": "File not found: a.txt"}',
        f"{TRACEBACK}FileNotFoundError: [Errno 2] No such file or directory: 'a'",
        "python: can't open file '/repo/a.py': [Errno 2] No such file or directory",
    ],
)
def test_a_path_that_does_not_exist(text: str) -> None:
    """Shells, interpreters, agents' own tools, and error objects."""
    assert call_status(text) == "missing_path"
    assert call_status(text, is_error=True) == "missing_path"


@pytest.mark.parametrize(
    "text",
    [
        "Error: payment method certificate_7504069 not found",
        "Error: user not found",
        "Error: user profile not found",
        "error: unknown option '--x'",
        "ValueError: invalid literal for int()",
        "requests.exceptions.HTTPError: 500",
        "Error executing tool search: timed out",
        "fatal: not a git repository (or any of the parent directories): .git",
        "bash: rgx: command not found",
        "/bin/sh: 1: rgx: not found",
        "cat: src: Is a directory",
        "bash: ./run: Permission denied",
        "404 Not Found",
        "404: Not Found",
        "HTTP 503",
        "HTTP/1.1 500 Internal Server Error",
        "Error 404: nothing at this address",
        "500 Server Error: Internal Server Error for url: https://example.org/x",
        "<html><head><title>404 Not Found</title></head><body>nginx</body></html>",
        '{"error": "rate limited", "code": 7}',
        '{"error": {"message": "no account", "type": "invalid"}}',
        '{"ok": false, "error": "channel_not_found"}',
        f"{TRACEBACK}TypeError: integer argument expected, got float",
    ],
)
def test_an_error_that_nobody_flagged(text: str) -> None:
    """Many tools return their errors as ordinary text."""
    assert call_status(text) == "error"
    assert call_status(text, is_error=True) == "error"


@pytest.mark.parametrize(
    "text",
    [
        "8.2",
        "Transfer successful",
        "0",
        "false",
        LISTING,
        SOURCE,
        f"{SOURCE}{LISTING}",
        f"{LISTING}\nls: cannot access 'x': No such file or directory",
        'src/load.py:5: raise OSError("no such file or directory")',
        "12:    # the file is not found here",
        "src/x.py:3: error: Incompatible types in assignment",
        "Error: 0.05\nAccuracy: 0.95",
        "The profile was not found to be complete.",
        '{"error": null, "rows": [1]}',
        '{"error": "seen on 2026-03-01", "host": "db-1", "lines": 7}',
        '{"error": ',
        '{"errors": []}',
        "404 files changed",
        "500 servers are up",
        "No. 5 is alive",
        "No errors found",
        f"Error log of yesterday\n{LISTING}",
        "Found 1 matches for missing_colon.py in /repo:\n/repo/tests/missing_colon.py",
    ],
)
def test_what_only_mentions_it_is_an_answer(text: str) -> None:
    """File contents, search hits and reports that speak of errors and missing files."""
    assert call_status(text) == "ok"


@pytest.mark.parametrize(
    ("text", "is_error", "status"),
    [
        (None, False, "unanswered"),
        (None, True, "error"),
        ("", True, "error"),
        ("Exit code 1\ncat: a.txt: No such file or directory", True, "missing_path"),
        ("Exit code 1\n" + LISTING, True, "error"),
        ("x" * 400 + "\nno such file", False, "ok"),
        ("[" * 200_000, False, "ok"),
        ('{"error": ' + "[" * 5_000, False, "ok"),
    ],
)
def test_flags_and_bounds(text: str | None, is_error: bool, status: CallStatus) -> None:
    """No result is no answer; a flagged one is an error whatever it says."""
    assert call_status(text, is_error=is_error) == status
