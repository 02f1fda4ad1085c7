"""One situation and what good looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
    turns: tuple[str, ...]
    graders: tuple[Grader, ...]
    tools: tuple[ScriptedTool, ...] = ()
    dimension: Dimension | None = None
    source: str | None = None
    cluster: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    weight: float = 1.0
    side_effects: SideEffects = "none"
    location: str = ""

    @property
    def cluster_id(self) -> str:
        """What is resampled together with this case; the case itself unless declared."""
        return self.cluster or self.id

    def execution_hash(self, limits: TrialLimits) -> str:
        """Equal for two versions of a case whose rounds, cost and latency may be compared."""
        return content_hash(
            {
                "turns": list(self.turns),
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
            }
        )

    @property
    def grading_hash(self) -> str:
        """Equal for two versions of a case whose pass rates may be compared."""
        return content_hash(
            [[grader.kind, grader.version, grader.parameters()] for grader in self.graders]
        )
