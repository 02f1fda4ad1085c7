"""What Slack's refusals mean, and what to do about them.

Nothing of the request and no text of the answer goes into a fault, only codes: the request holds
the token, and an answer may repeat it.
"""

from __future__ import annotations

import re
from urllib.error import URLError

from watchkeeper.errors import NotifierFault
from watchkeeper.notifiers.text import one_line, shorten

_ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{1,79}")
_RATE_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_TRANSIENT = frozenset(
    {"rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
_ABOUT_THE_TOKEN = frozenset(
    {"invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"}
)
_ABOUT_THE_CHANNEL = frozenset({"channel_not_found", "not_in_channel", "is_archived"})


def refusal(channel: str, status: int | None, data: object) -> NotifierFault:
    """The fault for an answer that was not ``ok``: its HTTP status and its body as parsed."""
    told = data.get("error") if isinstance(data, dict) else None
    code = told if isinstance(told, str) else ""
    if status == 429 or code in _RATE_LIMITED:
        return fault(channel, "rate_limited", "too many messages", is_transient=True)
    if not _ERROR_CODE.fullmatch(code):
        said = f"HTTP {status} with something that is not Slack's"
        return fault(channel, "bad_response", said, is_transient=True)
    is_transient = code in _TRANSIENT or (isinstance(status, int) and status >= 500)
    return fault(channel, code, "refused", is_transient=is_transient)


def unreachable(channel: str, error: Exception) -> NotifierFault:
    """The fault for a call without an answer; of the error only what failed is told."""
    cause = error.reason if isinstance(error, URLError) else error
    reason = cause.strerror if isinstance(cause, OSError) else None
    said = f"{type(cause).__name__}: {reason}" if reason else type(cause).__name__
    return fault(channel, "unreachable", said, is_transient=True)


def fault(channel: str, kind: str, said: str, *, is_transient: bool) -> NotifierFault:
    """A fault that says what to do about it."""
    if kind in _ABOUT_THE_TOKEN:
        advice = "put a valid bot token where slack.token of watchkeeper.yaml points"
    elif kind in _ABOUT_THE_CHANNEL:
        advice = "invite the bot, or correct slack_channel in owners.yaml"
    elif kind == "missing_scope":
        advice = "give the bot the scope chat:write"
    elif is_transient:
        advice = "it stays in the outbox and is tried again"
    else:
        advice = "it stays in the outbox until somebody has looked at it"
    return NotifierFault(
        f"Slack did not take the message for {shown_name(channel)}: {kind} ({said}); {advice}",
        kind=kind,
        is_transient=is_transient,
    )


def shown_name(text: str) -> str:
    """A name from configuration, harmless and not too long for a message."""
    return shorten(one_line(text), 200)
