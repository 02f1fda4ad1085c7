"""A model that is to retire, for the owner of the endpoint that asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.ports import Message
from watchkeeper.notifiers import wording
from watchkeeper.notifiers.commands import Commands
from watchkeeper.notifiers.sections import section, title

SUCCESSOR = "SUCCESSOR-ENDPOINT"


def retirement_message(
    endpoint: str,
    owner: str,
    served: ServedIdentity,
    suites: Sequence[str],
    now: datetime,
    *,
    commands: Commands | None = None,
) -> Message:
    """The notice of a retirement; its key is the same for the same endpoint, model and date.

    Args:
        endpoint: The endpoint's name.
        owner: Whom it belongs to.
        served: What its provider says of the model.
        suites: The suites that the endpoint is evaluated with.
        now: The time of day.
        commands: How ``watchkeeper`` is called here.
    """
    commands = commands or Commands()
    model = served.resolved_model or served.requested_model or wording.UNKNOWN
    if served.lifecycle == "retired":
        said, when = "has retired", "has retired"
    elif served.retires_at is not None:
        days = (served.retires_at - now).days
        left = f"in {wording.count(days, 'day')}" if days >= 0 else "the day has passed"
        said = f"retires on {served.retires_at:%Y-%m-%d}"
        when = f"{said} ({left}), says its provider"
    else:
        said = when = "is deprecated"
    asked = f", which it asks for as {served.requested_model}"
    alias = asked if served.requested_model not in {None, model} else ""
    return Message(
        key=retirement_key(endpoint, served),
        severity="note",
        owner=owner,
        title=title(f"{endpoint}: model {model} {said}"),
        sections=(
            section("What", [f"{endpoint} is served by {model}{alias}", f"{model} {when}"]),
            section(
                "What to do",
                [
                    f"give {endpoint} a twin in config/endpoints.yaml that asks for the successor, "
                    f"here called {SUCCESSOR}, and run its suites before you move",
                    "once the model has retired, runs of this endpoint are refused",
                ],
            ),
        ),
        actions=tuple(commands.run(suite, SUCCESSOR) for suite in suites[:3]),
    )


def retirement_key(endpoint: str, served: ServedIdentity) -> str:
    """What makes the notice one that was told already."""
    date = f"{served.retires_at:%Y-%m-%d}" if served.retires_at is not None else "undated"
    state = "retired" if served.lifecycle == "retired" else date
    return f"retirement/{endpoint}/{served.resolved_model or served.requested_model}/{state}"


def is_due(served: ServedIdentity, now: datetime, notice_days: int) -> bool:
    """Whether the owner is to be told: retired, or retiring within so many days."""
    if served.lifecycle == "retired":
        return True
    if served.retires_at is None:
        return False
    return (served.retires_at - now).total_seconds() <= notice_days * 86_400
