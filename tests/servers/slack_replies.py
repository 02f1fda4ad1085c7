"""How Slack says no: refusals, rate limits, silence, and what it will not show in a message."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.servers.loopback import DROPPED, Reply


def refused(error: str, **more: object) -> Reply:
    """`ok: false` with HTTP 200, as Slack says no."""
    return Reply.json({"ok": False, "error": error, **more})


def rate_limited(retry_after: int = 1) -> Reply:
    """429 with `Retry-After` in whole seconds."""
    return Reply.json(
        {"ok": False, "error": "ratelimited"}, status=429, retry_after=f"{retry_after}"
    )


def server_error(status: int = 500) -> Reply:
    """A 5xx with the page that Slack's edge shows."""
    return Reply(
        status=status,
        body=b"<html><body>Server Error</body></html>",
        headers={"content-type": "text/html; charset=utf-8"},
    )


def hang(seconds: float) -> Reply:
    """No answer for so long, then the connection ends."""
    return DROPPED.after(seconds)


def dropped() -> Reply:
    """The connection closed without an answer."""
    return DROPPED


def faults_of(body: Mapping[str, Any]) -> Reply | None:
    """Slack's refusal of a message's text and blocks; None when it would take them."""
    blocks = body.get("blocks")
    text = body.get("text")
    if not blocks and not text:
        return refused("no_text")
    if isinstance(text, str) and len(text) > 40_000:
        return refused("msg_too_long")
    if not blocks:
        return None
    if not isinstance(blocks, list):
        return refused("invalid_blocks_format")
    wrong = list(_wrong_with(blocks))
    if not wrong:
        return None
    return refused(
        "invalid_blocks",
        errors=wrong,
        response_metadata={"messages": [f"[ERROR] {line}" for line in wrong]},
    )


def _wrong_with(blocks: Sequence[Any]) -> Iterable[str]:
    if len(blocks) > 50:
        yield "no more than 50 items allowed [json-pointer:/blocks]"
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        at = f"/blocks/{index}"
        check = _CHECKS.get(block.get("type", "")) if isinstance(block, dict) else None
        if check is None:
            yield f"unsupported type [json-pointer:{at}/type]"
            continue
        block_id = block.get("block_id")
        if block_id is not None:
            yield from _length({"text": block_id}, 255, f"{at}/block_id")
            if block_id in seen:
                yield f"`block_id` already exists [json-pointer:{at}/block_id]"
            seen.add(block_id)
        yield from check(block, at)


def _section(block: Mapping[str, Any], at: str) -> Iterable[str]:
    if "text" not in block and "fields" not in block:
        yield f"missing required field: text [json-pointer:{at}]"
    if "text" in block:
        yield from _text(block["text"], 3000, f"{at}/text")
    fields = block.get("fields", [])
    if len(fields) > 10:
        yield f"no more than 10 items allowed [json-pointer:{at}/fields]"
    for index, field in enumerate(fields):
        yield from _text(field, 2000, f"{at}/fields/{index}")


def _header(block: Mapping[str, Any], at: str) -> Iterable[str]:
    yield from _text(block.get("text"), 150, f"{at}/text", kinds=("plain_text",))


def _context(block: Mapping[str, Any], at: str) -> Iterable[str]:
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= 10:
        yield f"between 1 and 10 items allowed [json-pointer:{at}/elements]"
    for index, element in enumerate(elements):
        if element.get("type") != "image":
            yield from _text(element, 3000, f"{at}/elements/{index}")


def _actions(block: Mapping[str, Any], at: str) -> Iterable[str]:
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= 25:
        yield f"between 1 and 25 items allowed [json-pointer:{at}/elements]"
    for index, element in enumerate(elements):
        here = f"{at}/elements/{index}"
        if element.get("type") == "button":
            yield from _text(element.get("text"), 75, f"{here}/text", kinds=("plain_text",))
            yield from _length({"text": element.get("url", "x")}, 3000, f"{here}/url")
            yield from _length({"text": element.get("value", "x")}, 2000, f"{here}/value")


def _anything(block: Mapping[str, Any], at: str) -> Iterable[str]:
    del block, at
    return ()


def _text(
    value: object, limit: int, at: str, *, kinds: Sequence[str] = ("mrkdwn", "plain_text")
) -> Iterable[str]:
    if not isinstance(value, dict) or value.get("type") not in kinds:
        yield f"must be a valid enum value: {' or '.join(kinds)} [json-pointer:{at}/type]"
        return
    yield from _length(value, limit, f"{at}/text")


def _length(value: Mapping[str, Any], limit: int, at: str) -> Iterable[str]:
    text = value.get("text")
    if not isinstance(text, str) or not text:
        yield f"must be more than 0 characters [json-pointer:{at}]"
    elif len(text) > limit:
        yield f"must be less than {limit + 1} characters [json-pointer:{at}]"


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], str], Iterable[str]]] = {
    "section": _section,
    "header": _header,
    "context": _context,
    "actions": _actions,
    "divider": _anything,
    "rich_text": _anything,
    "image": _anything,
}
