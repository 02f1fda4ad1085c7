"""The last good answer of every source, kept on this machine with its time and its hash."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

SOURCES_FOLDER = ".watchkeeper/sources"


@dataclass(frozen=True, slots=True)
class HeldCopy:
    """What a source said when it was last good."""

    content: bytes
    fetched_at: datetime
    sha256: str


class Copies:
    """The copies of one project; a folder that cannot be written keeps none and says nothing."""

    def __init__(self, root: Path) -> None:
        self._folder = root / SOURCES_FOLDER

    def held(self, source: str) -> HeldCopy | None:
        """The last good answer; one that is damaged is none."""
        try:
            stored = json.loads(self._path(source, "copy").read_text(encoding="utf-8"))
            content = base64.b64decode(stored["content"], validate=True)
            fetched_at = datetime.fromisoformat(stored["fetched_at"])
            digest = hashlib.sha256(content).hexdigest()
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if fetched_at.tzinfo is None or digest != stored.get("sha256"):
            return None
        return HeldCopy(content, fetched_at, digest)

    def keep(self, source: str, content: bytes, now: datetime) -> None:
        """Keeps a good answer; from now on the source counts as readable."""
        self._path(source, "failing").unlink(missing_ok=True)
        self._write(
            self._path(source, "copy"),
            {
                "source": source,
                "fetched_at": now.isoformat(),
                "sha256": hashlib.sha256(content).hexdigest(),
                "content": base64.b64encode(content).decode(),
            },
        )

    def failing_since(self, source: str, now: datetime) -> datetime:
        """When the source was first found unreadable since it was last good: now, or earlier."""
        path = self._path(source, "failing")
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            since = datetime.fromisoformat(json.loads(path.read_text())["since"])
            if since.tzinfo is not None:
                return since
        self._write(path, {"source": source, "since": now.isoformat()})
        return now

    def _path(self, source: str, what: str) -> Path:
        return self._folder / f"{hashlib.sha256(source.encode()).hexdigest()[:20]}.{what}.json"

    def _write(self, path: Path, value: object) -> None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(value, file)
            Path(name).replace(path)
