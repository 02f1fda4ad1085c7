"""The models that a server lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from watchkeeper.adapters._model.faults import Faults
from watchkeeper.adapters._model.json import Json, Unreadable, mapping, read_object, text_at
from watchkeeper.adapters._model.requests import Line, sent, whole
from watchkeeper.clock import SystemClock
from watchkeeper.domain.endpoint import ListedModel

MAX_PAGES = 20


async def listed_models(
    ask: Callable[[str | None], Awaitable[Any]],
    identity: Callable[[Json], Mapping[str, Any]],
    line: Line,
    faults: Faults,
    seconds: float,
) -> list[ListedModel]:
    """Every model that the server lists.

    Args:
        ask: Gives the page behind an id, or the first one.
        identity: Age and lifecycle from a model's entry, by the names of ``ListedModel``.
        line: A connected SDK.
        faults: Names what goes wrong.
        seconds: Deadline of one page.

    Raises:
        EndpointFault: The server could not be reached, refused the key, or lists too much.
    """
    found: list[ListedModel] = []
    after: str | None = None
    for _ in range(MAX_PAGES):
        answer = await sent(ask(after), line, faults, seconds, SystemClock(), whole)
        try:
            page = read_object(answer.content)
            entries = _entries(page)
        except Unreadable as error:
            raise faults.unreadable(answer.status_code, answer.content, str(error)) from error
        for entry in entries:
            name = text_at(entry.get("id"))
            if name is not None:
                found.append(ListedModel(name=name, **identity(entry)))
        last = text_at(page.get("last_id"))
        if page.get("has_more") is not True or last is None or last == after:
            return found
        after = last
    what = f"it lists models on more than {MAX_PAGES} pages"
    raise faults.unreachable("bad_response", what, is_transient=False)


def _entries(page: Json) -> list[Json]:
    entries = page.get("data")
    if not isinstance(entries, list) or any(not isinstance(one, Mapping) for one in entries):
        raise Unreadable("no list of models in it")
    return [dict(mapping(one)) for one in entries]
