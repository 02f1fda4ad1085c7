"""What a case brings beside text: images and files, initial files, commands; all of it hashed."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import shlex
from pathlib import Path

from watchkeeper.domain.case import InitialFile, InitialFiles, Preparation
from watchkeeper.domain.content import Attachment

MAX_ATTACHMENT_BYTES = 20_000_000
MAX_FILES = 5_000
MAX_FOLDER_BYTES = 200_000_000
_BLOCK_BYTES = 1 << 20


class Unusable(ValueError):
    """A file or command that a case names cannot be used; the text says why and what to do."""


def attachment(
    root: Path, file: str, *, name: str | None, media_type: str | None, is_image: bool
) -> Attachment:
    """The attachment that a project's file makes.

    Args:
        root: The project folder.
        file: The file, from the project folder.
        name: What the agent is told; the file's own name by default.
        media_type: As in ``image/png``; told by the file's ending by default.
        is_image: Whether the case says that it is one.

    Raises:
        Unusable: There is no such file, it is too large, or its media type cannot be told.
    """
    path = _inside(root, file)
    if not path.is_file():
        raise Unusable(f"no such file: {file}; it is looked for from the project folder")
    size = path.stat().st_size
    if size > MAX_ATTACHMENT_BYTES:
        raise Unusable(
            f"{file} has {size:,} bytes; at most {MAX_ATTACHMENT_BYTES:,} can be attached"
        )
    kind = media_type or mimetypes.guess_type(path.name)[0]
    if kind is None:
        raise Unusable(f"{file}: its ending tells no media type; give 'media_type'")
    if is_image and not kind.startswith("image/"):
        raise Unusable(f"{file} is {kind}, not an image; name it under 'file'")
    return Attachment(name or path.name, kind, file_sha256(path), size, path)


def initial_files(root: Path, folder: str) -> InitialFiles:
    """What a trial's workspace is to hold, file by file with its hash.

    Args:
        root: The project folder.
        folder: The folder to copy, from the project folder.

    Raises:
        Unusable: It is no folder, holds too much, or a link in it leads out of it.
    """
    path = _inside(root, folder)
    if not path.is_dir():
        raise Unusable(f"no such folder: {folder}; it is looked for from the project folder")
    found: list[InitialFile] = []
    total = 0
    for parent, folders, names in os.walk(path):
        folders.sort()
        here = Path(parent)
        for name in [*names, *(one for one in folders if (here / one).is_symlink())]:
            file = here / name
            below = file.relative_to(path).as_posix()
            if not file.resolve().is_relative_to(path.resolve()):
                raise Unusable(f"{folder}/{below} is a link that leads out of the folder")
            if not file.is_file():
                raise Unusable(f"{folder}/{below} is neither a file nor a folder")
            total += file.stat().st_size
            if len(found) >= MAX_FILES or total > MAX_FOLDER_BYTES:
                raise Unusable(
                    f"{folder} holds more than {MAX_FILES:,} files or {MAX_FOLDER_BYTES:,} bytes; "
                    "every trial gets a copy of it. Make it smaller, or fetch it in 'setup'"
                )
            found.append(InitialFile(below, file_sha256(file), os.access(file, os.X_OK)))
    return InitialFiles(path, tuple(sorted(found, key=lambda one: one.path)))


def preparation(root: Path, command: str | list[str]) -> Preparation:
    """A command that runs before or after a trial.

    A first word that begins with ``./`` names a file of the project, whose hash becomes part of
    what the case is; any other is a program of the machine, looked for when the trial begins.

    Args:
        root: The project folder.
        command: The words, or one text that is split as a shell would, without running one.

    Raises:
        Unusable: There are no words, or no such script.
    """
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise Unusable(f"{command!r:.100} cannot be split into words: {error}") from error
    if not words or not words[0]:
        raise Unusable("a command without words; expected a program and its arguments")
    if not words[0].startswith("./"):
        return Preparation(words)
    script = _inside(root, words[0])
    if not script.is_file():
        raise Unusable(f"no such file: {words[0]}; it is looked for from the project folder")
    if not os.access(script, os.X_OK):
        raise Unusable(f"{words[0]} may not be executed; run 'chmod +x {words[0]}'")
    return Preparation(words, script, file_sha256(script))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _inside(root: Path, name: str) -> Path:
    """A path of the project; links and ``..`` that leave its folder are refused."""
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        raise Unusable(f"{name} lies outside the project folder; copy it into the project")
    return path
