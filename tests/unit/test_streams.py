"""What foreign code prints: to standard error, line by line, without secrets."""

# ruff: noqa: T201

from __future__ import annotations

import io
import sys

import pytest

from watchkeeper.cli.streams import RedactedStream, guarded_output
from watchkeeper.domain.redaction import Redactor

REDACTOR = Redactor({"WORD": "canary-word"})


def test_prints_leave_standard_output_to_its_reader(capsys: pytest.CaptureFixture[str]) -> None:
    """Also those of a thread; afterwards both streams are what they were."""
    before = sys.stdout, sys.stderr
    with guarded_output(REDACTOR):
        print("one canary-word")
        print("two canary-word", file=sys.stderr)
        sys.stdout.write("no end: canary-word")
    assert (sys.stdout, sys.stderr) == before
    print("ours")
    out, err = capsys.readouterr()
    assert out == "ours\n"
    assert err == "one [secret WORD]\ntwo [secret WORD]\nno end: [secret WORD]"


def test_a_secret_in_two_pieces_is_one_secret() -> None:
    """A line is redacted as a whole."""
    out = io.StringIO()
    stream = RedactedStream(out, REDACTOR)
    for piece in ("a can", "ary-w", "ord b\nnext"):
        stream.write(piece)
    stream.flush()
    assert out.getvalue() == "a [secret WORD] b\n"
    stream.finish()
    assert out.getvalue() == "a [secret WORD] b\nnext"


def test_an_endless_line_is_not_kept() -> None:
    """Memory stays bounded."""
    out = io.StringIO()
    stream = RedactedStream(out, REDACTOR)
    for _ in range(300):
        stream.write("x" * 1000)
    assert len(out.getvalue()) > 200_000
