"""A trial's own folder: what it begins with, what became of it, and that it is gone afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from watchkeeper.domain.case import Case, InitialFile, InitialFiles, Preparation
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.trial import FileChange
from watchkeeper.errors import EndpointFault
from watchkeeper.processes import Bounds
from watchkeeper.rollout import _changes
from watchkeeper.rollout.workspace import needs_workspace, prepared

CASE = Case("case", "facts", (UserTurn("do it"),), (), location="config/suites/s.yaml:7")
INHERITED = {"PATH": os.environ["PATH"], "API_KEY": "secret"}
OLD = "one\ntwo\nthree\n"


def sha256(content: str | bytes) -> str:
    """The hash of a file's content."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def names_in(folder: Path) -> list[str]:
    """What lies in a folder."""
    return [one.name for one in folder.iterdir()]


def files_in(folder: Path) -> InitialFiles:
    """Everything that is in a folder, as the loader would list it."""
    return InitialFiles(
        folder,
        tuple(
            InitialFile(
                path.relative_to(folder).as_posix(),
                sha256(path.read_bytes()),
                bool(path.stat().st_mode & stat.S_IXUSR),
            )
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ),
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of a case with a few files."""
    folder = tmp_path / "repo"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.txt").write_text(OLD)
    (folder / "deep" / "er" / "b.bin").write_bytes(b"\0\1")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


async def changes_by(
    folder: Path, case: Case, act: Callable[[Path], object]
) -> tuple[FileChange, ...]:
    """What a trial that does something in its workspace changed."""
    async with prepared(case, "t1", folder=folder / "work", inherited=INHERITED) as workspace:
        act(workspace.path)
        return await workspace.changes()


async def test_a_trial_begins_with_a_copy_of_its_files(source: Path, tmp_path: Path) -> None:
    """In a folder of its own, which goes with it; the original is never touched."""
    case = replace(CASE, files=files_in(source))
    work = tmp_path / "work"
    async with (
        prepared(case, "trial-one", folder=work, inherited=INHERITED) as one,
        prepared(case, "trial-one", folder=work, inherited=INHERITED) as two,
    ):
        assert one.path != two.path
        assert files_in(one.path).files == files_in(source).files
        (one.path / "a.txt").write_text("changed")
        assert (two.path / "a.txt").read_text() == OLD
        assert await two.changes() == ()
        assert len(await one.changes()) == 1
    assert (source / "a.txt").read_text() == OLD
    assert names_in(work) == []


def test_a_case_says_whether_it_needs_one(source: Path) -> None:
    """Files, or commands that run in it."""
    assert not needs_workspace(CASE)
    assert needs_workspace(replace(CASE, files=files_in(source)))
    assert needs_workspace(replace(CASE, setup=(Preparation(("true",)),)))
    assert needs_workspace(replace(CASE, reset=(Preparation(("true",)),)))


async def test_what_was_added_changed_and_removed_is_told(source: Path, tmp_path: Path) -> None:
    """With the new hash and size, and a diff of texts; setup's own changes are none."""

    def act(path: Path) -> None:
        (path / "a.txt").write_text(OLD.replace("two", "2"))
        (path / "deep" / "er" / "b.bin").write_bytes(b"\0\2\3")
        (path / "run.sh").unlink()
        (path / "made.txt").write_text("made, then kept\n")
        (path / "new").mkdir()
        (path / "new" / "ü.txt").write_text("hello")

    case = replace(
        CASE,
        files=files_in(source),
        setup=(Preparation(("sh", "-c", "echo made > made.txt; echo x > untouched")),),
    )
    changes = {one.path: one for one in await changes_by(tmp_path, case, act)}
    assert {path: one.change for path, one in changes.items()} == {
        "a.txt": "changed",
        "deep/er/b.bin": "changed",
        "made.txt": "changed",
        "new/ü.txt": "added",
        "run.sh": "removed",
    }
    new = OLD.replace("two", "2")
    assert changes["a.txt"] == FileChange(
        "a.txt",
        "changed",
        sha256(new),
        len(new),
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
    )
    assert changes["deep/er/b.bin"].diff is None
    assert changes["deep/er/b.bin"].sha256 == sha256(b"\0\2\3")
    assert (changes["run.sh"].sha256, changes["run.sh"].byte_count) == (None, None)
    assert "+++ /dev/null" in (changes["run.sh"].diff or "")
    assert "-made\n+made, then kept" in (changes["made.txt"].diff or "")
    added = "--- /dev/null\n+++ b/new/ü.txt\n@@ -0,0 +1 @@\n+hello\n\\ No newline at end of file"
    assert changes["new/ü.txt"].diff == added


async def test_a_file_that_only_became_executable_has_changed(source: Path, tmp_path: Path) -> None:
    """Its content has not, which the diff says."""
    case = replace(CASE, files=files_in(source))
    (change,) = await changes_by(tmp_path, case, lambda path: (path / "a.txt").chmod(0o755))
    assert (change.change, change.diff) == ("changed", "[executable: no → yes]")
    assert change.sha256 == sha256(OLD)


async def test_links_are_told_and_never_followed(source: Path, tmp_path: Path) -> None:
    """Neither what they lead to is read, nor is it removed with the workspace."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not yours")

    def act(path: Path) -> None:
        (path / "a.txt").unlink()
        (path / "a.txt").symlink_to(outside / "secret")
        (path / "folder").symlink_to(outside)

    case = replace(CASE, files=files_in(source))
    changes = await changes_by(tmp_path, case, act)
    assert [(one.path, one.change, one.byte_count) for one in changes] == [
        ("a.txt", "changed", None),
        ("folder", "added", None),
    ]
    assert changes[0].diff == f"[link: a file → {outside / 'secret'}]"
    assert "not yours" not in str(changes)
    assert (outside / "secret").read_text() == "not yours"


async def test_pipes_and_files_that_nobody_may_read_are_told(tmp_path: Path) -> None:
    """Nothing waits for a pipe that nobody writes to; odd names are made text."""

    def act(path: Path) -> None:
        os.mkfifo(path / "pipe")
        os.mkfifo(os.fsencode(path) + b"/\xff")

    changes = await changes_by(tmp_path, CASE, act)
    assert [(one.path, one.sha256) for one in changes] == [("pipe", None), ("\ufffd", None)]


async def test_bounds_of_what_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is cut or left out says so in its place."""
    monkeypatch.setattr(_changes, "MAX_DIFF_CHARACTERS", 300)
    monkeypatch.setattr(_changes, "MAX_DIFF_CHARACTERS_IN_ALL", 700)
    monkeypatch.setattr(_changes, "MAX_CHANGES", 6)
    monkeypatch.setattr(_changes, "MAX_TEXT_LINES", 200)
    monkeypatch.setattr(_changes, "MAX_TEXT_BYTES", 5_000)

    def act(path: Path) -> None:
        (path / "1").write_text("x" * 1_000)
        (path / "2").write_text("x\n" * 500)
        (path / "3").write_text("x" * 6_000)
        (path / "4").write_text("x" * 250)
        for name in "56789":
            (path / name).write_text("y" * 250)

    changes = await changes_by(tmp_path, CASE, act)
    assert [one.path for one in changes] == ["1", "2", "3", "4", "5", "6", "[3 more files]"]
    first = changes[0].diff or ""
    assert first.endswith(" more characters]")
    assert len(first) < 340
    assert changes[1].diff == "[not shown: more than 200 lines]"
    assert changes[2].diff is None
    assert changes[2].byte_count == 6_000
    assert changes[5].diff == "[not shown: the diffs of this trial exceed 700]"


async def test_setup_runs_in_the_workspace_with_what_it_needs_to_know(
    source: Path, tmp_path: Path
) -> None:
    """The trial, the case and the folder; and nothing of our keys."""
    script = tmp_path / "seed.sh"
    script.write_text('#!/bin/sh\nenv > env.txt; pwd > "$1"; cat a.txt > copy.txt\n')
    script.chmod(0o755)
    one = Preparation(("./seed.sh", "where.txt"), script, sha256(script.read_bytes()))
    case = replace(CASE, files=files_in(source), setup=(one,))
    async with prepared(case, "t1", folder=tmp_path / "w", inherited=INHERITED) as workspace:
        found = (workspace.path / "env.txt").read_text()
        assert (workspace.path / "where.txt").read_text().strip() == str(workspace.path)
        assert (workspace.path / "copy.txt").read_text() == OLD
        assert await workspace.changes() == ()
    for line in (
        "WATCHKEEPER_TRIAL_ID=t1",
        "WATCHKEEPER_CASE_ID=case",
        f"WATCHKEEPER_WORKSPACE={workspace.path}",
    ):
        assert line in found.splitlines()
    assert "secret" not in found


@pytest.mark.parametrize(
    ("words", "said", "is_transient"),
    [
        (["sh", "-c", "echo a; echo no >&2; echo db >&2; exit 4"], "exited with 4: no / db", True),
        (["sh", "-c", "echo only; exit 1"], "exited with 1: only", True),
        (["sh", "-c", "kill -9 $$"], "was ended by signal 9", True),
        (["sleep", "60"], "was ended after 0.5 s", True),
        (["yes"], "wrote more than 10,000 bytes", True),
        (["no-such-program"], "could not be started: No such file or directory", False),
    ],
)
async def test_a_setup_that_fails_is_no_failure_of_the_agent(
    words: list[str], said: str, is_transient: bool, tmp_path: Path
) -> None:
    """It is a fault of the surroundings, with the command's last lines; the folder is gone."""
    case = replace(CASE, setup=(Preparation(tuple(words)),))
    bounds = Bounds(0.5, output_bytes=10_000, grace_s=0.2)
    with pytest.raises(EndpointFault) as caught:
        async with prepared(case, "t1", folder=tmp_path, inherited=INHERITED, bounds=bounds):
            pytest.fail("the trial began")
    text = str(caught.value)
    assert text.startswith("config/suites/s.yaml:7: case 'case': setup '")
    assert said in text
    assert text.isprintable()
    assert (caught.value.kind, caught.value.is_transient) == ("setup_failed", is_transient)
    assert names_in(tmp_path) == []


async def test_a_script_that_is_not_what_it_was_does_not_run(tmp_path: Path) -> None:
    """The record says which script prepared a trial."""
    script = tmp_path / "seed.sh"
    script.write_text("#!/bin/sh\ntouch ../../ran\n")
    script.chmod(0o755)
    case = replace(CASE, setup=(Preparation(("./seed.sh",), script, sha256("another")),))
    with pytest.raises(EndpointFault, match="not what it was when the suite was loaded") as caught:
        async with prepared(case, "t1", folder=tmp_path / "work", inherited=INHERITED):
            pytest.fail("the trial began")
    assert not caught.value.is_transient
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a.txt", "it is not what it was"),
        ("gone.txt", "No such file or directory"),
        ("../outside.txt", "it leads out of the case's folder"),
        ("/etc/passwd", "it leads out of the case's folder"),
        ("link.txt", "it leads out of the case's folder"),
    ],
)
async def test_files_that_cannot_be_given_as_they_were_are_told(
    path: str, said: str, source: Path, tmp_path: Path
) -> None:
    """Changed, gone, or led out of the folder by a name or a link."""
    (tmp_path / "outside.txt").write_text("x")
    (source / "link.txt").symlink_to(tmp_path / "outside.txt")
    digest = sha256("another") if path == "a.txt" else sha256("x")
    case = replace(CASE, files=InitialFiles(source, (InitialFile(path, digest),)))
    with pytest.raises(EndpointFault, match=said) as caught:
        async with prepared(case, "t1", folder=tmp_path / "work", inherited=INHERITED):
            pytest.fail("the trial began")
    assert path in str(caught.value)
    assert (caught.value.kind, caught.value.is_transient) == ("setup_failed", False)


