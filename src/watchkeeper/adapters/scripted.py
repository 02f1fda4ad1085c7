"""A scripted agent: deterministic under a seed, stochastic by its script, no key, no network."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from watchkeeper.adapters._harness import harness_revision
from watchkeeper.adapters._script import (
    Behaviour,
    Script,
    ScriptedEnding,
    ScriptedFault,
    ScriptedRound,
    read_script,
)
from watchkeeper.domain.endpoint import Endpoint, ServedIdentity
from watchkeeper.domain.ports import (
    Adapter,
    Clock,
    Observation,
    Session,
    Step,
    ToolResults,
    TrialBrief,
)
from watchkeeper.domain.trajectory import Round, ToolCall, Usage, call_status
from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
)


class Settings(BaseModel):
    """What a scripted endpoint adds to the common keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: str = Field("scripted", min_length=1, description="the alias that is asked for")
    script: str = Field(min_length=1, description="file with the script, from the project folder")

    def offered_tools(self, root: Path) -> frozenset[str]:
        """The tools that the script calls."""
        return read_script(root, self.script).offered_tools


def connect(
    endpoint: Endpoint,
    variables: Mapping[str, str],
    root: Path,
    clock: Clock,
) -> Adapter:
    """The scripted agent of an endpoint.

    Raises:
        ConfigError: The script cannot be read.
    """
    settings = endpoint.settings
    assert isinstance(settings, Settings)  # noqa: S101 - the loader built it
    script = read_script(root, settings.script)
    return _ScriptedAdapter(endpoint, settings, script, variables, root, clock)


@dataclass(frozen=True, slots=True)
class _ScriptedAdapter:
    endpoint: Endpoint
    settings: Settings
    script: Script
    variables: Mapping[str, str]
    root: Path
    clock: Clock

    @property
    def account(self) -> str:
        """Nobody else; a scripted agent has no provider."""
        return f"scripted {self.endpoint.name}"

    async def resolve(self) -> ServedIdentity:
        """The model that the script serves now."""
        revision = await harness_revision(self.endpoint.harness, self.root, self.variables)
        return ServedIdentity(
            requested_model=self.settings.model,
            resolved_model=self.script.served_at(self.clock.now()),
            harness_revision=revision.commit,
            note=revision.reason,
        )

    async def open(self, brief: TrialBrief) -> Session:
        """A trial's conversation; everything by chance comes from the brief's seed."""
        return _ScriptedSession(self.script, brief, self.clock)

    async def close(self) -> None:
        """Nothing to free."""


class _ScriptedSession:
    """Plays one behaviour; a round whose calls lack results waits for the trial's tools."""

    def __init__(self, script: Script, brief: TrialBrief, clock: Clock) -> None:
        self._clock = clock
        self._case = brief.case
        self._known = script.known.get(brief.case.id, "")
        self._served = script.served_at(clock.now())
        self._behaviour = script.behaviour(brief.case, self._served)
        self._rng = random.Random(f"{brief.seed}/{brief.trial_id}")
        self._fault_rng = random.Random(f"{brief.seed}/{brief.trial_id}/faults")
        self._left: list[ScriptedRound] = []
        self._ending = ScriptedEnding()
        self._asked = 0
        if self._behaviour is not None:
            for step in self._behaviour.rounds:
                self._left.extend([step] * step.draw_times(self._rng))
            endings = self._behaviour.endings
            weights = [ending.weight for ending in endings]
            self._ending = self._rng.choices(endings, weights=weights)[0]

    async def step(self, observation: Observation) -> Step:
        """The next response, or all that follow it where the script knows their results."""
        behaviour = self._behaviour
        if behaviour is None:
            message = f"the script has no behaviour for case '{self._case.id}' and {self._served}"
            return Step(end="agent_error", error=message)
        for fault in behaviour.faults:
            if self._fault_rng.random() < fault.chance:
                if fault.kind == "crash":
                    return Step(end="agent_error", error="the script lets the agent crash")
                raise _fault(fault)
        if not isinstance(observation, ToolResults) and self._asked and not self._left:
            return self._final((), behaviour)
        done: list[Round] = []
        while self._left:
            step = self._left.pop(0)
            await self._clock.sleep(behaviour.latency_ms / 1000)
            calls = tuple(
                ToolCall(
                    tool=call.tool,
                    arguments=dict(call.args),
                    result=call.result,
                    status=call_status(call.result, is_error=call.is_error),
                    call_id=f"call_{self._asked}_{number}",
                )
                for number, call in enumerate(step.calls)
            )
            current = self._round(step.text, calls, "tool_use", behaviour)
            if any(call.result is None for call in calls):
                return Step(rounds=tuple(done), wanted=calls, waiting=current)
            done.append(current)
        await self._clock.sleep(behaviour.latency_ms / 1000)
        return self._final(tuple(done), behaviour)

    async def close(self) -> None:
        """Nothing to free."""

    def _final(self, done: tuple[Round, ...], behaviour: Behaviour) -> Step:
        ending = self._ending
        text = ending.text.replace("{known}", self._known)
        last = self._round(text, (), ending.end, behaviour)
        return Step(
            rounds=(*done, last),
            answer=text,
            action=ending.action,
            state=ending.state,
            end=ending.end,
            error="the script says so" if ending.end == "agent_error" else None,
        )

    def _round(
        self, text: str, calls: tuple[ToolCall, ...], stop_reason: str, behaviour: Behaviour
    ) -> Round:
        usage = behaviour.usage
        factor = 1 + usage.spread * (2 * self._rng.random() - 1)
        tokens = Usage(
            input_tokens=round((usage.input + usage.input_growth * self._asked) * factor),
            cache_write_5m_tokens=0,
            cache_write_1h_tokens=0,
            cache_read_tokens=0,
            output_tokens=round(usage.output * factor),
            thinking_tokens=0,
        )
        self._asked += 1
        return Round(
            text=text,
            tool_calls=calls,
            usage=tokens,
            stop_reason=stop_reason,
            served_model=self._served,
            latency_ms=behaviour.latency_ms,
        )


def _fault(fault: ScriptedFault) -> EndpointFault:
    message = f"the script lets this request fail: {fault.kind}"
    kinds: dict[str, type[EndpointFault]] = {
        "rate_limited": EndpointOverloaded,
        "overloaded": EndpointOverloaded,
        "unreachable": EndpointUnreachable,
        "authentication": EndpointRefused,
    }
    return kinds[fault.kind](
        message,
        kind=fault.kind,
        is_transient=fault.kind != "authentication",
        retry_after_s=fault.retry_after_s,
    )
