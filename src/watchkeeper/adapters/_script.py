"""The script of a scripted agent: which model serves when, and what the agent does by chance."""

from __future__ import annotations

import fnmatch
import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from watchkeeper.domain.case import Case
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath, read_yaml

MAX_TIMES = 1000

FaultKind = Literal["rate_limited", "overloaded", "unreachable", "authentication", "crash"]
Chance = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1_000_000)]
Times = Annotated[int, Field(ge=0, le=MAX_TIMES)]


def _time(text: str) -> str:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("a time with its zone, such as 2026-03-23T00:00:00Z")
    return text


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ServedModel(_Model):
    """A model that answers from a time on, until the next one takes over."""

    model: str
    since: Annotated[str, AfterValidator(_time)] | None = Field(
        None, description="time with zone; the first model has none"
    )


class Match(_Model):
    """Which trials a behaviour is for; everything that is given must fit."""

    cases: list[str] = Field([], description="case ids, * allowed")
    categories: list[str] = []
    tags: dict[str, str] = {}
    served: list[str] = Field([], description="served models")

    def fits(self, case: Case, served: str) -> bool:
        """Whether a trial of this case, answered by this model, is meant."""
        if self.cases and not any(fnmatch.fnmatchcase(case.id, one) for one in self.cases):
            return False
        if self.categories and case.category not in self.categories:
            return False
        if any(case.tags.get(key) != value for key, value in self.tags.items()):
            return False
        return not self.served or served in self.served


class ScriptedCall(_Model):
    """A tool call; without a result the case's scripted tool or the harness's tool answers."""

    tool: str
    args: dict[str, Any] = {}
    result: str | None = None
    is_error: bool = False


class ScriptedRound(_Model):
    """One model response with its calls, repeated as often as ``times`` says."""

    calls: list[ScriptedCall] = Field(min_length=1)
    times: Times | dict[str, Weight] = Field(
        1, description="a number, or chances by number: {1: 0.3, 2: 0.7}"
    )
    text: str = ""

    def draw_times(self, rng: random.Random) -> int:
        """How often the round happens this time."""
        if isinstance(self.times, int):
            return self.times
        counts = list(self.times)
        return int(rng.choices(counts, weights=list(self.times.values()))[0])


class ScriptedEnding(_Model):
    """How the agent ends; ``{known}`` in the text is what it knows about the case."""

    text: str = "{known}"
    weight: Weight = 1.0
    action: str | None = None
    state: dict[str, Any] | None = None
    end: Literal["answered", "refused", "truncated", "agent_error"] = "answered"


class ScriptedFault(_Model):
    """A fault that a request meets by chance."""

    kind: FaultKind
    chance: Chance = 1.0
    retry_after_s: float | None = Field(None, ge=0, le=86_400)


class ScriptedUsage(_Model):
    """Tokens of one response; the input grows by ``input_growth`` with every round."""

    input: int = Field(0, ge=0)
    input_growth: int = Field(0, ge=0)
    output: int = Field(0, ge=0)
    spread: Chance = Field(0.0, description="share by which both vary, evenly")


class Behaviour(_Model):
    """What the agent does in the trials that ``match`` means."""

    match: Match = Match()
    rounds: list[ScriptedRound] = []
    endings: list[ScriptedEnding] = Field([ScriptedEnding()], min_length=1)
    faults: list[ScriptedFault] = []
    usage: ScriptedUsage = ScriptedUsage()
    latency_ms: float = Field(0, ge=0, le=600_000, description="of one response")


class Script(_Model):
    """A whole script; of the behaviours the first that fits a trial is taken."""

    served: list[ServedModel] = Field(min_length=1)
    tools: list[str] = Field([], description="tools that it has and may never call")
    known: dict[str, str] = Field({}, description="what the agent knows, by case id")
    behaviours: list[Behaviour] = Field(min_length=1)

    def served_at(self, at: datetime) -> str:
        """The model that answers at a time."""
        current = self.served[0].model
        for one in self.served[1:]:
            if one.since is not None and datetime.fromisoformat(one.since) <= at.astimezone(UTC):
                current = one.model
        return current

    def behaviour(self, case: Case, served: str) -> Behaviour | None:
        """The first behaviour that is meant for a trial."""
        return next((one for one in self.behaviours if one.match.fits(case, served)), None)

    @property
    def offered_tools(self) -> frozenset[str]:
        """Every tool that the agent has."""
        called = {
            call.tool for one in self.behaviours for step in one.rounds for call in step.calls
        }
        return frozenset(called) | frozenset(self.tools)


def read_script(root: Path, file: str) -> Script:
    """The script in a file of the project.

    Raises:
        ConfigError: The file is missing or says what no script says; every fault is in it.
    """
    document = read_yaml(root / file, file)
    faults: list[Fault] = []
    script = validated(Script, document, (), document.value, faults)
    if script is not None:
        _check_served(document, script, faults)
        for index, behaviour in enumerate(script.behaviours):
            for number, step in enumerate(behaviour.rounds):
                if not isinstance(step.times, int):
                    path = ("behaviours", index, "rounds", number, "times")
                    _check_times(document, path, step.times, faults)
            if sum(ending.weight for ending in behaviour.endings) <= 0:
                faults.append(
                    document.fault(("behaviours", index, "endings"), "endings: all weights are 0")
                )
    if faults or script is None:
        raise ConfigError(faults)
    return script


def _check_served(document: Document, script: Script, faults: list[Fault]) -> None:
    """The first model answers from the beginning, every other from a later time on."""
    if script.served[0].since is not None:
        message = "served: the first model answers from the beginning; remove its 'since'"
        faults.append(document.fault(("served", 0, "since"), message))
    latest: datetime | None = None
    for index, one in enumerate(script.served[1:], start=1):
        if one.since is None:
            message = f"served: '{one.model}' would never answer; give its 'since'"
            faults.append(document.fault(("served", index), message))
            continue
        since = datetime.fromisoformat(one.since)
        if latest is not None and since <= latest:
            message = f"served: found {one.since}; expected a time after that of the model before"
            faults.append(document.fault(("served", index, "since"), message))
        latest = since


def _check_times(
    document: Document, path: KeyPath, times: Mapping[str, float], faults: list[Fault]
) -> None:
    for key in times:
        if not re.fullmatch(r"[0-9]{1,4}", key) or int(key) > MAX_TIMES:
            message = f"times: found {key!r}; expected a whole number up to {MAX_TIMES:,}"
            faults.append(document.fault((*path, key), message))
    if sum(times.values()) <= 0:
        faults.append(document.fault(path, "times: expected at least one chance above 0"))
