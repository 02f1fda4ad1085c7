"""A process that is killed loses nothing: every trial counts once and is paid for once."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.e2e.buckets import Bucket
from tests.e2e.gateway import Gateway
from tests.e2e.lookups import (
    CASES,
    CONCURRENCY,
    EVERY_CALL_ONCE,
    EVERY_CASE_ONCE,
    FAILING,
    KEY,
    ROUNDS,
    RUN,
    left_over,
    lookup_api,
    lookup_project,
    recorded,
)
from tests.e2e.programs import (
    NIGHT,
    WATCHKEEPER,
    Ended,
    finished,
    journaled,
    run_folder,
    started,
)
from tests.projects import FIRST_SLOT, bench, case, script, scripted_endpoint, suite, write_project
from tests.servers.slack_server import SlackServer, slack_server
from watchkeeper.pipeline.nightly import nightly
from watchkeeper.store.objects import open_objects
from watchkeeper.store.objects.s3 import S3Objects
from watchkeeper.store.records import RunRecords

KILLED_AFTER = (0, *sorted(random.Random(20260301).sample(range(1, CASES - 10), 4)))
"""How many trials are finished when the process is killed; it is resumed after each kill."""


def _resume(folder: Path) -> tuple[str, ...]:
    """The command that finishes what is unfinished here, or begins where nothing is."""
    run = run_folder(folder)
    return RUN if run is None else ("run", "--resume", run.name, "--json")


def test_run_killed_again_and_again_pays_for_no_finished_trial_twice(tmp_path: Path) -> None:
    """A run that is killed at any moment and resumed ends as one that never was.

    No finished trial is made again: more is paid only for what was in flight at each kill.
    """
    with lookup_api(tmp_path / "api", delay_s=0.1) as api:
        folder = lookup_project(tmp_path / "project", api)
        paid_for: dict[str, int] = {}
        for count in KILLED_AFTER:
            with started(WATCHKEEPER, *_resume(folder), folder=folder, variables=KEY) as program:

                def is_there(wanted: int = count) -> bool:
                    return run_folder(folder) is not None and len(journaled(folder)) >= wanted

                program.until(is_there)
                program.kill()
            asked = api.asked()
            assert {name: asked[name] for name in paid_for} == paid_for
            paid_for = {name: asked[name] for name in journaled(folder).values()}
            assert len(paid_for) >= count
        resumed = _resume(folder)
        run_id = resumed[2]
        ended = finished(WATCHKEEPER, *resumed, folder=folder, variables=KEY)
        assert (ended.exit_code, ended.json()["run_id"]) == (0, run_id), ended.err
        asked = api.asked()
        untouched = lookup_project(tmp_path / "untouched", api)
        never_killed = finished(WATCHKEEPER, *RUN, folder=untouched, variables=KEY)

    assert {name: asked[name] for name in paid_for} == paid_for
    in_flight = CONCURRENCY * len(KILLED_AFTER)
    assert CASES * ROUNDS <= asked.total() <= (CASES + in_flight) * ROUNDS
    assert recorded("file:./store", folder, run_id) == EVERY_CASE_ONCE
    records = RunRecords(open_objects("file:./store", root=folder))
    assert left_over(folder, records, run_id) == []
    assert ended.json()["counts"] == never_killed.json()["counts"]
    assert ended.json()["counts"]["passed"] == CASES - len(FAILING)


COMMIT_MOMENTS = {
    "rows not stored": ("PUT", "/trials/", False),
    "rows half stored": ("PUT", "/grades/", True),
    "commit not stored": ("PUT", "/commits/", False),
    "commit stored, answer lost": ("PUT", "/commits/", True),
    "staging half cleared": ("DELETE", "/staging/", True),
    "verdict not stored": ("PUT", "/verdicts/", False),
}


@pytest.mark.parametrize(
    ("verb", "part", "is_done"), COMMIT_MOMENTS.values(), ids=COMMIT_MOMENTS.keys()
)
def test_run_killed_while_it_commits_is_committed_once(
    tmp_path: Path, bucket: Bucket, objects: S3Objects, verb: str, part: str, *, is_done: bool
) -> None:
    """A run that is killed between any two writes of its commit is part of history once.

    Resuming it makes no call and leaves nothing aside.
    """
    variables = {**KEY, **bucket.variables}
    with (
        lookup_api(tmp_path / "api", delay_s=0.0) as api,
        Gateway(bucket.server.endpoint_url).running() as gateway,
    ):
        folder = lookup_project(tmp_path / "project", api, store=bucket.url(gateway.url))
        with (
            gateway.holding(verb, part, is_done=is_done) as hold,
            started(WATCHKEEPER, *RUN, folder=folder, variables=variables) as program,
        ):
            hold.wait()
            said = program.kill()
        run_id = said.err.splitlines()[0].removeprefix("run ")
        asked = api.asked()
        resume = ("run", "--resume", run_id, "--json")
        ended = finished(WATCHKEEPER, *resume, folder=folder, variables=variables)
        again = finished(WATCHKEEPER, *resume, folder=folder, variables=variables)

    assert (ended.exit_code, again.exit_code) == (0, 0), ended.err + again.err
    assert ended.json() == again.json()
    assert asked == api.asked()
    assert asked == EVERY_CALL_ONCE
    assert recorded(bucket.url(), tmp_path, run_id) == EVERY_CASE_ONCE
    assert left_over(folder, RunRecords(objects), run_id) == []


NIGHT_MOMENTS = {
    "fresh trials not committed": ("PUT", "-confirm1.json", False),
    "verdict not stored": ("PUT", "/verdicts/", False),
    "verdict stored": ("PUT", "/verdicts/", True),
    "incident not stored": ("PUT", "/incidents/", False),
    "incident stored": ("PUT", "/incidents/", True),
    "message not queued": ("PUT", "/outbox/", False),
    "message queued": ("PUT", "/outbox/", True),
    "receipt not stored": ("PUT", "/receipts/", False),
    "receipt stored": ("PUT", "/receipts/", True),
}


@dataclass(frozen=True, slots=True)
class Regressing:
    """A project with two good nights in its store, whose third night is worse."""

    folder: Path
    variables: Mapping[str, str]

    def night(self) -> tuple[str, ...]:
        """The arguments of the third night's program."""
        return ((FIRST_SLOT + timedelta(days=2)).isoformat(),)


