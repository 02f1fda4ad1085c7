"""What is told in the thread of an incident after its page: each following night, and its end."""

from __future__ import annotations

from watchkeeper.domain.incident import Incident
from watchkeeper.domain.ports import Message
from watchkeeper.domain.verdict import Verdict
from watchkeeper.notifiers import headline, phrases, wording
from watchkeeper.notifiers.commands import Commands
from watchkeeper.notifiers.sections import (
    evidence,
    graded,
    in_full,
    key,
    run_time,
    section,
    subject,
    title,
)


def update_message(
    verdict: Verdict, incident: Incident, *, commands: Commands | None = None
) -> Message:
    """The note in an incident's thread on a following night, whatever that night showed."""
    commands = commands or Commands()
    night = f"night {incident.night_count}"
    own, others = headline.for_incident(verdict, incident.root)
    if own:
        said = f"Still worse, {night}: {headline.title_of(own)}"
        lines = [*in_full(own), *evidence(verdict)]
    elif verdict.exit_code in {3, 4}:
        said = f"No news of {subject(incident)}: {headline.headline(verdict)}"
        lines = ["this night says nothing about the incident; it stays open", graded(verdict)]
    else:
        said = f"Not seen this night: {subject(incident)}"
        lines = [
            f"good nights in a row: {incident.quiet_count}; it stays open until there are enough",
            phrases.answers(verdict),
            graded(verdict),
            *[f"worse elsewhere in this run: {one.short}" for one in others[:1]],
        ]
    return Message(
        key=key(incident, "update", verdict),
        severity="note",
        owner=incident.root.owner,
        title=title(said),
        sections=(section(f"Run of {run_time(verdict)}", lines),),
        actions=(commands.diff(verdict.run_id), commands.show(incident.id)),
        thread=incident.thread,
    )


def recovery_message(
    verdict: Verdict, incident: Incident, *, commands: Commands | None = None
) -> Message:
    """The last note in the thread of an incident that recovered.

    Raises:
        ValueError: The verdict cannot vouch for a recovery: it is broken, nothing was graded, or
            the incident's own findings are still worse.
    """
    commands = commands or Commands()
    own, _ = headline.for_incident(verdict, incident.root)
    if own or verdict.exit_code in {3, 4} or not verdict.counts.graded:
        raise ValueError(
            f"run {verdict.run_id} cannot vouch that {incident.id} recovered:"
            f" {headline.headline(verdict)}"
        )
    lines = [
        f"good nights in a row: {incident.quiet_count}",
        f"open from {wording.when(incident.opened_at)} to {wording.when(incident.resolved_at)},"
        f" seen on {wording.count(incident.night_count, 'night')}",
        phrases.answers(verdict),
        graded(verdict),
        *[
            f"changed since the baselines: {one.what}: {one.before} → {one.after}"
            for one in verdict.changes
        ],
    ]
    return Message(
        key=key(incident, "recovered", verdict),
        severity="note",
        owner=incident.root.owner,
        title=title(f"Recovered: {subject(incident)}"),
        sections=(section(f"Run of {run_time(verdict)}", lines),),
        actions=(commands.diff(verdict.run_id), commands.show(incident.id)),
        thread=incident.thread,
    )
