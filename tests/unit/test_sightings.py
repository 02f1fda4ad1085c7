"""What counts as a change of an endpoint, and how sightings are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.sighting import Sighting, next_sighting
from watchkeeper.errors import RecordUnreadable
from watchkeeper.notifiers.retirement import is_due, retirement_message
from watchkeeper.store.objects import open_objects
from watchkeeper.store.sightings import Sightings

AT = datetime(2026, 3, 2, tzinfo=UTC)
RETIRES = datetime(2026, 4, 1, tzinfo=UTC)
SEEN = ServedIdentity("alias", "model-v1", lifecycle="active", harness_revision="abc")


def following(*seen: ServedIdentity) -> list[Sighting]:
    """The sightings that a row of looks leaves."""
    row: list[Sighting] = []
    for number, one in enumerate(seen):
        found = next_sighting("agent", row[-1] if row else None, one, AT + timedelta(hours=number))
        if found is not None:
            row.append(found)
    return row


def changes(*seen: ServedIdentity) -> list[str]:
    """What the last sighting says has changed."""
    return [f"{one.what}: {one.before} → {one.after}" for one in following(*seen)[-1].changes]


def test_first_sight_and_same_sight_are_no_change() -> None:
    """One sighting is kept, and it changes nothing."""
    (only,) = following(SEEN, SEEN, replace(SEEN, note="other words"))
    assert (only.number, only.changes, only.wants_evaluation) == (1, (), False)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (replace(SEEN, resolved_model="model-v2"), "served model: model-v1 → model-v2"),
        (replace(SEEN, requested_model="other"), "requested model: alias → other"),
        (replace(SEEN, lifecycle="deprecated"), "lifecycle: active → deprecated"),
        (replace(SEEN, harness_revision="abc+dirty"), "harness revision: abc → abc+dirty"),
    ],
)
def test_what_wants_an_evaluation(seen: ServedIdentity, said: str) -> None:
    """Model, request, life cycle and harness each do."""
    assert changes(SEEN, seen) == [said]
    assert following(SEEN, seen)[-1].wants_evaluation


def test_a_date_alone_is_a_change_without_an_evaluation() -> None:
    """A retirement that is announced or withdrawn changes no answer."""
    dated = replace(SEEN, retires_at=RETIRES)
    row = following(SEEN, dated, SEEN)
    assert [[one.after for one in sighting.changes] for sighting in row[1:]] == [
        ["2026-04-01"],
        ["unknown"],
    ]
    assert not any(one.wants_evaluation for one in row)


def test_not_to_be_told_is_no_change() -> None:
    """A provider that is silent for once has changed nothing, and hides no change either."""
    silent = ServedIdentity("alias", None, note="not listed")
    moved = replace(SEEN, resolved_model="model-v2")
    assert len(following(SEEN, silent, SEEN)) == 1
    assert changes(SEEN, silent, moved) == ["served model: model-v1 → model-v2"]
    assert changes(silent, SEEN) == []


def test_there_and_back_are_two_changes_with_ids_of_their_own() -> None:
    """A model that returns is a change again; two who see the same have the same id."""
    moved = replace(SEEN, resolved_model="model-v2")
    row = following(SEEN, moved, SEEN, moved)
    assert len({one.id for one in row}) == 4
    assert replace(row[1], seen_at=AT).id == row[1].id


def test_store_keeps_every_sighting_and_the_first_of_equals(tmp_path: Path) -> None:
    """The newest is found by its number, and what was stored first holds."""
    sightings = Sightings(open_objects("file:./store", root=tmp_path))
    assert sightings.last("agent") is None
    row = following(SEEN, *(replace(SEEN, resolved_model=f"model-{n}") for n in range(12)))
    for one in row:
        sightings.put(one)
    later = replace(row[-1], seen_at=AT + timedelta(days=9))
    assert sightings.put(later) == row[-1] == sightings.last("agent")
    assert sightings.find("agent", row[3].id) == row[3]
    assert sightings.find("agent", "0" * 20) is None
    assert sightings.last("agent-two") is None
    assert not sightings.is_announced(row[-1])
    sightings.put_announced(row[-1], AT)
    assert [sightings.is_announced(one) for one in row[-2:]] == [False, True]


def test_damaged_sighting_says_what_to_do(tmp_path: Path) -> None:
    """It is named, and nothing is guessed."""
    objects = open_objects("file:./store", root=tmp_path)
    objects.put("sightings/agent/000001-x.json", b"{")
    with pytest.raises(RecordUnreadable, match=r"000001-x\.json is not JSON"):
        Sightings(objects).last("agent")


@pytest.mark.parametrize(
    ("served", "days", "due"),
    [
        (SEEN, 30, False),
        (replace(SEEN, retires_at=AT + timedelta(days=31)), 30, False),
        (replace(SEEN, retires_at=AT + timedelta(days=30)), 30, True),
        (replace(SEEN, retires_at=AT - timedelta(days=1)), 0, True),
        (replace(SEEN, lifecycle="deprecated"), 30, False),
        (replace(SEEN, lifecycle="retired"), 0, True),
    ],
)
def test_when_a_retirement_is_told(served: ServedIdentity, days: int, due: bool) -> None:
    """Within the declared days, and always once it has happened."""
    assert is_due(served, AT, days) is due


def test_notice_names_the_day_and_what_to_run() -> None:
    """Its key is the same tomorrow, and another one for another date."""
    served = replace(SEEN, lifecycle="deprecated", retires_at=RETIRES)
    message = retirement_message("agent", "team", served, ["basic", "more"], AT)
    assert message.title == "agent: model model-v1 retires on 2026-04-01"
    assert message.severity == "note"
    assert message.sections[0].lines == (
        "agent is served by model-v1, which it asks for as alias",
        "model-v1 retires on 2026-04-01 (in 30 days), says its provider",
    )
    assert message.actions == (
        "watchkeeper run basic -e SUCCESSOR-ENDPOINT",
        "watchkeeper run more -e SUCCESSOR-ENDPOINT",
    )
    tomorrow = retirement_message("agent", "team", served, [], AT + timedelta(days=1))
    assert tomorrow.key == message.key == "retirement/agent/model-v1/2026-04-01"
    gone = retirement_message("agent", "team", replace(served, lifecycle="retired"), [], AT)
    assert gone.title == "agent: model model-v1 has retired"
    assert gone.key != message.key
