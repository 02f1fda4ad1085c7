"""Codex's ``exec --json``, read into rounds.

Written after openai/codex (its page on exec; exec_events.rs and the JSONL output of codex-rs/exec;
issues 17539 and 19022 on what its usage counts), read in December 2026. The stream has items and
no responses: docs/trajectory.md has the rule that makes rounds of them, and what cannot be seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from watchkeeper.adapters._command.stream_faults import provider_fault
from watchkeeper.adapters._command.stream_rounds import (
    Json,
    OpenCall,
    OpenRound,
    booked,
    count_of,
    event_of,
    text_of,
    texts,
)
from watchkeeper.adapters._reported_format import Unreadable
from watchkeeper.domain.ports import Step
from watchkeeper.domain.trajectory import Round, Usage

_CALLS = frozenset(
    {"collab_tool_call", "command_execution", "file_change", "mcp_tool_call", "web_search"}
)
_FAILED = frozenset({"declined", "failed"})
_REROUTED = re.compile(r"model rerouted: \S+ -> (\S+)")


class CodexStream:
    """One turn of Codex.

    Args:
        silent: Tools whose calls never count towards barren rounds.
        before: The tokens of the thread before this turn: Codex counts them from its beginning.
    """

    def __init__(self, silent: frozenset[str] = frozenset(), before: Usage | None = None) -> None:
        self._silent = silent
        self._before = before
        self._open: list[OpenRound] = []
        self._calls: dict[str, OpenCall] = {}
        self._answer = ""
        self._last_ms = 0.0
        self._served: str | None = None
        self._total: Usage | None = None
        self._is_completed = False
        self._failure: str | None = None
        self._last_error: str | None = None
        self._session_id: str | None = None

    @property
    def session_id(self) -> str | None:
        """The thread's id, for ``exec resume``."""
        return self._session_id

    @property
    def total(self) -> Usage | None:
        """The tokens of the thread so far, as Codex counts them."""
        return self._total

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far."""
        return tuple(one.closed() for one in self._open)

    @property
    def round_count(self) -> int:
        """How many there are."""
        return len(self._open)

    def line(self, line: bytes, at_ms: float) -> None:
        """Takes a line; of kinds that it does not know it takes nothing."""
        event = event_of(line)
        if event is None:
            return
        kind = str(event.get("type"))
        item = event.get("item")
        if kind in {"item.started", "item.updated", "item.completed"} and isinstance(item, Mapping):
            self._last_error = None
            self._item(kind, item, at_ms)
        elif kind == "thread.started":
            for found in texts(event, "thread_id"):
                self._session_id = found[:200]
        elif kind == "turn.started":
            self._last_ms = at_ms
        elif kind == "turn.completed":
            self._is_completed = True
            self._total = _usage(event.get("usage"))
        elif kind == "turn.failed":
            error = event.get("error")
            said = texts(error, "message") if isinstance(error, Mapping) else []
            self._failure = (said or ["turn failed"])[0]
        elif kind == "error":
            # Also said of a request that is then repeated, which is not a round; an item after it
            # shows that it was.
            self._last_error = (texts(event, "message") or [self._last_error or "error"])[0]

    def step(self, at_ms: float) -> Step:  # noqa: ARG002 - the lines have their times
        """The finished turn."""
        if self._is_completed:
            rounds = self.rounds
            if self._total is not None:
                rounds = booked(rounds, _since(self._total, self._before))
            return Step(rounds=rounds, answer=self._answer, end="answered")
        failure = self._failure or self._last_error
        if failure is None:
            raise Unreadable(f"no end of the turn after {self.round_count} rounds")
        fault = provider_fault(failure)
        if fault is not None:
            raise fault
        return Step(rounds=self.rounds, answer=self._answer, end="agent_error", error=failure)

    def _item(self, kind: str, item: Json, at_ms: float) -> None:
        sort = str(item.get("type"))
        if sort in {"agent_message", "plan"}:
            if kind == "item.completed":
                self._said("".join(texts(item, "text")), at_ms)
        elif sort == "reasoning":
            if kind == "item.completed":
                self._current(at_ms, is_new=bool(self._open and self._open[-1].calls))
        elif sort == "todo_list":
            # Each time the plan is written is a call; its completion is only the turn's end.
            if kind != "item.completed":
                self._begun(f"todo_{len(self._calls)}", item, at_ms, is_silent=True)
        elif sort == "error":
            found = _REROUTED.search("".join(texts(item, "message")))
            if found:
                self._served = found[1][:200]
        elif sort in _CALLS:
            self._call(kind, item, at_ms)

    def _said(self, text: str, at_ms: float) -> None:
        one = self._current(at_ms, is_new=bool(self._open and self._open[-1].calls))
        one.texts.append(text if not one.texts else f"\n{text}")
        self._answer = text

    def _call(self, kind: str, item: Json, at_ms: float) -> None:
        item_id = (texts(item, "id") or [f"item_{len(self._calls)}"])[0][:200]
        call = self._calls.get(item_id)
        if call is None:
            is_silent = item.get("type") == "web_search"  # its results are not in the stream
            call = self._begun(item_id, item, at_ms, is_silent=is_silent)
        if kind == "item.completed":
            call.arguments = _arguments(item)
            result, is_error = _result(item)
            call.answer(result, at_ms, is_error=is_error)
            self._last_ms = at_ms

    def _begun(self, call_id: str, item: Json, at_ms: float, *, is_silent: bool) -> OpenCall:
        """A call that begins, in the round whose calls are still open, or in one of its own."""
        last = self._open[-1] if self._open else None
        is_new = last is not None and bool(last.calls) and not any(c.is_open for c in last.calls)
        one = self._current(at_ms, is_new=is_new)
        tool = _tool(item)
        call = OpenCall(tool, _arguments(item), call_id, at_ms, is_silent or tool in self._silent)
        if item.get("type") == "todo_list":
            call.answer("", at_ms, is_error=False)
        self._calls[call_id] = call
        one.calls.append(call)
        return call

    def _current(self, at_ms: float, *, is_new: bool) -> OpenRound:
        """The round that something belongs to; its response ends with the last of it."""
        if is_new or not self._open:
            self._open.append(OpenRound(self._last_ms, at_ms, served_model=self._served))
        one = self._open[-1]
        one.ended_ms = self._last_ms = at_ms
        return one


def _tool(item: Json) -> str:
    sort = str(item.get("type"))
    if sort == "mcp_tool_call":
        return f"mcp__{item.get('server')}__{item.get('tool')}"[:200]
    if sort == "collab_tool_call":
        return (texts(item, "tool") or [sort])[0][:200]
    return sort


def _arguments(item: Json) -> dict[str, object]:
    given = item.get("arguments")
    if isinstance(given, Mapping):
        return dict(given)
    names = ("command", "changes", "query", "items", "prompt", "receiver_thread_ids")
    return {name: item[name] for name in names if item.get(name) is not None}


def _result(item: Json) -> tuple[str | None, bool]:
    """What a call brought, and whether it is an error."""
    sort, status = item.get("type"), str(item.get("status") or "")
    is_failed = status in _FAILED
    if sort == "command_execution":
        code = item.get("exit_code")
        output = item.get("aggregated_output")
        return (output if isinstance(output, str) else ""), is_failed or not (
            code is None or code == 0
        )
    if sort == "mcp_tool_call":
        error = item.get("error")
        if isinstance(error, Mapping):
            return (texts(error, "message") or [""])[0], True
        result = item.get("result")
        content = result.get("content") if isinstance(result, Mapping) else None
        return text_of(content) or "", is_failed
    if sort == "web_search":
        return None, False
    if sort == "collab_tool_call" and item.get("agents_states"):
        return json.dumps(item["agents_states"], ensure_ascii=False), is_failed
    return status, is_failed


def _usage(usage: object) -> Usage | None:
    """Codex's counts by class: cached and written tokens are part of its input."""
    if not isinstance(usage, Mapping):
        return None
    whole = count_of(usage.get("input_tokens"))
    read = count_of(usage.get("cached_input_tokens"))
    written = count_of(usage.get("cache_write_input_tokens"))
    apart = None if whole is None else max(whole - (read or 0) - (written or 0), 0)
    return Usage(
        input_tokens=apart,
        cache_write_5m_tokens=written or 0,
        cache_write_1h_tokens=0,
        cache_read_tokens=read,
        output_tokens=count_of(usage.get("output_tokens")),
        thinking_tokens=count_of(usage.get("reasoning_output_tokens")),
    )


def _since(total: Usage, before: Usage | None) -> Usage:
    """What came since: the difference, unless the count began anew."""
    if before is None:
        return total
    pairs = list(zip(total.counts(), before.counts(), strict=True))
    if any(now is not None and then is not None and now < then for now, then in pairs):
        return total
    return Usage(*(None if now is None else now - (then or 0) for now, then in pairs))