@pytest.mark.parametrize("how", ["ends", "raises", "is cancelled"])
async def test_reset_runs_and_the_folder_goes_however_the_trial_ends(
    how: str, tmp_path: Path
) -> None:
    """With files and folders that nobody may write, too."""
    log = tmp_path / "log"
    reset = Preparation(("sh", "-c", f"cat made >> {log}; echo $WATCHKEEPER_TRIAL_ID >> {log}"))
    case = replace(CASE, reset=(reset,))
    work = tmp_path / "work"
    began = asyncio.Event()

    async def trial() -> None:
        async with prepared(case, "t9", folder=work, inherited=INHERITED) as workspace:
            locked = workspace.path / "locked" / "in"
            locked.mkdir(parents=True)
            (locked / "file").touch(0o400)
            locked.chmod(0o500)
            locked.parent.chmod(0o000)
            (workspace.path / "made").write_text("made\n")
            began.set()
            if how == "raises":
                raise RuntimeError("the agent")
            if how == "is cancelled":
                await asyncio.sleep(60)

    task = asyncio.ensure_future(trial())
    await began.wait()
    if how == "is cancelled":
        task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    expected = {"ends": type(None), "raises": RuntimeError, "is cancelled": asyncio.CancelledError}
    assert isinstance(outcome, expected[how])
    assert log.read_text() == "made\nt9\n"
    assert names_in(work) == []


async def test_a_reset_that_fails_is_told_and_loses_no_trial(tmp_path: Path) -> None:
    """The trial is over and paid for; the next reset still runs."""
    told: list[str] = []
    log = tmp_path / "log"
    case = replace(
        CASE,
        reset=(
            Preparation(("sh", "-c", "echo cannot >&2; exit 1")),
            Preparation(("sh", "-c", f"echo second > {log}")),
        ),
    )
    async with prepared(case, "t", folder=tmp_path / "w", inherited=INHERITED, tell=told.append):
        pass
    assert told == ["case 'case': reset 'sh -c echo cannot >&2; exit 1' exited with 1: cannot"]
    assert log.read_text() == "second\n"