async def _regressing(
    folder: Path, store: str, seen_by_program: str, slack_url: str, variables: Mapping[str, str]
) -> Regressing:
    worse_at = FIRST_SLOT + timedelta(days=1, hours=12)
    write_project(
        folder,
        watchkeeper={"store": store, "slack": {"token": "env:SLACK_BOT_TOKEN"}},
        owners={
            "team": {"slack_channel": "C0TEAM", "mention": "<@U77>"},
            "platform": {"slack_channel": "C0PLATFORM"},
        },
        endpoints={"agent": scripted_endpoint()},
        suites={"basic": suite([case(f"case-{number}") for number in range(8)])},
        scripts={
            "agent": script(
                {"match": {"served": ["model-v2"]}, "endings": [{"text": "no"}]},
                {"endings": [{"text": "yes"}]},
                served=[{"model": "model-v1"}, {"model": "model-v2", "since": str(worse_at)}],
            )
        },
    )
    known = {**variables, "SLACK_BOT_TOKEN": "xoxb-1-test", "WATCHKEEPER_SLACK_URL": slack_url}
    for days in range(2):
        at = FIRST_SLOT + timedelta(days=days)
        result = await nightly(at, bench(folder, at=at, variables=known).steps())
        assert result.exit_code == 0
    return Regressing(folder, {**known, "WATCHKEEPER_STORE": seen_by_program})


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    """A workspace with a channel for each owner."""
    with slack_server(channels={"C0TEAM": "team", "C0PLATFORM": "platform"}) as server:
        yield server


