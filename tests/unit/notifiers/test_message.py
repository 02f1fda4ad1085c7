from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from tests.unit.notifiers.example_verdicts import (
    THREAD,
    UNCHANGED,
    amounts_gate_run,
    critical_night,
    every_verdict,
    find_files_night,
    half_outage_night,
    incident,
    tone_night,
)
from tests.unit.notifiers.snapshot import assert_text
from tests.unit.notifiers.verdict_parts import RUN_ID, SLOT, finding, measured, verdict
from watchkeeper.domain.incident import Incident
from watchkeeper.domain.ports import Message, Recipient
from watchkeeper.domain.verdict import Change, RegressionRoot, ToolShift, Verdict
from watchkeeper.notifiers.commands import Commands
from watchkeeper.notifiers.console import render
from watchkeeper.notifiers.message import (
    broken_message,
    page_message,
    recovery_message,
    update_message,
)
from watchkeeper.notifiers.report import verdict_text

OWNER = Recipient("tools-team")


def _lines(message: Message) -> dict[str, list[str]]:
    return {section.heading: list(section.lines) for section in message.sections}


def _critical(one: Incident) -> Incident:
    return replace(one, root=replace(one.root, severity="critical"))


MESSAGES: dict[str, Message] = {
    "page_find_files": page_message(find_files_night(), incident(), unchanged=UNCHANGED),
    "page_tone": page_message(tone_night(), incident("gate", "tone")),
    "page_critical": page_message(critical_night(), _critical(incident("gate", "read_only"))),
    "page_broken": page_message(half_outage_night(), incident("harness", "evaluation")),
    "update_worse": update_message(find_files_night(), incident(night_count=3, thread=THREAD)),
    "update_silent": update_message(half_outage_night(), incident(night_count=3, thread=THREAD)),
    "update_quiet": update_message(
        verdict(), incident(night_count=3, quiet_count=1, thread=THREAD)
    ),
    "recovered": recovery_message(
        verdict(),
        incident(night_count=3, quiet_count=3, thread=THREAD, resolved_at=SLOT.replace(day=28)),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_exactly_like_this(name: str) -> None:
    """Every sentence that wakes somebody is pinned, so that a change of words is a decision."""
    assert_text(f"{name}.txt", render(MESSAGES[name], OWNER))


def test_the_page_says_what_it_owes() -> None:
    """Who, how much with its interval, on what, since when, what changed, what to do next."""
    page = MESSAGES["page_find_files"]
    said = json.dumps([page.title, _lines(page), page.actions], ensure_ascii=False)
    for owed in (
        "demo-agent got worse on discovery",
        "find_files 2 → 8 calls per trial",
        "rounds 3.1× (2.7–3.5)",
        "12 cases, 36 fresh trials against 504",
        "every answer still passes: 36/36",
        "barren rounds 5 % → 49 %",
        "2026-05-22 02:30 UTC",
        "served model: demo-model-v1 → demo-model-v2",
        "the only recorded change, so the suspect",
        "the same: harness, suite, graders",
        "activation-events: passed 42/42 → 3/3, rounds 4 → 14, barren 0 → 9",
        "smallest loss that is seen 8 times in 10",
        f"watchkeeper diff {RUN_ID}",
        "watchkeeper run discovery -e demo-agent --case activation-events",
        "watchkeeper incidents show inc-5b1e07c3d9aa",
        "watchkeeper incidents ack inc-5b1e07c3d9aa",
        "owner tools-team",
    ):
        assert owed in said
    assert len(page.title) <= 150
    assert len(_lines(page)["Cases that show it"]) == 4


def test_wrong_answers_come_before_everything_about_tools() -> None:
    """A page about a tool still leads with the pass rate where answers got worse as well."""
    drop = finding(
        "pass_rate", "tool", "find_files", "regressed", confirmed=measured(-0.2, -0.3, -0.1)
    )
    night = find_files_night()
    night = replace(night, findings=(*night.findings[:-1], drop), roots=())
    page = page_message(night, incident())
    assert page.title.startswith("demo-agent got worse on discovery: pass rate −20 points")
    assert page.sections[0].lines[0].startswith("pass rate −20 points")


def test_an_innocent_tool_is_not_blamed() -> None:
    """Where no loss in rounds or cost is confirmed, no tool is named as worse."""
    shifted = replace(tone_night(), tool_shifts=(ToolShift("lookup_order", 30, 2, 9, 0.1, 5.0),))
    page = page_message(shifted, incident("gate", "tone"))
    assert "lookup_order" not in json.dumps([page.title, _lines(page)])


def test_the_tool_is_named_where_the_whole_suite_is_its_group() -> None:
    """Two groups with the same cases are one hypothesis: the finding may name only the suite."""
    night = find_files_night()
    suite_only = tuple(one for one in night.findings if one.level == "suite")
    roots = (RegressionRoot("suite", "discovery", "tools-team", "page", ("rounds/suite/suite",)),)
    page = page_message(
        replace(night, findings=suite_only, roots=roots), incident("suite", "discovery")
    )
    assert page.title == MESSAGES["page_find_files"].title


def test_each_incident_leads_with_its_own_matter() -> None:
    """Two roots of one night have two pages; each names the other's loss only in passing."""
    drop = finding(
        "pass_rate", "category", "tone", "regressed", confirmed=measured(-0.2, -0.3, -0.1)
    )
    night = find_files_night()
    roots = (
        *night.roots,
        RegressionRoot("category", "tone", "support", "page", ("pass_rate/category/tone",)),
    )
    both = replace(night, findings=(*night.findings, drop), roots=roots)
    about_tool = page_message(both, incident())
    about_tone = page_message(both, incident("category", "tone"))
    assert "find_files 2 → 8" in about_tool.title
    assert _lines(about_tool)["Also in this run"] == [
        "pass rate −20 points (−30 to −10) in category tone"
    ]
    assert "pass rate −20 points" in about_tone.title
    assert any("find_files 2 → 8" in line for line in _lines(about_tone)["Also in this run"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((), "nothing that is recorded changed"),
        ((Change("suite", "a", "b"),), "the only recorded change, so the suspect"),
        (
            (Change("suite", "a", "b"), Change("served model", "v1", "v2")),
            "2 things changed at once: which of them did it cannot be told",
        ),
    ],
)
def test_a_cause_is_named_only_where_one_thing_changed(
    changes: tuple[Change, ...], said: str
) -> None:
    """Several changes at once accuse none of them; no change is said in so many words."""
    page = page_message(replace(find_files_night(), changes=changes), incident())
    assert said in _lines(page)["What changed"]


def test_a_broken_evaluation_is_never_called_a_regression() -> None:
    """Planned, graded and missing are told, with the reasons, and nothing about the agent."""
    message = broken_message(half_outage_night(), owner="eval-platform")
    said = json.dumps([message.title, _lines(message)])
    assert message.severity == "broken"
    assert message.owner == "eval-platform"
    assert message.key == f"{RUN_ID}/broken"
    assert "31 of 60 trials graded" in message.title
    assert "planned 60, graded 31 (20 harness errors, 3 grader errors, 6 never recorded)" in said
    assert "not a regression" in said
    assert "got worse" not in said


@pytest.mark.parametrize("night", [half_outage_night(), find_files_night()])
def test_no_recovery_without_evidence(night: Verdict) -> None:
    """A broken night, or one that is still worse, cannot close an incident as recovered."""
    with pytest.raises(ValueError, match="cannot vouch"):
        recovery_message(night, incident(quiet_count=3))


def test_zero_graded_trials_are_never_good_news() -> None:
    """An agent that was wholly down has not recovered."""
    dead = verdict(counts=replace(verdict().counts, passed=0, harness_error=36), gates=())
    with pytest.raises(ValueError, match="cannot vouch"):
        recovery_message(dead, incident(quiet_count=3))
    assert "no answer was graded: 0 of 36 planned trials" in json.dumps(
        [section.lines for section in update_message(dead, incident()).sections]
    )


def test_keys_are_the_same_for_the_same_run_and_differ_otherwise() -> None:
    """Replaying a run sends nothing twice; another run, or another kind of note, is sent."""
    again = page_message(find_files_night(), incident())
    keys = [message.key for message in MESSAGES.values()]
    assert again.key == MESSAGES["page_find_files"].key
    assert MESSAGES["update_worse"].key != again.key
    assert all("/" in key for key in keys)


def test_notes_go_into_the_thread_and_wake_nobody() -> None:
    """One incident, one thread: what follows the page is a note in it."""
    for name in ("update_worse", "update_silent", "update_quiet", "recovered"):
        assert MESSAGES[name].thread == THREAD
        assert MESSAGES[name].severity == "note"


def test_commands_can_be_pasted_whatever_the_names() -> None:
    """A name that holds shell syntax is quoted, and another project folder is named."""
    commands = Commands(project="/srv/night watch")
    assert commands.run("a b", "$(id)", ["x;y"]) == (
        "watchkeeper run 'a b' -e '$(id)' --case 'x;y' --project '/srv/night watch'"
    )


def _hostile(value: Any, text: str) -> Any:
    """The same dataclass with every free text in it replaced; words of fixed meaning stay."""
    fixed = {
        "state", "purpose", "metric", "level", "action", "kind", "severity", "schema_version",
        "resolution",
    }  # fmt: skip
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(_hostile(one, text) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: _hostile(getattr(value, one.name), text)
            for one in fields(value)
            if one.name not in fixed
        }
        return replace(value, **changed)
    return value


@pytest.mark.parametrize("name", every_verdict())
@pytest.mark.parametrize("text", ["\x1b[31m<!channel>\x00\u202e\ud800\nok", "y" * 20_000, ""])
def test_hostile_text_in_every_field_stays_bounded_and_harmless(name: str, text: str) -> None:
    """No field can break the page: it is short and holds no control character."""
    hostile = _hostile(every_verdict()[name], text)
    for one in (incident(), incident("gate", "tone"), incident("harness", "x")):
        attacked = _hostile(one, text)
        for message in (
            page_message(hostile, attacked, unchanged=(text,)),
            update_message(hostile, attacked),
            broken_message(hostile, owner=text),
        ):
            assert len(message.title) <= 300
            assert all(len(line) <= 400 for part in message.sections for line in part.lines)
            shown = render(message, Recipient(text))
            assert not any(ord(char) < 32 and char != "\n" for char in shown)
            assert not {"\u202e", "\ud800", "\x1b"} & set(shown)


def test_gate_of_article_a4_on_a_page() -> None:
    """The owner of a failed gate reads the count, the need, the interval and the failing cases."""
    page = page_message(amounts_gate_run(), incident("gate", "amount_extraction"))
    assert page.title == (
        "payments-agent is below a gate of transfers:"
        " gate amount_extraction 17/20 = 85 %, needs 100 %"
    )
    assert "95 % interval 64–95" in page.sections[0].lines[0]
    assert "--case transfer-dots --case transfer-thousands --case transfer-comma" in page.actions[1]


def test_many_single_cases_are_one_line() -> None:
    """Twelve cases that each take more rounds are one fact, on the page and in the report."""
    rise = measured(2.5, 2.1, 3.1, case_count=1)
    cases = tuple(
        finding("rounds", "case", f"case-{index:02d}", "regressed", confirmed=rise)
        for index in range(12)
    )
    night = find_files_night()
    night = replace(night, findings=(*night.findings, *cases), roots=())
    said = (
        "rounds worse in 12 single cases: case-00 2.5× (2.1–3.1), case-01 2.5× (2.1–3.1),"
        " case-02 2.5× (2.1–3.1) and 9 more"
    )
    page = page_message(night, incident())
    assert page.sections[0].lines[2].endswith(f"in whole suite, {said}")
    assert said in " ".join(verdict_text(night).split())
