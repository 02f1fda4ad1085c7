"""Which harness is under test, told by an address, a program or the configuration; never raises."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.loopback import LoopbackServer, Reply, Request
from watchkeeper.adapters._harness import Revision, harness_revision
from watchkeeper.domain.endpoint import Harness


class Deployed(LoopbackServer):
    """A deployed agent that tells its revision."""

    def __init__(self) -> None:
        super().__init__()
        self.reply = Reply()
        self.seen: list[Request] = []

    def answer(self, request: Request) -> Reply:
        """The reply that the test has set."""
        self.seen.append(request)
        return self.reply


@pytest.fixture
def deployed() -> Iterator[Deployed]:
    """The server, running."""
    server = Deployed()
    with server.running():
        yield server


def body(text: str) -> Reply:
    """An answer with this text."""
    return Reply(body=text.encode())


async def told(harness: Harness, root: Path, **variables: str) -> Revision:
    """The revision within a second."""
    return await harness_revision(harness, root, {"PATH": "/usr/bin:/bin", **variables}, 1.0)


async def test_version_of_the_configuration(tmp_path: Path) -> None:
    """What the configuration says is taken at its word; where nothing says, nothing is known."""
    assert await told(Harness(version="1.4"), tmp_path) == ("1.4", None)
    assert await told(Harness(), tmp_path) == (None, None)


async def test_address_answers_with_text_or_json(tmp_path: Path, deployed: Deployed) -> None:
    """A pointer names the place in the JSON, through lists and escaped keys too."""
    deployed.reply = body(" 1a2b3c\n")
    assert await told(Harness(revision_url=deployed.url), tmp_path) == ("1a2b3c", None)
    deployed.reply = Reply.json({"build": [{"git/sha": "4d5e"}], "number": 7})
    for pointer, revision in (("/build/0/git~1sha", "4d5e"), ("/number", "7")):
        harness = Harness(revision_url=deployed.url, revision_pointer=pointer)
        assert await told(harness, tmp_path) == (revision, None)


@pytest.mark.parametrize(
    ("reply", "pointer", "why"),
    [
        (Reply(status=500), None, "HTTP 500"),
        (body("<html>sign in</html>"), None, "a page and no revision"),
        (body(""), None, "it says nothing"),
        (body("a\nb"), None, "expected one line"),
        (body("x" * 201), None, "expected one line"),
        (body("\x1b[31mred"), None, "expected one line"),
        (body("x" * 100_001), None, "more than 100,000 bytes"),
        (body("{"), "/sha", "no JSON"),
        (body('{"sha": {"a": 1}}'), "/sha", "no text at /sha"),
        (body('{"sha": true}'), "/sha", "no text at /sha"),
        (body('{"other": 1}'), "/sha", "there is nothing at /sha"),
        (body('["a"]'), "/9", "there is nothing at /9"),
        (body("late").after(3), None, "no whole answer within 1 s"),
        (Reply(status=302, headers={"location": "https://evil.example"}), None, "another host"),
    ],
)
async def test_address_that_does_not_tell(
    tmp_path: Path, deployed: Deployed, reply: Reply, pointer: str | None, why: str
) -> None:
    """Each is a reason on one line, with the address and without what it answered."""
    deployed.reply = reply
    url = f"{deployed.url}/version?token=canary"
    found = await told(Harness(revision_url=url, revision_pointer=pointer), tmp_path)
    assert found.commit is None
    assert why in str(found.reason)
    assert str(found.reason).startswith(f"{deployed.url}/version: ")
    assert "canary" not in str(found.reason)
    assert str(found.reason).isprintable()


async def test_header_is_taken_from_a_variable(tmp_path: Path, deployed: Deployed) -> None:
    """One that is not set is a reason that names it, and no request is made."""
    headers = {"Authorization": "Bearer env:DEPLOY_TOKEN"}
    harness = Harness(revision_url=deployed.url, revision_headers=headers)
    unset = await told(harness, tmp_path)
    assert "taken from DEPLOY_TOKEN, which is not set" in str(unset.reason)
    assert deployed.seen == []
    deployed.reply = body("abc")
    assert (await told(harness, tmp_path, DEPLOY_TOKEN="x-1\n")).commit == "abc"
    assert deployed.seen[0].headers["authorization"] == "Bearer x-1"


async def test_program_prints_it(tmp_path: Path) -> None:
    """It runs in the project folder, with few variables: no key of ours is among them."""
    script = tmp_path / "revision"
    script.write_text('#!/bin/sh\npwd; echo >&2 noise\ntest -z "$SECRET_KEY"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    found = await told(Harness(revision_command=("./revision",)), tmp_path, SECRET_KEY="x")
    assert found == (str(tmp_path), None)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("./absent",), "the command ./absent could not be run: No such file"),
        (("false",), "the command false ended with code 1"),
        (("sleep", "30"), "the command sleep did not end within 1 s"),
        (("yes",), "the command yes printed more than 100,000 bytes"),
        ((sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"), "ended with signal 9"),
        (("true",), "the command true: it says nothing"),
        (("printf", "a\\nb"), "the command printf: expected one line"),
    ],
)
async def test_program_that_does_not_tell(
    tmp_path: Path, command: tuple[str, ...], why: str
) -> None:
    """A program that is missing, fails, hangs or floods is a reason."""
    found = await told(Harness(revision_command=command), tmp_path)
    assert found.commit is None
    assert why in str(found.reason)
