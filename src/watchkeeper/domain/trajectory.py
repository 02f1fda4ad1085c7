"""What an agent did, step by step, and how rounds are counted.

A round is one model response with the tool calls it makes and their results. A retried request
is not a round. A barren round has tool calls, and every result that counts is empty, an error or
a path that does not exist.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields
from http import HTTPStatus
from typing import Literal

CallStatus = Literal["ok", "empty", "error", "missing_path", "unanswered"]

_EMPTY_TEXTS = frozenset({"", "[]", "{}", "null", "none", '""', "''", "()"})
_SAYS_NOTHING = re.compile(
    r"(?:no|0|zero) (?:\w+ )?"
    r"(?:matches|results|files|entries|hits|rows|records|documents|items|occurrences)"
    r"(?: (?:were )?(?:found|returned))?(?: (?:for|in|matching|with|that)\b.*)?[.!]?"
    r"|\(?(?:[\w.-]+ ){0,5}(?:with no|without(?: any)?|did not produce any) output(?: or errors?)?"
    r"[.]?\)?"
    r"|[(<\[]no (?:output|content|results?)[)>\]]",
    re.IGNORECASE,
)
_MISSING_PATH = re.compile(
    r"no such file|no such directory|\benoent\b|filenotfounderror"
    r"|(?:cannot|can't|could not|unable to) (?:find|locate) (?:the )?"
    r"(?:file|path|directory|folder)\b"
    r"|\b(?:file|path|directory|folder)\b[^\n]{0,200}"
    r"\b(?:does not exist|doesn't exist|not found|could not be found)\b",
    re.IGNORECASE,
)
_TRACEBACK = "Traceback (most recent call last)"
_ERROR_LINE = re.compile(
    r"(?:[a-z]+ )?error ?:(?! *[-+.]?\d)|[a-z_.]+error:|[a-z_.]*exception:|fatal:|panic:"
    r"|error (?:executing|calling|running|invoking|reading|opening|while|during)\b"
    r"|(?:http(?:/[\d.]+)?|error:?|status(?: code)?:?) (?:error )?[45]\d\d\b"
    r"|\S*sh: .*\bnot found\b"
    r"|\S+: .*\b(?:command not found|permission denied|is a directory|not a directory)[.]?$",
    re.IGNORECASE,
)
_STATUS_LINE = re.compile(r"([45]\d\d):? (.+)")
_STATUS_PAGE = re.compile(r"<title>\s*[45]\d\d\b", re.IGNORECASE)
_QUOTED_LINE = re.compile(r"\s*(?:[^\s:]+[:-])?\d+[:\t|→-]")
_ERROR_KEYS = frozenset(
    {"error", "errors", "code", "status", "success", "ok", "message", "detail", "details"}
    | {"type", "is_error", "request_id"}
)
_HEAD_CHARACTERS = 400
_OBJECT_CHARACTERS = 10_000


def call_status(result: str | None, *, is_error: bool = False) -> CallStatus:
    """What a tool call brought back; docs/trajectory.md has the rules in words.

    Args:
        result: The text that the model was shown; ``None`` where no result was ever given.
        is_error: Whether the tool raised or its result was flagged as an error.

    Returns:
        ``missing_path`` wherever an error, or the first line of a short result, says that a path
        does not exist.
    """
    if result is None:
        return "error" if is_error else "unanswered"
    text = result.strip()
    is_short = len(text) <= _HEAD_CHARACTERS
    if is_error or _is_error_text(text):
        shown = (text[:_HEAD_CHARACTERS], text.rpartition("\n")[2][:_HEAD_CHARACTERS])
        return "missing_path" if any(map(_MISSING_PATH.search, shown)) else "error"
    if not is_short:
        return "ok"
    if text.lower() in _EMPTY_TEXTS or _SAYS_NOTHING.fullmatch(text):
        return "empty"
    first = text.partition("\n")[0]
    if _is_status_line(first) or _STATUS_PAGE.search(text):
        return "error"
    if _QUOTED_LINE.match(first):
        return "ok"
    if _MISSING_PATH.search(first):
        return "missing_path"
    return "error" if _ERROR_LINE.match(first) else "ok"


def _is_error_text(text: str) -> bool:
    """Whether a result is nothing but an error, however long: a traceback, an error object."""
    if text.startswith(_TRACEBACK):
        return True
    if not (text.startswith("{") and len(text) <= _OBJECT_CHARACTERS and '"error' in text):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    says_so = isinstance(value, dict) and (value.get("error") or value.get("errors"))
    return bool(says_so) and _ERROR_KEYS.issuperset(value)


def _is_status_line(line: str) -> bool:
    """Whether a line is a failed status of HTTP with its reason, such as ``404 Not Found``."""
    found = _STATUS_LINE.match(line)
    return found is not None and found[2].strip().lower().startswith(_reasons(found[1]))


def _reasons(code: str) -> tuple[str, ...]:
    """How a status of HTTP is said in words."""
    general = ("client error", "server error")
    try:
        return (*general, HTTPStatus(int(code)).phrase.lower())
    except ValueError:
        return general


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens by class, each counted once; ``None`` means that the provider did not say."""

    input_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    cache_read_tokens: int | None = None
    output_tokens: int | None = None
    thinking_tokens: int | None = None

    def plus(self, other: Usage) -> Usage:
        """The sum, class by class; a class that one side does not know is unknown in the sum."""
        return Usage(
            *(
                None if mine is None or theirs is None else mine + theirs
                for mine, theirs in zip(self.counts(), other.counts(), strict=True)
            )
        )

    def counts(self) -> tuple[int | None, ...]:
        """The six counts in the order of the fields."""
        return tuple(getattr(self, item.name) for item in fields(self))

    @property
    def total_tokens(self) -> int | None:
        """Input of every kind plus output; thinking tokens are part of the output.

        Unknown where input or output is unknown; an unknown cache class counts as not used.
        """
        if self.input_tokens is None or self.output_tokens is None:
            return None
        caches = (self.cache_write_5m_tokens, self.cache_write_1h_tokens, self.cache_read_tokens)
        return self.input_tokens + self.output_tokens + sum(count or 0 for count in caches)


