"""An incident as a message for whoever is woken: who, by how much, since when, what changed.

The lines hold untrusted text as it came, shortened; each notifier makes it harmless its own way.
"""

from __future__ import annotations

from collections.abc import Sequence

from watchkeeper.domain.incident import Incident
from watchkeeper.domain.ports import Message, Section
from watchkeeper.domain.verdict import Verdict
from watchkeeper.notifiers import headline, phrases, wording
from watchkeeper.notifiers.commands import Commands
from watchkeeper.notifiers.headline import Item
from watchkeeper.notifiers.sections import (
    counted,
    evidence,
    graded,
    in_full,
    key,
    run_time,
    section,
    time_of_run,
    title,
)
from watchkeeper.notifiers.served import served_lines
from watchkeeper.notifiers.thread_notes import recovery_message, update_message

__all__ = ["broken_message", "page_message", "recovery_message", "update_message"]

MOST_EXEMPLARS = 3
_VERBS = {"critical": "failed critically on", "gate": "is below a gate of"}


def page_message(
    verdict: Verdict,
    incident: Incident,
    *,
    commands: Commands | None = None,
    unchanged: Sequence[str] = (),
) -> Message:
    """The page that opens an incident, for its owner.

    Args:
        verdict: The verdict of the run that opened it.
        incident: The incident; its root says which findings the page is about.
        commands: How ``watchkeeper`` is called here.
        unchanged: What was compared and is the same as in the baselines: ``harness``, ``suite``.
    """
    commands = commands or Commands()
    if incident.root.kind == "harness":
        return broken_message(
            verdict, owner=incident.root.owner, incident=incident, commands=commands
        )
    own, others = headline.for_incident(verdict, incident.root)
    if not own:
        own, others = others, []
    worse = [*in_full(own), *evidence(verdict)]
    sections = [
        section("Answered by another model", served_lines(verdict)),
        section("What got worse", worse),
        section("Also in this run", counted(headline.in_few_words(others))),
        section("Since", _since(incident)),
        section("What changed", phrases.changes(verdict, unchanged)),
        *_critical_evidence(verdict, own),
        section("Cases that show it", _cases(verdict)),
        section("What this cannot see", phrases.blind_spots(verdict)),
        section("Note", counted(verdict.notes)),
    ]
    return Message(
        key=key(incident, "page", verdict),
        severity=incident.root.severity,
        owner=incident.root.owner,
        title=_title(verdict, own),
        sections=tuple(one for one in sections if one.lines),
        actions=_page_actions(verdict, incident, commands),
        thread=incident.thread,
    )


def broken_message(
    verdict: Verdict,
    *,
    owner: str,
    incident: Incident | None = None,
    commands: Commands | None = None,
) -> Message:
    """The evaluation itself is broken: for the platform's owner, and never called a regression."""
    commands = commands or Commands()
    counts = verdict.counts
    silent = [gate for gate in verdict.gates if gate.state == "no_verdict"]
    why = [verdict.broken] if verdict.broken else []
    why += [
        f"gate {gate.category}: {gate.counts.graded} of {gate.counts.planned} trials graded"
        for gate in silent
    ]
    actions = [
        commands.doctor(),
        commands.run(verdict.suite, verdict.endpoint),
        commands.diff(verdict.run_id),
    ]
    if incident is not None:
        actions.append(commands.acknowledge(incident.id))
    said = (
        f"Evaluation broken: {verdict.endpoint} on {verdict.suite},"
        f" {counts.graded:,} of {counts.planned:,} trials graded, no verdict"
    )
    sections = (
        section("Why", counted(why)),
        section("Trials", [graded(verdict)]),
        section(
            "What it means",
            ["this is not a regression: nothing is said about the agent, good or bad"],
        ),
        section("Run", [f"{verdict.run_id}, {run_time(verdict)}"]),
        section("Note", counted(verdict.notes)),
    )
    return Message(
        key=f"{verdict.run_id}/broken" if incident is None else key(incident, "broken", verdict),
        severity="broken",
        owner=owner,
        title=title(said),
        sections=tuple(one for one in sections if one.lines),
        actions=tuple(actions),
        thread=incident.thread if incident else None,
    )


def _title(verdict: Verdict, own: Sequence[Item]) -> str:
    if not own:
        return title(f"{verdict.endpoint} on {verdict.suite}: {headline.headline(verdict)}")
    verb = _VERBS.get(own[0].kind, "got worse on")
    what = headline.title_of(list(own))
    return title(f"{verdict.endpoint} {verb} {verdict.suite}: {what}")


def _critical_evidence(verdict: Verdict, own: Sequence[Item]) -> list[Section]:
    subjects = {item.subject for item in own if item.kind == "critical"}
    if not subjects:
        return []
    lines = [
        f"{one.case_id}: {one.assertion}: {one.reason} (trial {one.trial_id})"
        for one in verdict.critical
        if ("gate", one.category) in subjects
    ]
    return [section("What the trace shows", counted(lines), is_verbatim=True)]


def _cases(verdict: Verdict) -> list[str]:
    lines = []
    for one in verdict.exemplars[:MOST_EXEMPLARS]:
        note = f"; {one.note}" if one.note else ""
        lines.append(f"{phrases.exemplar(one)}{note}")
    left_out = len(verdict.exemplars) - len(lines)
    if left_out > 0:
        lines.append(f"and {wording.count(left_out, 'more case')}, shown by the first command")
    return lines


def _since(incident: Incident) -> list[str]:
    night = wording.count(incident.night_count, "night")
    return [
        f"{time_of_run(incident.first_run)}, seen on {night}; run {incident.first_run}",
        f"incident {incident.id}, owner {incident.root.owner}",
    ]


def _page_actions(verdict: Verdict, incident: Incident, commands: Commands) -> tuple[str, ...]:
    cases = [one.case_id for one in verdict.exemplars[:MOST_EXEMPLARS]]
    if incident.root.severity == "critical":
        cases = [
            one.case_id for one in verdict.critical if one.category == incident.root.name
        ] or cases
    elif incident.root.kind == "gate":
        failing = [
            case
            for gate in verdict.gates
            if gate.category == incident.root.name
            for case in gate.failing_cases
        ]
        cases = failing or cases
    return (
        commands.diff(verdict.run_id),
        commands.run(verdict.suite, verdict.endpoint, list(dict.fromkeys(cases))),
        commands.show(incident.id),
        commands.acknowledge(incident.id),
    )
