"""Claude Code's ``--output-format stream-json --verbose``, read into rounds.

Written after code.claude.com/docs (headless mode; Agent SDK: messages, cost tracking) and the
message parser of claude-agent-sdk-python (main), read in December 2026. docs/trajectory.md has
the mapping and what the stream does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping

from watchkeeper.adapters._anthropic.messages import read_usage
from watchkeeper.adapters._command.stream_faults import provider_fault
from watchkeeper.adapters._command.stream_rounds import (
    Json,
    OpenCall,
    OpenRound,
    booked,
    event_of,
    text_of,
    texts,
)
from watchkeeper.adapters._reported_format import Unreadable
from watchkeeper.domain.ports import Step, StepEnd
from watchkeeper.domain.trajectory import Round

# The CLI's own words in place of a response, such as an error of the interface.
_NOBODY = "<synthetic>"
_STATUS_OF_ERROR = {
    "account_on_hold": 403,
    "authentication_failed": 401,
    "billing_error": 402,
    "cloud_credential_error": 401,
    "model_not_found": 404,
    "oauth_org_not_allowed": 403,
    "overloaded": 529,
    "rate_limit": 429,
    "server_error": 500,
}
_ENDS: Mapping[str, StepEnd] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
}
_Key = tuple[str | None, str]


class ClaudeStream:
    """One turn of Claude Code; lines that share a ``message.id`` are one response."""

    def __init__(self, silent: frozenset[str] = frozenset()) -> None:
        self._silent = silent
        self._open: dict[_Key, OpenRound] = {}
        self._blocks: dict[_Key, list[object]] = {}
        self._calls: dict[str, OpenCall] = {}
        self._agents: dict[str, str] = {}
        self._last_ms: dict[str | None, float] = {None: 0.0}
        self._error_code: str | None = None
        self._error_text: str | None = None
        self._result: Json | None = None
        self._session_id: str | None = None

    @property
    def session_id(self) -> str | None:
        """The session's id, for ``--resume``."""
        return self._session_id

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far, in the order of their first lines."""
        return tuple(one.closed() for one in self._open.values())

    @property
    def round_count(self) -> int:
        """How many there are."""
        return len(self._open)

    def line(self, line: bytes, at_ms: float) -> None:
        """Takes a line; of kinds that it does not know it takes nothing."""
        event = event_of(line)
        if event is None:
            return
        kind = event.get("type")
        for found in texts(event, "session_id"):
            self._session_id = found[:200]
        if kind == "assistant":
            self._assistant(event, at_ms)
        elif kind == "user":
            self._user(event, at_ms)
        elif kind == "result":
            self._result = event
        elif kind == "system" and event.get("subtype") == "init":
            self._last_ms[None] = at_ms

    def step(self, at_ms: float) -> Step:  # noqa: ARG002 - the lines have their times
        """The finished turn."""
        result = self._result
        if result is None:
            if self._error_text is not None:
                self._raise_provider_fault(self._error_text, None)
                raise Unreadable(f"no result; the last error: {self._error_text}")
            raise Unreadable(f"no result after {self.round_count} rounds")
        rounds = booked(self.rounds, read_usage(result.get("usage")))
        cost = result.get("total_cost_usd")
        is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0
        answer = result.get("result")
        step = Step(
            rounds=rounds,
            answer=answer if isinstance(answer, str) else "",
            end="answered",
            cost_usd=float(cost) if is_cost else None,  # type: ignore[arg-type]
        )
        return self._ended(result, step)

    def _ended(self, result: Json, step: Step) -> Step:
        """How the turn ended, as its result says."""
        subtype = str(result.get("subtype", ""))
        is_error = result.get("is_error") is True or subtype != "success"
        stop = result.get("stop_reason")
        main = [one for one in step.rounds if one.agent is None]
        if not isinstance(stop, str) and main:
            stop = main[-1].stop_reason
        end = _ENDS.get(str(stop))
        if end is not None or (is_error and self._error_code == "max_output_tokens"):
            return _with_end(step, end or "truncated", None)
        if not is_error:
            return step
        status = result.get("api_error_status")
        if subtype == "success" or isinstance(status, int):
            said = step.answer or self._error_text or ""
            self._raise_provider_fault(said, status if isinstance(status, int) else None)
        errors = result.get("errors")
        listed = [str(one) for one in errors] if isinstance(errors, list) else []
        what = "; ".join(listed) or step.answer or self._error_text or "no text"
        name = subtype if subtype != "success" else "error"
        return _with_end(step, "agent_error", f"{name}: {what}")

    def _raise_provider_fault(self, text: str, status: int | None) -> None:
        """Raises the fault where it was the provider that failed."""
        code = status if status is not None else _STATUS_OF_ERROR.get(self._error_code or "")
        fault = provider_fault(text or (self._error_code or "error"), code)
        if fault is not None:
            raise fault

    def _assistant(self, event: Json, at_ms: float) -> None:
        message = event.get("message")
        if not isinstance(message, Mapping):
            return
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        for code in texts(event, "error"):
            self._error_code = code
        if message.get("model") == _NOBODY:
            self._error_text = text_of(blocks) or self._error_text
            return
        parent = event.get("parent_tool_use_id")
        agent = parent if isinstance(parent, str) and parent else None
        # A message without an id is a response of its own.
        named = texts(message, "id")
        key = (agent, named[0] if named else f"[{len(self._open)}]")
        one = self._open.get(key)
        if one is None:
            one = OpenRound(self._since(agent), at_ms, agent=self._name(agent))
            one.request_id = named[0][:200] if named else None
            self._open[key] = one
        one.ended_ms = self._last_ms[agent] = at_ms
        for model in texts(message, "model"):
            one.served_model = model[:200]
        for reason in texts(message, "stop_reason"):
            one.stop_reason = reason[:200]
        usage = read_usage(message.get("usage"))
        if (usage.output_tokens or 0) >= (one.usage.output_tokens or 0):
            one.usage = usage
        seen = self._blocks.setdefault(key, [])
        # Each line has the next blocks; some versions repeat those before.
        fresh = blocks[len(seen) :] if seen and blocks[: len(seen)] == seen else blocks
        seen.extend(fresh)
        for block in fresh:
            if isinstance(block, Mapping):
                self._block(one, block, at_ms)

    def _block(self, one: OpenRound, block: Json, at_ms: float) -> None:
        kind = str(block.get("type", ""))
        if kind == "text":
            one.texts.extend(texts(block, "text"))
        elif kind in {"tool_use", "server_tool_use", "mcp_tool_use"}:
            self._call(one, block, at_ms)
        elif kind.endswith("tool_result"):
            self._answer(block, at_ms)

    def _call(self, one: OpenRound, block: Json, at_ms: float) -> None:
        name = (texts(block, "name") or ["unnamed"])[0][:200]
        call_id = (texts(block, "id") or [f"call_{len(self._calls)}"])[0][:200]
        if call_id in self._calls:
            return
        given = block.get("input")
        arguments = dict(given) if isinstance(given, Mapping) else {}
        call = OpenCall(name, arguments, call_id, at_ms, name in self._silent)
        self._calls[call_id] = call
        one.calls.append(call)

    def _user(self, event: Json, at_ms: float) -> None:
        """The results of calls; what else a user's message holds is nobody's response."""
        message = event.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        for block in content if isinstance(content, list) else []:
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                self._answer(block, at_ms)
        parent = event.get("parent_tool_use_id")
        self._last_ms[parent if isinstance(parent, str) and parent else None] = at_ms

    def _answer(self, block: Json, at_ms: float) -> None:
        call = self._calls.get(str(block.get("tool_use_id")))
        if call is None:
            return
        content = block.get("content")
        is_error = block.get("is_error") is True
        if isinstance(content, Mapping):
            is_error = is_error or str(content.get("type", "")).endswith("_error")
        # A result without content is one that brought nothing, not one that never came.
        call.answer(text_of(content) or "", at_ms, is_error=is_error)

    def _since(self, agent: str | None) -> float:
        """When the response that begins now was asked for."""
        if agent in self._last_ms:
            return self._last_ms[agent]
        call = self._calls.get(agent or "")
        return call.began_ms if call is not None else self._last_ms[None]

    def _name(self, agent: str | None) -> str | None:
        """A sub-agent's name: what the call that started it names, numbered where it is taken."""
        if agent is None:
            return None
        if agent not in self._agents:
            call = self._calls.get(agent)
            given = texts(call.arguments, "subagent_type") if call is not None else []
            name = (given or [call.tool if call is not None else agent])[0][:180]
            taken = set(self._agents.values())
            number, fresh = 2, name
            while fresh in taken:
                number, fresh = number + 1, f"{name} #{number}"
            self._agents[agent] = fresh
        return self._agents[agent]


def _with_end(step: Step, end: StepEnd, error: str | None) -> Step:
    return Step(
        rounds=step.rounds, answer=step.answer, end=end, error=error, cost_usd=step.cost_usd
    )
