"""Tens of thousands of trials: whether memory stays flat, and what a resumed run reads.

Ours alone: no peer can go on with a run that was killed without making trials again.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from infra.bench.contestants import Job, write_project
from infra.bench.processes import Command, run
from infra.bench.scenarios import Sizes, Table, Tell

WARM_UP = 0.2
KILLED_AT = 0.9
_CASES = 500
_COLUMNS = (
    "memory, least and",
    "most ÷ median",
    "peak MB",
    "peak MB of the commit",
    "wall s",
    "CPU ms a trial",
    "resume s",
    "MB read",
    "MB of rows",
    "MB of transcripts",
)
_RESULT = "found something that is worth eight kilobytes. " * 170


def endurance_table(sizes: Sizes, tell: Tell) -> Table:
    """One run to its end, one that is killed near its end and resumed."""
    trials = sizes.many_trials
    table = Table(
        f"{trials} trials of the scripted agent",
        _COLUMNS,
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        whole = _Watched(_project(Path(scratch) / "whole", trials))
        cost = run(whole.command(), timeout_s=1800, until=whole.look)
        tell(f"{table.title}: to the end {cost.wall_s:.1f} s")
        end = whole.trials_ended_s()
        phase = [mb for at, mb in cost.memory if WARM_UP * end <= at <= end]
        later = [mb for at, mb in cost.memory if at > end]
        killed = _Watched(_project(Path(scratch) / "killed", trials), KILLED_AT * trials)
        run(killed.command(), timeout_s=1800, until=killed.look)
        tell(f"{table.title}: killed with {killed.finished} finished")
        resumed = _Watched(
            killed.folder,
            size_before=killed.journal_bytes(),
            transcript_bytes=killed.journal_bytes("*.transcripts.jsonl"),
        )
        run(resumed.command(*killed.resume()), timeout_s=1800, until=resumed.look)
    middle = statistics.median(phase) if phase else None
    table.rows["watchkeeper"] = (
        min(phase) / middle if middle else None,
        max(phase) / middle if middle else None,
        max(phase, default=None),
        max(later, default=None),
        cost.wall_s,
        cost.cpu_s / trials * 1000,
        resumed.first_s - whole.first_s,
        max(resumed.read_before_first - whole.read_before_first, 0) / 1e6,
        (resumed.size_before - resumed.transcript_bytes) / 1e6,
        resumed.transcript_bytes / 1e6,
    )
    table.notes.append(
        "memory: while trials run, after the first fifth. Resume: from the start to the first new "
        "trial, less the same of a new run; of what was read, rows are read twice, here and from "
        "the store's staging area, there compressed"
    )
    return table


@dataclass(slots=True)
class _Watched:
    """A run whose journal and reads are looked at while it goes on."""

    folder: Path
    kill_at: float | None = None
    size_before: int = 0
    transcript_bytes: int = 0
    finished: int = 0
    first_s: float = 0.0
    read_before_first: int = 0
    _sizes: list[tuple[float, int]] = field(default_factory=list)
    _offset: int = 0

    def command(self, *arguments: str) -> Command:
        """The run, or what resumes it."""
        words = [sys.executable, "-m", "watchkeeper", "run"]
        given = arguments or ("bench", "-e", "agent")
        return Command([*words, *given, "--json"], self.folder)

    def look(self, passed_s: float) -> bool:
        """Notes how far it is; whether it has come far enough to be killed."""
        size = self.journal_bytes()
        self._sizes.append((passed_s, size))
        if not self.first_s and size > self.size_before:
            self.first_s = passed_s
            self.read_before_first = self._bytes_read()
        if self.kill_at is None:
            return False
        self._count()
        return self.finished >= self.kill_at

    def trials_ended_s(self) -> float:
        """When the journal had reached its full size."""
        full = max(size for _, size in self._sizes)
        return next(at for at, size in self._sizes if size >= 0.99 * full)

    def journal_bytes(self, pattern: str = "*.jsonl") -> int:
        """The size of what is written ahead."""
        return sum(path.stat().st_size for path in self._journals(pattern))

    def resume(self) -> tuple[str, str]:
        """The arguments that go on with the run."""
        (path,) = {path.parent for path in self._journals()}
        return "--resume", path.name

    def _journals(self, pattern: str = "*.jsonl") -> list[Path]:
        return sorted(self.folder.glob(f".watchkeeper/runs/*/{pattern}"))

    def _count(self) -> None:
        """Reads the new lines of the file of trials."""
        for path in self._journals():
            if path.name != "trials.jsonl":
                continue
            with path.open("rb") as lines:
                lines.seek(self._offset)
                for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    self.finished += b'"trial":' in line[:80]

    def _bytes_read(self) -> int:
        """What the process of this run has read so far, from wherever."""
        for path in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if path.resolve() == self.folder.resolve():
                    text = (path.parent / "io").read_text()
                    return int(text.split("rchar:")[1].split()[0])
            except (OSError, IndexError):
                continue
        return 0


def _project(folder: Path, trials: int) -> Path:
    cases = min(_CASES, trials)
    questions = tuple(f"question {number}" for number in range(cases))
    job = Job("", questions, trials // cases, 1, 50)
    endpoint = {"kind": "scripted", "model": "alias", "script": "config/scripts/agent.yaml"}
    write_project(job, folder, endpoint)
    call = {"tool": "lookup", "result": _RESULT}
    script = {
        "served": [{"model": "model-v1"}],
        "behaviours": [{"rounds": [{"calls": [call]}], "endings": [{"text": "yes"}]}],
    }
    (folder / "config" / "scripts").mkdir()
    (folder / "config" / "scripts" / "agent.yaml").write_text(json.dumps(script))
    return folder
