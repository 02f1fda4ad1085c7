"""One situation and what good looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.grade import Grader
from watchkeeper.domain.identity import content_hash

SideEffects = Literal["none", "sandbox", "live"]
Dimension = Literal["correctness", "evidence", "process", "safety"]

SIDE_EFFECT_ORDER: tuple[SideEffects, ...] = ("none", "sandbox", "live")


@dataclass(frozen=True, slots=True)
class ScriptedResult:
    """What a scripted tool answers once: a text, or an error with that text."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ScriptedTool:
    """A tool whose results the case declares, so that no case needs the world.

    The results are given in order; the last one is given to every further call.
    """

    name: str
    results: tuple[ScriptedResult, ...]
    description: str = ""
    input_schema: Mapping[str, object] | None = None
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class InitialFile:
    """One file that a trial begins with; ``path`` is relative to the workspace, with ``/``."""

    path: str
    sha256: str
    is_executable: bool = False


@dataclass(frozen=True, slots=True)
class InitialFiles:
    """What a trial's workspace holds at its start: a copy of ``folder``, file by file."""

    folder: Path
    files: tuple[InitialFile, ...]

    def identity(self) -> object:
        """What an execution hash takes of it."""
        return [[one.path, one.sha256, one.is_executable] for one in self.files]


@dataclass(frozen=True, slots=True)
class Preparation:
    """A command that runs in the workspace before a trial (setup) or after it (reset).

    ``words`` is the command as it is written; ``script`` the project's file that it runs, with
    its hash, where the first word begins with ``./``.
    """

    words: tuple[str, ...]
    script: Path | None = None
    script_sha256: str | None = None

    def identity(self) -> object:
        """What an execution hash takes of it."""
        return [list(self.words), self.script_sha256]


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """A model that plays the user after the case's own turns.

    ``simulator`` is its name in config/simulators.yaml, ``identity`` the hash of what it is
    there; ``goal`` is what it wants in this case.
    """

    simulator: str
    identity: str
    goal: str


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Bounds of one trial; ``None`` means that this one is not bounded by the suite."""

    rounds: int = 20
    seconds: float = 300.0
    tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One situation: what the agent is told, what it finds, and what must be true afterwards."""

    id: str
    category: str
    turns: tuple[UserTurn, ...]
    graders: tuple[Grader, ...]
    tools: tuple[ScriptedTool, ...] = ()
    dimension: Dimension | None = None
    source: str | None = None
    cluster: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    weight: float = 1.0
    side_effects: SideEffects = "none"
    files: InitialFiles | None = None
    setup: tuple[Preparation, ...] = ()
    reset: tuple[Preparation, ...] = ()
    user: SimulatedUser | None = None
    location: str = ""

    @property
    def cluster_id(self) -> str:
        """What is resampled together with this case; the case itself unless declared."""
        return self.cluster or self.id

    def execution_hash(self, limits: TrialLimits) -> str:
        """Equal for two versions of a case whose rounds, cost and latency may be compared."""
        return content_hash(
            {
                "turns": [turn.identity() for turn in self.turns],
                "tools": [
                    {
                        "name": tool.name,
                        "results": [[result.text, result.is_error] for result in tool.results],
                        "description": tool.description,
                        "input_schema": tool.input_schema,
                        "is_silent": tool.is_silent,
                    }
                    for tool in self.tools
                ],
                "side_effects": self.side_effects,
                "limits": [limits.rounds, limits.seconds, limits.tokens, limits.cost_usd],
                **self._surroundings(),
            }
        )

    def _surroundings(self) -> dict[str, object]:
        """What the case declares beyond its text, each only where it is declared."""
        found: dict[str, object] = {}
        if self.files is not None:
            found["files"] = self.files.identity()
        if self.setup or self.reset:
            found["setup"] = [one.identity() for one in self.setup]
            found["reset"] = [one.identity() for one in self.reset]
        if self.user is not None:
            found["user"] = [self.user.simulator, self.user.identity, self.user.goal]
        return found

    @property
    def grading_hash(self) -> str:
        """Equal for two versions of a case whose pass rates may be compared."""
        return content_hash(
            [[grader.kind, grader.version, grader.parameters()] for grader in self.graders]
        )
