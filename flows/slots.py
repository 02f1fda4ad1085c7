"""The slot of a night: the scheduled time from which the ids of its runs are derived.

Cron is evaluated by Prefect's own schedule, so that a night started by hand has the same slot as
the one that ``watchkeeper serve`` would start, also in the nights when the clocks are changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import zoneinfo
from datetime import UTC, datetime, timedelta

from prefect.server.schemas.schedules import CronSchedule
from pydantic import ValidationError

from watchkeeper.errors import UsageError
from watchkeeper.loading.folder import CONFIG_FILE
from watchkeeper.loading.project import Project

# Windows begin and end well apart from the times that matter: some versions of Prefect skip a time
# that comes in an hour which the clock repeats when they are asked for exactly that hour.
_MARGIN = timedelta(days=2)
_FIRST_WINDOW = timedelta(days=2)
_LAST_WINDOW = timedelta(days=366 * 9)  # 29 February may be eight years away


def choose_slot(
    project: Project,
    now: datetime,
    given: str | None = None,
    scheduled_at: datetime | None = None,
) -> datetime:
    """The slot of a night, in UTC and on the minute.

    Args:
        project: Its schedule and time zone.
        now: The time of day.
        given: The slot that somebody asked for, as ISO 8601 with its zone; it wins.
        scheduled_at: When a scheduler meant the night to start, where one did.

    Returns:
        Without either the latest time of the schedule that is not in the future, so that a night
        that was killed and is started again goes on where it was.

    Raises:
        UsageError: The slot is no time, has no zone, or lies in the future; or the schedule is
            no cron expression.
    """
    if given is not None:
        return _given_slot(given, now)
    if scheduled_at is not None:
        return _on_the_minute(scheduled_at)
    return latest_slot(project.nightly_cron, project.timezone, now)


def latest_slot(
    cron: str, timezone: zoneinfo.ZoneInfo, now: datetime, key: str = "nightly"
) -> datetime:
    """The latest time of a cron expression at or before ``now``, in UTC.

    Args:
        cron: Five fields, read in ``timezone``.
        timezone: Where the clock hangs.
        now: A time with its zone.
        key: Which schedule it is, for an error.

    Raises:
        UsageError: The expression is not one, or it has no time in the last nine years.
    """
    schedule = cron_schedule(cron, timezone, key)
    window = _FIRST_WINDOW
    with contextlib.suppress(ValueError):  # raised for a day that never comes, such as 31 February
        while window <= _LAST_WINDOW:
            found = _last_between(schedule, now - window, now)
            if found is not None:
                return found
            window *= 2
    raise UsageError(
        f"{CONFIG_FILE}: schedule.{key} '{cron}' has no time in the past nine years; "
        "expected a cron expression such as '30 2 * * *'"
    )


def cron_schedule(cron: str, timezone: zoneinfo.ZoneInfo, key: str = "nightly") -> CronSchedule:
    """A schedule as Prefect has it; ``key`` says which, for an error.

    Raises:
        UsageError: It is no cron expression.
    """
    try:
        return CronSchedule(cron=cron, timezone=timezone.key)
    except ValidationError as error:
        raise UsageError(
            f"{CONFIG_FILE}: schedule.{key} '{cron}' is no cron expression; "
            "expected minute, hour, day, month and weekday, such as '30 2 * * *'"
        ) from error


def _last_between(schedule: CronSchedule, start: datetime, now: datetime) -> datetime | None:
    """The last time of a schedule in an interval; Prefect gives at most a thousand at once."""
    last: datetime | None = None
    while True:
        # The method is a coroutine that never waits for anything.
        dates = asyncio.run(schedule.get_dates(start=start, end=now + _MARGIN))
        found = [datetime.fromtimestamp(date.timestamp(), UTC) for date in dates]
        past = [at for at in found if at <= now]
        if not past or past[-1] == last:
            return last
        last = start = past[-1]
        if len(past) < len(found):
            return last


def _given_slot(given: str, now: datetime) -> datetime:
    try:
        slot = datetime.fromisoformat(given)
    except ValueError as error:
        raise UsageError(f"slot '{given}': expected a time such as 2026-05-22T00:30Z") from error
    if slot.tzinfo is None:
        raise UsageError(f"slot '{given}': a time without a zone; write 2026-05-22T00:30Z")
    if slot > now:
        raise UsageError(
            f"slot '{given}' lies in the future; its runs would be taken for those of that night"
        )
    return _on_the_minute(slot)


def _on_the_minute(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(second=0, microsecond=0)
