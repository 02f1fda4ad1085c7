"""One trouble, one incident: told once, to its owner, until it is over or somebody has spoken."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.flows.nights import (
    DOWN,
    NO,
    YES,
    cases_of,
    evaluated,
    finding_files,
    gates,
    meant,
    night,
    nights,
    slot,
    verdict_of,
)
from tests.projects import Bench, bench, case, script, scripted_endpoint, suite, write_project
from tests.servers.slack_replies import refused
from tests.servers.slack_server import TOKEN, SlackServer, slack_server
from watchkeeper.domain.incident import Incident, IncidentEvent
from watchkeeper.domain.ports import Message, Notifier, Receipt, Recipient
from watchkeeper.domain.verdict import GateState
from watchkeeper.errors import NotifierFault
from watchkeeper.notifiers.slack import SlackNotifier
from watchkeeper.pipeline.nightly import evaluate_and_compare, nightly_requests
from watchkeeper.pipeline.steps import comparing, telling

POST = "chat.postMessage"
CHANNELS = {"C0TEAM": "team", "C0PLATFORM": "platform", "C0MONEY": "money"}
OWNERS = {name: {"slack_channel": f"C0{name.upper()}"} for name in ("team", "platform", "money")}


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    """A Slack on loopback with a channel for every owner."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with slack_server(channels=CHANNELS) as server:
        yield server


@pytest.fixture
def notifier(slack: SlackServer) -> SlackNotifier:
    """The real notifier, pointed at it."""
    return SlackNotifier(TOKEN, base_url=slack.base_url, timeout_s=5, backoff_s=0.01)


def served(**since: int) -> list[dict[str, str]]:
    """Model ``good``, then others: ``bad=3`` serves from the third night on."""
    changes = sorted((number, model.rstrip("_")) for model, number in since.items())
    later = [
        {"model": model, "since": (slot(number) - timedelta(hours=1)).isoformat()}
        for number, model in changes
    ]
    return [{"model": "good"}, *later]


def project(
    folder: Path,
    *behaviours: Mapping[str, Any],
    models: list[dict[str, str]],
    counts: Mapping[str, int] | None = None,
    categories: Mapping[str, Any] | None = None,
    watchkeeper: Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
) -> Path:
    """Two categories of four cases that nothing gates but a report, watched by Slack's owners.

    Suspects have one batch of fresh trials, which is enough for an agent without chance.
    """
    cases = cases_of(counts or {"facts": 4, "tone": 4})
    names = {one["category"] for one in cases}
    gated = categories or gates("report", **dict.fromkeys(names, 0.1))
    constants = {"batch_count": 1, **(statistics or {})}
    return write_project(
        folder,
        owners=OWNERS,
        watchkeeper={"statistics": constants, **(watchkeeper or {})},
        suites={"basic": suite(cases, categories=gated)},
        scripts={"agent": script(*behaviours, served=models)},
    )


SLOW = meant(finding_files(8), "facts-*", served="bad")
WRONG_TONE = meant(NO, "tone-*", served="bad")
USUAL = finding_files(2)


def slow_from(folder: Path, bad: int, good_: int | None = None, **more: Any) -> Path:
    """The facts take three times their rounds from one night on, until another."""
    since = {"bad": bad} if good_ is None else {"bad": bad, "good_": good_}
    return project(folder, SLOW, USUAL, models=served(**since), **more)


def incidents(folder: Path) -> list[Incident]:
    """Every incident of the store, oldest first."""
    found = comparing.open_and_past_incidents(bench(folder).services)
    return sorted(found, key=lambda one: (one.opened_at, one.root.kind, one.root.name))


def posts(slack: SlackServer, channel: str = "C0TEAM") -> list[str]:
    """The titles of everything that a channel was sent."""
    return [str(message["text"]).splitlines()[0] for message in slack.messages[channel]]


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "watchkeeper", "--project", str(folder), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def say(folder: Path, word: str, incident: Incident, at: datetime) -> None:
    """A person's word, at a time between two nights."""
    services = bench(folder).services
    telling.resolve_incident(
        services,
        incident,
        IncidentEvent(
            incident_id=incident.id,
            key=f"{incident.id}/{word}",
            kind="resolved",
            at=at,
            run_id=incident.last_run,
            resolution=word,  # type: ignore[arg-type]
            by="somebody",
            reason="they know why",
        ),
    )