ZERO_USAGE = Usage(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool with what came back.

    ``is_error`` says that the model was shown the result as an error; it is not stored, because
    ``status`` says what the result was worth.
    """

    tool: str
    arguments: dict[str, object] = field(default_factory=dict)
    result: str | None = None
    status: CallStatus = "unanswered"
    call_id: str = ""
    is_silent: bool = False
    latency_ms: float | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One model response, its tool calls and their results.

    ``first_token_ms`` is the time to the first piece of a streamed response; ``agent`` names the
    sub-agent whose response it is, ``None`` the agent itself.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: str = ""
    served_model: str | None = None
    latency_ms: float | None = None
    request_id: str | None = None
    first_token_ms: float | None = None
    agent: str | None = None

    @property
    def counting_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls whose results count: those of tools that were not declared silent."""
        return tuple(call for call in self.tool_calls if not call.is_silent)

    @property
    def is_barren(self) -> bool:
        """Whether every tool result that counts brought nothing.

        A tool that was declared silent never counts; a round without counting calls is not barren.
        """
        counting = self.counting_calls
        return bool(counting) and all(call.status != "ok" for call in counting)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The steps of one trial and what the agent finally said, did and left behind.

    ``action`` is a named outcome that the agent reported (``ask_clarification``); ``state`` is
    what is true afterwards, where the endpoint reports it.
    """

    rounds: tuple[Round, ...] = ()
    answer: str = ""
    action: str | None = None
    state: dict[str, object] | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Every tool call in the order in which it was asked for."""
        return tuple(call for one in self.rounds for call in one.tool_calls)

    @property
    def barren_round_count(self) -> int:
        """How many rounds brought nothing."""
        return sum(one.is_barren for one in self.rounds)

    @property
    def usage(self) -> Usage:
        """Tokens of all rounds; a class that one round does not know is unknown."""
        total = ZERO_USAGE
        for one in self.rounds:
            total = total.plus(one.usage)
        return total

    @property
    def served_models(self) -> tuple[str, ...]:
        """The models that answered, each once, in the order of their first answer."""
        return tuple(dict.fromkeys(one.served_model for one in self.rounds if one.served_model))
