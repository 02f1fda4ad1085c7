"""Files, pictures, commands and simulated users of a case, and what they make of its hash."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.unit.loading.example import FILES, SUITE, faults_of, write
from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.content import Attachment
from watchkeeper.loading.project import Project, load_project
from watchkeeper.loading.surroundings import Unusable, attachment, initial_files, preparation

SIMULATORS = """\
simulators:
  grumpy:
    kind: scripted
    model: user-v1
    script: config/scripts/agent.yaml
    prompt: prompts/user.md
    max_turns: 3
    ends_with: "[bye]"
    limits: {tokens: 1000, cost_usd: 0.01}
"""


def project_with(folder: Path, lines: str, simulators: str | None = None) -> Project:
    """The example with more lines in its first case."""
    files = {**FILES, SUITE: FILES[SUITE].replace("    cluster: c1\n", f"    cluster: c1\n{lines}")}
    (folder / "prompts").mkdir(exist_ok=True)
    (folder / "prompts/user.md").write_text("You are in a hurry.")
    if simulators is not None:
        files["config/simulators.yaml"] = simulators
    return load_project(write(folder, files))


def first_case(project: Project) -> Case:
    """Its first case."""
    return project.suites["basic"].cases[0]


def hash_of(project: Project) -> str:
    """The execution hash of its first case."""
    return first_case(project).execution_hash(TrialLimits())


def test_parts_keep_their_order_and_are_known_by_their_bytes(tmp_path: Path) -> None:
    """Text, picture, text, file: what an agent is shown is what was written."""
    (tmp_path / "receipt.png").write_bytes(b"\x89PNG one")
    (tmp_path / "terms.bin").write_bytes(b"terms")
    written = (
        "    turns:\n"
        "      - - before\n"
        "        - image: receipt.png\n"
        "        - after\n"
        "        - {file: terms.bin, name: terms.pdf, media_type: application/pdf}\n"
    )
    files = {**FILES, SUITE: FILES[SUITE].replace("    input: first question\n", written)}
    project = load_project(write(tmp_path, files))
    (turn,) = first_case(project).turns
    assert turn.text == "before\nafter"
    assert [one if isinstance(one, str) else one.name for one in turn.parts] == [
        "before",
        "receipt.png",
        "after",
        "terms.pdf",
    ]
    picture, terms = turn.attachments
    assert (picture.media_type, picture.is_image) == ("image/png", True)
    assert picture.sha256 == hashlib.sha256(b"\x89PNG one").hexdigest()
    assert (terms.media_type, terms.byte_count) == ("application/pdf", 5)
    before = hash_of(project)
    (tmp_path / "receipt.png").write_bytes(b"\x89PNG two")
    assert hash_of(load_project(tmp_path)) != before


def test_a_list_of_texts_is_a_text(tmp_path: Path) -> None:
    """Parts matter only where there is more than text."""
    files = {**FILES, SUITE: FILES[SUITE].replace("input: first question", "input: [one, two]")}
    (turn,) = first_case(load_project(write(tmp_path, files))).turns
    assert (turn.text, turn.parts) == ("one\ntwo", ())


def test_initial_files_are_part_of_what_a_case_is(tmp_path: Path) -> None:
    """A changed byte, name or permission makes another case."""
    fixtures = tmp_path / "fixtures/repo"
    (fixtures / "src").mkdir(parents=True)
    (fixtures / "src/a.py").write_text("a = 1\n")
    (fixtures / "run.sh").write_text("#!/bin/sh\n")
    project = project_with(tmp_path, "    files: fixtures/repo\n")
    files = first_case(project).files
    assert files is not None
    assert [(one.path, one.is_executable) for one in files.files] == [
        ("run.sh", False),
        ("src/a.py", False),
    ]
    seen = {hash_of(project)}
    (fixtures / "src/a.py").write_text("a = 2\n")
    seen.add(hash_of(load_project(tmp_path)))
    (fixtures / "run.sh").chmod(0o755)
    seen.add(hash_of(load_project(tmp_path)))
    (fixtures / "src/a.py").rename(fixtures / "src/b.py")
    seen.add(hash_of(load_project(tmp_path)))
    assert len(seen) == 4


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """A copy for an agent holds nothing that the case does not."""
    (tmp_path / "secret").write_text("s")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "inside").write_text("i")
    (folder / "link").symlink_to(folder / "inside")
    assert len(initial_files(tmp_path, "files").files) == 2
    (folder / "out").symlink_to(tmp_path / "secret")
    with pytest.raises(Unusable, match="files/out is a link that leads out"):
        initial_files(tmp_path, "files")


def test_commands_are_words_and_scripts_are_hashed(tmp_path: Path) -> None:
    """A script that changed makes another case; no shell takes part."""
    script = tmp_path / "seed.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    project = project_with(
        tmp_path,
        "    setup: [./seed.sh --all 'two words', [git, init, '.; rm']]\n    reset: [ls]\n",
    )
    first, second = first_case(project).setup
    assert first.words == ("./seed.sh", "--all", "two words")
    assert (first.script, second.words) == (script.resolve(), ("git", "init", ".; rm"))
    assert first_case(project).reset[0].words == ("ls",)
    before = hash_of(project)
    script.write_text("#!/bin/sh\ntrue\n")
    assert hash_of(load_project(tmp_path)) != before


@pytest.mark.parametrize("command", ["", " ", []])
def test_no_words_are_no_command(command: str | list[str], tmp_path: Path) -> None:
    """An empty command would always succeed."""
    with pytest.raises(Unusable, match="without words"):
        preparation(tmp_path, command)


def test_a_simulated_user_is_part_of_what_a_case_is(tmp_path: Path) -> None:
    """Its model, its prompt, its bounds and its goal: with another user it is another trial."""
    line = "    user: {simulator: grumpy, goal: a refund}\n"
    project = project_with(tmp_path, line, SIMULATORS)
    simulator = project.simulators["grumpy"]
    assert (simulator.max_turns, simulator.ends_with) == (3, "[bye]")
    assert (simulator.token_limit, simulator.cost_limit_usd) == (1000, 0.01)
    assert simulator.endpoint.harness.system == "You are in a hurry."
    user = first_case(project).user
    assert user is not None
    assert (user.goal, user.identity) == ("a refund", simulator.identity)
    seen = {hash_of(project)}
    for old, new in (("user-v1", "user-v2"), ("max_turns: 3", "max_turns: 4"), ("bye", "end")):
        other = project_with(tmp_path, line, SIMULATORS.replace(old, new))
        seen.add(hash_of(other))
    seen.add(hash_of(project_with(tmp_path, line.replace("refund", "reply"), SIMULATORS)))
    (tmp_path / "prompts/user.md").write_text("You have time.")
    seen.add(hash_of(load_project(tmp_path)))
    assert len(seen) == 6


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("    max_turns: 3\n", "    max_turns: 0\n", 7, "max_turns"),
        ("    max_turns: 3\n", "    max_turn: 3\n", 7, "unknown key 'max_turn'"),
        ("kind: scripted", "kind: scriptd", 3, "unknown kind 'scriptd'"),
        ("prompts/user.md", "prompts/none.md", 6, "prompt: the file cannot be read"),
        ("simulators:\n", "simulator:\n", 1, "unknown key 'simulator'"),
        ("  grumpy:\n", "  gr umpy:\n", 2, "simulator 'gr umpy': expected letters"),
    ],
)
def test_a_fault_of_a_simulator_is_told_with_its_line(
    old: str, new: str, line: int, says: str, tmp_path: Path
) -> None:
    """As in every other file of the project."""
    files = {**FILES, "config/simulators.yaml": SIMULATORS.replace(old, new)}
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/user.md").write_text("You are in a hurry.")
    faults = faults_of(write(tmp_path, files))
    assert [(one.file, one.line) for one in faults if says in one.message] == [
        ("config/simulators.yaml", line)
    ]


def test_an_attachment_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """Before the first call, and not by the provider."""
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(20_000_001)
    with pytest.raises(Unusable, match=r"20,000,001 bytes; at most 20,000,000"):
        attachment(tmp_path, "large.png", name=None, media_type=None, is_image=True)
    (tmp_path / "odd.zzz9").write_text("x")
    with pytest.raises(Unusable, match="give 'media_type'"):
        attachment(tmp_path, "odd.zzz9", name=None, media_type=None, is_image=False)
    found = attachment(tmp_path, "odd.zzz9", name="n", media_type="text/x", is_image=False)
    assert isinstance(found, Attachment)