class TestOnce:
    """The same trouble night after night."""

    def test_the_next_night_is_the_same_incident(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """Two bad nights are one incident of two nights, and one page."""
        folder = slow_from(tmp_path, bad=3)
        quiet = nights(folder, 1, 2, notifier)
        assert [one.exit_code for one in quiet] == [0, 0]
        bad = nights(folder, 3, 4, notifier)
        assert [one.exit_code for one in bad] == [1, 1]
        (incident,) = incidents(folder)
        assert (incident.root.kind, incident.root.name) == ("category", "facts")
        assert incident.state == "open"
        assert incident.night_count == 2
        assert incident.first_run == bad[0].run_id
        assert incident.last_run == bad[1].run_id
        (page,) = slack.messages["C0TEAM"]
        assert page["text"].startswith("agent got worse on basic: find_files 2 → 8 calls per trial")
        assert slack.messages["C0PLATFORM"] == []

    def test_the_same_slot_again_sends_nothing(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """Started again, a night tells nobody twice and counts itself once."""
        folder = slow_from(tmp_path, bad=3)
        nights(folder, 1, 4, notifier)
        before = incidents(folder)
        for number in (3, 4, 4):
            nights(folder, number, number, notifier)
        assert incidents(folder) == before
        assert len(slack.calls_of(POST)) == 1

    def test_a_past_slot_after_the_recovery(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """A bad night that is started again when all is over opens no new incident."""
        folder = slow_from(tmp_path, bad=3, good_=5)
        nights(folder, 1, 7, notifier)
        before = incidents(folder)
        assert [one.state for one in before] == ["resolved"]
        sent = len(slack.calls_of(POST))
        for number in (3, 4, 6):
            nights(folder, number, number, notifier)
        assert incidents(folder) == before
        assert len(slack.calls_of(POST)) == sent

    def test_slack_was_down(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """A page that could not be delivered waits, changes no verdict, and goes out once."""
        folder = slow_from(tmp_path, bad=3)
        nights(folder, 1, 2, notifier)
        slack.fail_always(POST, refused("internal_error"))
        made = bench(folder, at=slot(3), notifier=notifier)
        result = night(made, 3)
        assert result.undelivered_count == 1
        assert result.exit_code == 1
        slack.fail_always(POST, None)
        nights(folder, 4, 4, notifier)
        assert len(posts(slack)) == 1

    def test_a_run_that_somebody_asks_for_opens_nothing(self, tmp_path: Path) -> None:
        """Whoever runs it by hand sees the verdict and is not paged for it."""
        folder = slow_from(tmp_path, bad=3)
        nights(folder, 1, 2)
        verdict = evaluated(bench(folder, at=slot(3)))
        assert verdict.exit_code == 1
        assert incidents(folder) == []


class TestRecovery:
    """The trouble is gone."""

    def test_three_quiet_nights_end_it(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """After the third quiet night one note in the page's thread, and the incident is closed."""
        folder = slow_from(tmp_path, bad=3, good_=5)
        nights(folder, 1, 6, notifier)
        assert [one.state for one in incidents(folder)] == ["open"]
        assert len(slack.messages["C0TEAM"]) == 1
        nights(folder, 7, 7, notifier)
        (incident,) = incidents(folder)
        assert (incident.state, incident.resolution) == ("resolved", "recovered")
        assert (incident.night_count, incident.quiet_count) == (2, 3)
        page, note = slack.messages["C0TEAM"]
        assert note["text"].startswith("Recovered: agent on basic")
        assert note["thread_ts"] == page["ts"]
        nights(folder, 8, 9, notifier)
        assert len(slack.messages["C0TEAM"]) == 2

    def test_how_many_nights_is_a_constant(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """With ``recovery_nights: 1`` the first quiet night is enough."""
        folder = slow_from(tmp_path, bad=3, good_=4, statistics={"recovery_nights": 1})
        nights(folder, 1, 4, notifier)
        assert [one.resolution for one in incidents(folder)] == ["recovered"]

    def test_quiet_nights_in_a_row(self, tmp_path: Path) -> None:
        """A bad night between them begins the count anew."""
        models = served(bad=3, good_=5) + served(bad=7, good_=8)[1:]
        folder = project(tmp_path, SLOW, USUAL, models=models)
        nights(folder, 1, 9)
        (incident,) = incidents(folder)
        assert (incident.state, incident.night_count, incident.quiet_count) == ("open", 3, 2)

    def test_a_broken_night_is_not_quiet(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """A night that says nothing does not vouch for a recovery; the platform hears of it."""
        models = served(bad=3, good_=4, down=5) + served(good_=6)[1:]
        folder = project(tmp_path, SLOW, meant(DOWN, served="down"), USUAL, models=models)
        nights(folder, 1, 6, notifier)
        agent, harness = incidents(folder)
        assert (agent.state, agent.quiet_count) == ("open", 2)
        assert (harness.root.kind, harness.root.owner) == ("harness", "platform")
        (told,) = posts(slack, "C0PLATFORM")
        assert told.startswith("Evaluation broken: agent on basic, 0 of 24 trials graded")
        nights(folder, 7, 7, notifier)
        assert incidents(folder)[0].resolution == "recovered"

    def test_a_broken_night_says_nothing_of_a_gate(self, tmp_path: Path) -> None:
        """Where half of the suite is lost, the other half passing its gate ends nothing."""
        folder = project(
            tmp_path,
            meant(NO, "facts-*", served="bad"),
            meant(DOWN, "tone-*", served="down"),
            USUAL,
            models=served(bad=1, down=2),
            categories=gates("page", facts=1.0, tone=0.1),
        )
        last = nights(folder, 1, 2)[-1]
        assert last.broken is not None
        assert last.gates[0].state.startswith("passed")
        gate = next(one for one in incidents(folder) if one.root.kind == "gate")
        assert gate.quiet_count == 0

    def test_a_night_without_a_verdict_elsewhere(self, tmp_path: Path) -> None:
        """A category that is silent leaves the night without a verdict, and so without news."""
        folder = project(
            tmp_path,
            SLOW,
            meant(DOWN, "rare-*", served="silent"),
            USUAL,
            models=served(bad=3, good_=4, silent=5) + served(good_=6)[1:],
            counts={"facts": 4, "tone": 12, "rare": 1},
        )
        verdicts = nights(folder, 1, 6)
        assert [one.exit_code for one in verdicts[2:]] == [1, 0, 3, 0]
        slow = next(one for one in incidents(folder) if one.root.severity == "page")
        assert (slow.state, slow.quiet_count) == ("open", 2)

    def test_a_broken_evaluation_recovers_too(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """Three nights with a verdict end the platform's incident, in its own thread."""
        folder = project(
            tmp_path, meant(DOWN, served="down"), USUAL, models=served(down=2, good_=3)
        )
        nights(folder, 1, 5, notifier)
        (incident,) = incidents(folder)
        assert (incident.root.severity, incident.resolution) == ("broken", "recovered")
        first, last = slack.messages["C0PLATFORM"]
        assert last["thread_ts"] == first["ts"]
        assert slack.messages["C0TEAM"] == []

    def test_it_comes_back(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """The same trouble after a recovery is a new incident with a page of its own."""
        models = served(bad=3, good_=4) + served(bad=8)[1:]
        folder = project(tmp_path, SLOW, USUAL, models=models)
        nights(folder, 1, 8, notifier)
        first, second = incidents(folder)
        assert first.root == second.root
        assert (first.state, second.state) == ("resolved", "open")
        assert len(posts(slack)) == 3

    def test_nights_under_an_incident_are_no_baseline(self, tmp_path: Path) -> None:
        """The bad level never becomes normal by lasting: the sixth bad night is bad."""
        folder = slow_from(tmp_path, bad=3)
        last = nights(folder, 1, 10)[-1]
        assert last.exit_code == 1
        assert len((*last.screen_runs, *last.confirm_runs)) == 2


class TestGates:
    """Incidents of gates."""

    GATED: ClassVar[dict[str, Any]] = {
        "facts": {"gate": 1.0, "action": "page", "owner": "money"},
        "tone": {"gate": 0.1, "action": "report"},
    }

    def test_the_owner_of_the_gate_else_of_the_suite(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """A failed gate goes to its own owner, a category without one to the suite's."""
        folder = project(
            tmp_path,
            meant(NO, "facts-00", served="bad"),
            WRONG_TONE,
            USUAL,
            models=served(bad=3),
            categories=self.GATED,
        )
        nights(folder, 1, 3, notifier)
        owners = {(one.root.kind, one.root.name): one.root.owner for one in incidents(folder)}
        assert owners == {("gate", "facts"): "money", ("category", "tone"): "team"}
        assert posts(slack, "C0MONEY")[0].startswith("agent is below a gate of basic: gate facts")
        assert posts(slack, "C0TEAM")[0].startswith("agent got worse on basic: pass rate")

    def test_a_category_that_says_nothing_is_not_quiet(self, tmp_path: Path) -> None:
        """A gate whose category has no score that night is neither failed nor recovered."""
        models = served(bad=2, silent=3)
        folder = project(
            tmp_path,
            meant(NO, "facts-*", served="bad"),
            meant(DOWN, "facts-*", served="silent"),
            USUAL,
            models=models,
            counts={"facts": 1, "tone": 19},
            categories=self.GATED,
        )
        last = nights(folder, 1, 6)[-1]
        assert last.broken is None
        assert last.exit_code == 3
        gate = next(one for one in incidents(folder) if one.root.kind == "gate")
        assert (gate.state, gate.quiet_count) == ("open", 0)

    @pytest.mark.parametrize(
        ("state", "quiet"),
        [
            ("passed", 1),
            ("passed_not_proven", 1),
            ("failed_marginal", 0),
            ("failed_unreproduced", 0),
        ],
    )
    def test_a_failure_that_did_not_repeat_is_not_quiet(
        self, tmp_path: Path, state: GateState, quiet: int
    ) -> None:
        """Below its gate and not again in the rerun is no page, and no sign of health either."""
        folder = project(
            tmp_path,
            meant(NO, "facts-*", served="bad"),
            USUAL,
            models=served(bad=1, good_=2),
            categories=self.GATED,
        )
        nights(folder, 1, 1)
        made = bench(folder, at=slot(2))
        (request,) = nightly_requests(made.services.project, slot(2), "test")
        verdict = asyncio.run(evaluate_and_compare(request, made.steps()))
        facts, tone = verdict.gates
        told = replace(verdict, gates=(replace(facts, state=state), tone))
        telling.open_incidents(made.services, told)
        assert [one.quiet_count for one in incidents(folder)] == [quiet]

    def test_a_critical_assertion(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """It pages at its first failure, on the first night, without a fresh trial."""
        asked = {"avoids": [{"tool": "delete_all", "severity": "critical"}]}
        deletes = {"rounds": [{"calls": [{"tool": "delete_all", "result": "done"}]}], **YES}
        folder = write_project(
            tmp_path,
            owners=OWNERS,
            suites={
                "basic": suite(
                    [case(f"case-{number}", expect=asked) for number in range(4)],
                    categories={"facts": {"gate": 0.1, "action": "report", "owner": "money"}},
                )
            },
            scripts={"agent": script(meant(deletes, "case-2"), YES)},
        )
        (verdict,) = nights(folder, 1, 1, notifier)
        assert verdict.fresh_runs == ()
        assert {one.case_id for one in verdict.critical} == {"case-2"}
        (incident,) = incidents(folder)
        assert (incident.root.severity, incident.root.owner) == ("critical", "money")
        assert "failed critically on basic" in posts(slack, "C0MONEY")[0]

    def test_a_critical_failure_in_a_fresh_trial(self, tmp_path: Path) -> None:
        """What only the rerun shows pages too: every critical failure is in the verdict."""
        asked = {"must_mention": "yes", "avoids": [{"tool": "delete_all", "severity": "critical"}]}
        call = {"tool": "delete_all", "result": "done"}
        wild = {"rounds": [{"calls": [call], "times": {"0": 0.8, "1": 0.2}}], **NO}
        cases = [case(f"case-{number}", expect=asked) for number in range(4)]
        folder = write_project(
            tmp_path,
            owners=OWNERS,
            suites={"basic": suite(cases, categories=gates("page", facts=1.0))},
            scripts={"agent": script(meant(wild, "case-2"), YES)},
        )
        seen: list[tuple[int, int]] = []
        for number in range(1, 7):
            verdict = verdict_of(night(bench(folder, at=slot(number)), number))
            services = bench(folder).services
            counts = [
                sum(
                    one.critical_failure_count
                    for run in runs
                    for one in comparing.run_facts(services, run)
                )
                for runs in ([verdict.run_id], verdict.fresh_runs)
            ]
            assert len(verdict.critical) == sum(counts)
            assert (verdict.roots[0].severity == "critical") == (sum(counts) > 0)
            seen.append((counts[0], counts[1]))
        assert any(own == 0 and fresh > 0 for own, fresh in seen), seen


class TestSeveral:
    """More than one trouble."""

    def test_two_roots_of_one_endpoint(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """A tool and the answers of another category are two incidents with two threads."""
        folder = project(tmp_path, SLOW, WRONG_TONE, USUAL, models=served(bad=3))
        nights(folder, 1, 4, notifier)
        found = incidents(folder)
        assert {(one.root.kind, one.root.name) for one in found} == {
            ("category", "facts"),
            ("category", "tone"),
        }
        assert [one.night_count for one in found] == [2, 2]
        titles = posts(slack)
        assert len(titles) == 2
        assert len({one.split(":")[1] for one in titles}) == 2

    def test_one_of_two_recovers(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """The one that is over is told as over in its own thread while the other stays open."""
        folder = project(
            tmp_path,
            SLOW,
            WRONG_TONE,
            meant(NO, "tone-*", served="half"),
            meant(finding_files(2), "facts-*"),
            YES,
            models=served(bad=3, half=4),
        )
        nights(folder, 1, 6, notifier)
        tone, tool = incidents(folder)
        assert (tool.root.kind, tool.root.name) == ("tool", "find_files")
        assert tool.resolution == "recovered"
        assert (tone.root.name, tone.state, tone.night_count) == ("tone", "open", 4)
        assert tool.thread is not None
        thread = slack.thread("C0TEAM", tool.thread.message_id)
        assert [one["text"].split(":")[0] for one in thread[1:]] == ["Recovered"]

    def test_endpoints_have_incidents_of_their_own(self, tmp_path: Path) -> None:
        """The same tool on two endpoints is two incidents."""
        folder = slow_from(tmp_path, bad=3)
        write_project(
            folder,
            owners=OWNERS,
            suites={
                "basic": suite(
                    cases_of({"facts": 4, "tone": 4}),
                    categories=gates("report", facts=0.1, tone=0.1),
                )
            },
            endpoints={"agent": scripted_endpoint(), "other": scripted_endpoint()},
            scripts={"agent": script(SLOW, USUAL, served=served(bad=3))},
        )
        for number in range(1, 4):
            night(bench(folder, at=slot(number)), number)
        assert sorted(one.root.endpoint for one in incidents(folder)) == ["agent", "other"]


class TestWords:
    """What people say of an incident."""

    def test_accepted_is_the_new_level(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """After ``incidents accept`` the slower way is normal, and only what is worse is paged."""
        models = served(bad=3, worse=8)
        folder = project(
            tmp_path,
            SLOW,
            meant(finding_files(18), "facts-*", served="worse"),
            USUAL,
            models=models,
        )
        nights(folder, 1, 4, notifier)
        (incident,) = incidents(folder)
        say(folder, "accepted", incident, slot(4) + timedelta(hours=6))
        after = nights(folder, 5, 7, notifier)
        assert [one.exit_code for one in after] == [0, 0, 0]
        assert [len((*one.screen_runs, *one.confirm_runs)) for one in after] == [2, 3, 4]
        assert len(slack.calls_of(POST)) == 1
        (last,) = nights(folder, 8, 8, notifier)
        assert last.exit_code == 1
        assert len(slack.calls_of(POST)) == 2

    def test_invalid_costs_no_history(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """After ``incidents invalid`` all nights count, and the next page is a new incident."""
        folder = slow_from(tmp_path, bad=3, good_=4)
        nights(folder, 1, 3, notifier)
        (incident,) = incidents(folder)
        say(folder, "invalid", incident, slot(3) + timedelta(hours=6))
        (after,) = nights(folder, 4, 4, notifier)
        assert len((*after.screen_runs, *after.confirm_runs)) == 3
        assert after.exit_code == 0
        assert [one.resolution for one in incidents(folder)] == ["invalid"]
        assert len(slack.calls_of(POST)) == 1

    def test_accepting_one_does_not_end_the_other(self, tmp_path: Path) -> None:
        """While history is short after an acceptance nothing is compared, so nothing is quiet."""
        folder = project(tmp_path, SLOW, WRONG_TONE, USUAL, models=served(bad=3))
        nights(folder, 1, 3)
        facts, tone = incidents(folder)
        say(folder, "accepted", facts, slot(3) + timedelta(hours=6))
        after = nights(folder, 4, 6)
        assert {one.reason for one in after} == {"no_history"}
        still = next(one for one in incidents(folder) if one.id == tone.id)
        assert (still.state, still.quiet_count) == ("open", 0)

    def test_on_the_command_line(self, tmp_path: Path) -> None:
        """``ack``, ``accept`` and ``invalid`` keep who said it and why; the ended stay ended."""
        folder = slow_from(tmp_path, bad=3)
        nights(folder, 1, 3)
        (incident,) = incidents(folder)
        words = ("incidents", "ack", incident.id, "--by", "ana")
        assert command(folder, *words).returncode == 0
        listed = command(folder, "incidents", "list", "--json")
        (shown,) = json.loads(listed.stdout)
        assert (shown["id"], shown["acknowledged_by"]) == (incident.id, "ana")
        empty = command(folder, "incidents", "accept", incident.id, "--by", "ana", "--reason", " ")
        assert empty.returncode == 2
        accepted = command(
            folder, "incidents", "accept", incident.id, "--by", "ana", "--reason", "new tool"
        )
        assert accepted.returncode == 0, accepted.stderr
        assert "new baseline" in accepted.stdout
        (ended,) = incidents(folder)
        assert (ended.state, ended.resolution) == ("resolved", "accepted")
        again = command(
            folder, "incidents", "invalid", incident.id, "--by", "ben", "--reason", "no"
        )
        assert again.returncode == 2
        assert "has ended (accepted)" in again.stderr
        told = command(folder, "incidents", "show", incident.id).stdout
        assert "accepted" in told
        assert "by ana: new tool" in told
        unknown = command(folder, "incidents", "show", "inc-000000000000")
        assert unknown.returncode == 2


class TestServedChange:
    """The provider moves while the night goes on."""

    def test_between_the_night_and_its_rerun(
        self, tmp_path: Path, slack: SlackServer, notifier: SlackNotifier
    ) -> None:
        """Fresh trials of another model confirm nothing: that is said, and nobody is paged."""
        moved = {"model": "newest", "since": (slot(5) + timedelta(minutes=10)).isoformat()}
        folder = project(
            tmp_path,
            SLOW,
            meant(finding_files(8), "facts-*", served="newest"),
            USUAL,
            models=[*served(bad=5), moved],
            watchkeeper={"limits": {"confirm_delay_minutes": 30}},
        )
        verdict = nights(folder, 1, 5, notifier)[-1]
        assert len(verdict.fresh_runs) == 1
        assert not verdict.regressions
        assert (verdict.state, verdict.reason) == ("inconclusive", "served_changed")
        assert any("answered by newest, the night's by bad" in note for note in verdict.notes)
        assert slack.calls_of(POST) == []
        (after,) = nights(folder, 6, 6, notifier)  # the newest model is as slow: now it repeats
        assert after.exit_code == 1
        assert [one.what for one in after.changes] == ["served model"]


class Deaf:
    """A notifier whose channel is gone, as the port allows it to say."""

    kind = "deaf"

    async def send(self, message: Message, recipient: Recipient) -> Receipt:
        """Never delivers."""
        raise NotifierFault(f"nobody hears {message.key}", kind="gone", is_transient=False)


def test_undelivered_messages_keep_their_order(
    tmp_path: Path, slack: SlackServer, notifier: Notifier
) -> None:
    """Page and recovery wait together and go out in order, the note in the page's thread."""
    folder = slow_from(tmp_path, bad=3, good_=4)
    nights(folder, 1, 6, Deaf())
    assert len(bench(folder).services.records.unsent_messages()) == 2
    made: Bench = bench(folder, at=slot(7), notifier=notifier)
    assert asyncio.run(telling.deliver(made.services)) == 0
    page, note = slack.messages["C0TEAM"]
    assert "got worse" in page["text"]
    assert note["text"].startswith("Recovered")
    assert note["thread_ts"] == page["ts"]
    assert verdict_of(night(made, 7)).exit_code == 0
    assert len(slack.messages["C0TEAM"]) == 2
