"""The slot of a night: the same for whoever starts it, by hand or by schedule."""

from __future__ import annotations

import asyncio
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prefect.server.schemas.schedules import CronSchedule

from tests.projects import write_project
from watchkeeper.errors import UsageError
from watchkeeper.flows.slots import choose_slot, latest_slot
from watchkeeper.loading.project import Project, load_project

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose nights begin at 02:30 in Berlin."""
    settings = {"timezone": "Europe/Berlin", "schedule": {"nightly": "30 2 * * *"}}
    return load_project(write_project(tmp_path, watchkeeper=settings))


@pytest.mark.parametrize(
    ("cron", "now", "slot"),
    [
        ("30 2 * * *", "2026-06-01T02:30+02:00", "2026-06-01T02:30+02:00"),
        ("30 2 * * *", "2026-06-01T02:29:59+02:00", "2026-05-31T02:30+02:00"),
        ("0 22 * * mon-fri", "2026-06-21T12:00+02:00", "2026-06-19T22:00+02:00"),
        ("0 0 29 2 *", "2026-06-20T12:00+02:00", "2024-02-29T00:00+01:00"),
        ("* * 1 * *", "2026-06-20T12:00+02:00", "2026-06-01T23:59+02:00"),
        # 02:30 does not exist on the 29th of March and comes twice on the 25th of October.
        ("30 2 * * *", "2026-03-29T12:00+02:00", "2026-03-29T03:30+02:00"),
        ("30 2 * * *", "2026-10-25T02:20+01:00", "2026-10-25T02:30+02:00"),
        ("30 2 * * *", "2026-10-25T02:40+01:00", "2026-10-25T02:30+02:00"),
    ],
)
def test_latest_slot(cron: str, now: str, slot: str) -> None:
    """The latest time of the schedule that is not in the future, in the project's time zone."""
    assert latest_slot(cron, BERLIN, _utc(now)) == _utc(slot)


def test_latest_slot_is_one_that_prefect_would_schedule() -> None:
    """Over a year, changes of the clocks included, both name the same times."""
    year = (_utc("2026-01-01T00:00Z"), _utc("2027-01-01T00:00Z"))
    schedule = CronSchedule(cron="30 2 * * *", timezone="Europe/Berlin")
    scheduled = asyncio.run(schedule.get_dates(start=year[0], end=year[1]))
    assert len(scheduled) == 365
    for due in scheduled:
        at = datetime.fromtimestamp(due.timestamp(), UTC)
        assert latest_slot("30 2 * * *", BERLIN, at + timedelta(minutes=50)) == at


@pytest.mark.parametrize("cron", ["61 * * * *", "a b c d e", "0 0 31 2 *"])
def test_schedule_without_a_time_is_a_fault_of_the_configuration(cron: str) -> None:
    """An expression that is none, or a day that never comes, names the key to mend."""
    with pytest.raises(UsageError, match=r"config/watchkeeper\.yaml: schedule\.nightly"):
        latest_slot(cron, BERLIN, _utc("2026-06-01T00:00Z"))


def test_given_slot_wins(project: Project) -> None:
    """It is used as it is, to the minute, whatever the schedule says."""
    now = _utc("2026-06-01T12:00Z")
    chosen = choose_slot(project, now, "2026-05-02T07:15:59+02:00", scheduled_at=now)
    assert chosen == _utc("2026-05-02T05:15Z")


def test_scheduled_time_is_the_slot_however_late_the_start(project: Project) -> None:
    """A run that was due at 02:30 and started at 04:10 belongs to 02:30."""
    due = _utc("2026-06-01T00:30:00.250Z")
    assert choose_slot(project, _utc("2026-06-01T02:10Z"), None, due) == _utc("2026-06-01T00:30Z")


def test_night_started_by_hand_has_the_slot_of_the_schedule(project: Project) -> None:
    """So a night that was killed and is started again is the same night."""
    for now in ("2026-06-01T00:30Z", "2026-06-01T05:00Z", "2026-06-01T21:59Z"):
        assert choose_slot(project, _utc(now)) == _utc("2026-06-01T00:30Z")


@pytest.mark.parametrize("given", ["tonight", "2026-05-02T07:15", "2026-06-01T12:01Z", ""])
def test_slot_that_is_none_is_refused(project: Project, given: str) -> None:
    """No time, no zone, or a time to come: each is said with what was given."""
    with pytest.raises(UsageError, match=f"slot '{given}'"):
        choose_slot(project, _utc("2026-06-01T12:00Z"), given)