@pytest.mark.parametrize(
    ("verb", "part", "is_done"), NIGHT_MOMENTS.values(), ids=NIGHT_MOMENTS.keys()
)
async def test_night_killed_before_its_page_sends_it_once(
    tmp_path: Path,
    bucket: Bucket,
    objects: S3Objects,
    slack: SlackServer,
    verb: str,
    part: str,
    *,
    is_done: bool,
) -> None:
    """A night that is killed between verdict, incident and message pages once.

    The page comes when the night is started again, and not again at the third start.
    """
    with Gateway(bucket.server.endpoint_url).running() as gateway:
        project = await _regressing(
            tmp_path, bucket.url(), bucket.url(gateway.url), slack.base_url, bucket.variables
        )
        with (
            gateway.holding(verb, part, is_done=is_done) as hold,
            started(NIGHT, *project.night(), folder=tmp_path, variables=project.variables) as night,
        ):
            hold.wait()
            night.kill()
        was_sent = len(slack.messages["C0TEAM"])
        ended = [
            finished(NIGHT, *project.night(), folder=tmp_path, variables=project.variables)
            for _ in range(2)
        ]

    assert was_sent == (1 if part == "/receipts/" else 0)
    _assert_told_once(ended, objects, slack)
    assert len(slack.messages["C0TEAM"]) == 1


async def test_page_that_slack_never_saw_is_sent_after_the_kill(
    tmp_path: Path, bucket: Bucket, objects: S3Objects, slack: SlackServer
) -> None:
    """A night that is killed while it calls Slack sends the page when it is started again."""
    with Gateway(slack.url).running() as gateway:
        project = await _regressing(
            tmp_path, bucket.url(), bucket.url(), f"{gateway.url}/api/", bucket.variables
        )
        with (
            gateway.holding("POST", "chat.postMessage", is_done=False) as hold,
            started(NIGHT, *project.night(), folder=tmp_path, variables=project.variables) as night,
        ):
            hold.wait()
            night.kill()
        ended = [finished(NIGHT, *project.night(), folder=tmp_path, variables=project.variables)]
    _assert_told_once(ended, objects, slack)
    assert len(slack.messages["C0TEAM"]) == 1


async def test_page_whose_answer_was_lost_comes_again_under_the_same_key(
    tmp_path: Path, bucket: Bucket, objects: S3Objects, slack: SlackServer
) -> None:
    """A page that Slack took just before the kill comes again under the key of the first.

    Slack dedupes nothing for bots, so at least once is all that can be promised.
    """
    with Gateway(slack.url).running() as gateway:
        project = await _regressing(
            tmp_path, bucket.url(), bucket.url(), f"{gateway.url}/api/", bucket.variables
        )
        with (
            gateway.holding("POST", "chat.postMessage", is_done=True) as hold,
            started(NIGHT, *project.night(), folder=tmp_path, variables=project.variables) as night,
        ):
            hold.wait()
            night.kill()
        ended = [finished(NIGHT, *project.night(), folder=tmp_path, variables=project.variables)]
    _assert_told_once(ended, objects, slack)
    first, second = slack.messages["C0TEAM"]
    assert first["metadata"] == second["metadata"]


def _assert_told_once(ended: list[Ended], objects: S3Objects, slack: SlackServer) -> None:
    """Exit 1, one verdict a night, one incident, one queued message with its receipt."""
    assert [one.exit_code for one in ended] == [1] * len(ended), ended[0].err
    assert {one.json()["undelivered_count"] for one in ended} == {0}
    records = RunRecords(objects)
    nights = Counter(verdict["slot_at"] for verdict in records.verdicts())
    assert [*nights.values()] == [1, 1, 1]
    assert sorted(event["kind"] for event in records.events()) == ["opened", "sent"]
    outbox = [json.loads(objects.get(info.key)) for info in objects.list("outbox/")]
    receipts = [json.loads(objects.get(info.key)) for info in objects.list("receipts/")]
    assert len(outbox) == len(receipts) == 1
    assert outbox[0]["key"] == receipts[0]["key"]
    assert list(objects.list("staging/")) == []
    assert slack.messages["C0PLATFORM"] == []
