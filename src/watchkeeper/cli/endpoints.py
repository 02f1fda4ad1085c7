"""What endpoints serve now, and whether it is what they served when they were seen last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from watchkeeper.cli.context import run_async

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context
    from watchkeeper.pipeline.steps.watching import Seen


def endpoints(context: Context, *, is_check: bool, as_json: bool) -> int:
    """Shows what is requested and what is served now; the exit code.

    Args:
        context: The project.
        is_check: Whether it is held against what was seen last, and kept where it is new.
        as_json: Whether it is shown as JSON.

    Returns:
        2 where a key is not set, 3 where an endpoint cannot be asked, 4 where one has changed.
    """
    from watchkeeper.pipeline.watch import check, look

    services = context.services()
    found = run_async(check(services) if is_check else look(services))
    if as_json:
        print(
            json.dumps([_row(seen, is_check=is_check) for seen in found.seen], ensure_ascii=False)
        )
    else:
        for seen in found.seen:
            _show(seen, is_check=is_check)
    return found.exit_code


def _row(seen: Seen, *, is_check: bool) -> dict[str, object]:
    from watchkeeper.store.payloads import to_json

    row: dict[str, object] = {"endpoint": seen.endpoint.name, "kind": seen.endpoint.kind}
    if seen.served is not None:
        row.update(to_json(seen.served))
    row["error"] = str(seen.trouble) if seen.trouble is not None else None
    if is_check:
        sighting = seen.sighting
        row["is_changed"] = seen.is_changed
        row["since"] = sighting.seen_at.isoformat() if sighting is not None else None
        changes = sighting.changes if sighting is not None and seen.is_new else ()
        row["changes"] = [to_json(change) for change in changes]
    return row


def _show(seen: Seen, *, is_check: bool) -> None:
    from watchkeeper.notifiers.text import one_line

    name, served = seen.endpoint.name, seen.served
    if served is None:
        print(one_line(f"{name}: {seen.trouble}"))
    else:
        asked = served.requested_model or "the endpoint's own model"
        print(one_line(f"{name}: {asked} → {served.resolved_model or 'not verifiable'}"))
        told = {
            "lifecycle": served.lifecycle,
            "retires at": served.retires_at and f"{served.retires_at:%Y-%m-%d}",
            "harness revision": served.harness_revision,
            "note": served.note,
        }
        for what, value in told.items():
            if value:
                print(one_line(f"  {what}: {value}"))
    if is_check and seen.sighting is not None:
        for line in _against_last(seen):
            print(one_line(f"  {line}"))


def _against_last(seen: Seen) -> list[str]:
    sighting = seen.sighting
    assert sighting is not None  # noqa: S101 - the caller has looked
    if seen.is_changed:
        return [f"CHANGED {one.what}: {one.before} → {one.after}" for one in sighting.changes]
    if seen.is_new:
        return ["seen for the first time" if sighting.number == 1 else "more is known than before"]
    if seen.served is None:
        return [f"seen last as {sighting.resolved_model or 'not verifiable'}"]
    return [f"the same since {sighting.seen_at:%Y-%m-%d %H:%M} UTC"]
