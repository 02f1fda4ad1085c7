"""Runs a team's callable in a process of its own, for one trial.

This file is a program: ``_python.session`` starts it by its path. It needs nothing but the standard
library (Python 3.8 or newer), and nothing of Watchkeeper's can be imported by a short name here.

Lines of JSON come on standard input: first ``{"callable", "folders"}``, then a turn each. Lines go
out on what was standard output; what the callable prints goes to standard error. Back go
``{"loaded"}`` or ``{"broken"}``, then for every turn any number of ``{"event"}`` and one of
``{"value"}``, ``{"events_end"}`` and ``{"raised"}``.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

_SHOWN_CHARACTERS = 2_000


class NotJson(TypeError):
    """What the callable returned cannot be written down."""


class Wire:
    """Lines in and out, on descriptors that the callable does not meet."""

    def __init__(self) -> None:
        self._incoming = os.fdopen(os.dup(0), "rb")
        self._outgoing = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def turns(self) -> Iterator[dict[str, Any]]:
        """What comes, until the other side hangs up."""
        for line in self._incoming:
            yield json.loads(line)

    def say(self, kind: str, value: object) -> None:
        """One line; raises NotJson."""
        try:
            line = json.dumps({kind: value}, default=_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise NotJson(f"returned what is no text and no JSON: {error}") from error
        self._outgoing.write(line.encode() + b"\n")
        self._outgoing.flush()


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever a foreign callable returns
    """Pydantic's models and dataclasses as mappings."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    raise TypeError(f"an object of type {type(value).__name__}")


def main() -> None:
    """Imports, then answers turn after turn until the other side hangs up."""
    wire = Wire()
    turns = wire.turns()
    order = next(turns, None)
    if order is None:
        return
    sys.path[:0] = order["folders"]
    try:
        function = _found(order["callable"])
    except BaseException as error:  # noqa: BLE001 - whatever a foreign module does
        wire.say("broken", _told(error))
        return
    wire.say("loaded", True)
    # One loop for the whole trial: what a turn opens there is still open in the next.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    for turn in turns:
        try:
            _answer(wire, loop, function, turn)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like are told as well
            wire.say("raised", _told(error))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _found(reference: str) -> Callable[..., Any]:
    module_name, _, path = reference.partition(":")
    found = importlib.import_module(module_name)
    for name in path.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{reference} is a {type(found).__name__}, which cannot be called")
    _arguments(found, dict.fromkeys(FIELDS))
    return found


# What a turn holds; a callable names those that it wants, or takes the whole as one mapping.
FIELDS = (
    "input",
    "parts",
    "attachments",
    "messages",
    "turn_number",
    "workspace",
    "trial_id",
    "case_id",
    "seed",
    "model",
    "limits",
)


def _arguments(
    function: Callable[..., Any], turn: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How the callable wants to be given a turn: positional and named arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return (turn,), {}
    named = [one for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    known = {one.name: turn[one.name] for one in named if one.name in turn}
    needed = [
        one
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    ]
    if all(one.name in known for one in needed) and (known or takes_all):
        return (), dict(turn) if takes_all else known
    if len(needed) == 1 and needed[0].kind is not needed[0].KEYWORD_ONLY:
        return (turn,), {}
    unknown = ", ".join(one.name for one in needed if one.name not in known) or "no argument"
    raise TypeError(f"asks for {unknown}; expected one argument, or some of: {', '.join(FIELDS)}")


def _answer(
    wire: Wire,
    loop: asyncio.AbstractEventLoop,
    function: Callable[..., Any],
    turn: dict[str, Any],
) -> None:
    positional, named = _arguments(function, turn)
    value = function(*positional, **named)
    if inspect.isawaitable(value):
        value = loop.run_until_complete(_awaited(value))
    if hasattr(value, "__anext__"):
        loop.run_until_complete(_told_as_it_comes(wire, value))
    elif inspect.isgenerator(value):
        for event in value:
            wire.say("event", event)
    else:
        wire.say("value", value)
        return
    wire.say("events_end", True)


async def _awaited(value: Awaitable[Any]) -> Any:  # noqa: ANN401 - as above
    return await value


async def _told_as_it_comes(wire: Wire, events: AsyncIterator[Any]) -> None:
    async for event in events:
        wire.say("event", event)


def _told(error: BaseException) -> dict[str, object]:
    """An error as it is told: its last line, where it was raised, and an HTTP status of it."""
    # What the team's own error is called says more than where this file called it.
    last = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    frames = [one for one in frames if not one.filename.startswith("<frozen importlib")]
    place = f"{frames[-1].filename.rpartition(os.sep)[2]}:{frames[-1].lineno}" if frames else ""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        status = getattr(getattr(error, "response", None), "status_code", None)
    traceback.print_exception(type(error), error, error.__traceback__)
    return {
        "error": last[:_SHOWN_CHARACTERS],
        "place": place,
        "status": status if isinstance(status, int) else None,
    }


if __name__ == "__main__":
    main()
