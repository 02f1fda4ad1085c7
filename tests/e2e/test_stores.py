"""Several machines share one store, and stores fail: nothing is doubled, nothing is lost."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import boto3
import pytest

from tests.e2e.buckets import Bucket
from tests.e2e.gateway import Gateway
from tests.e2e.lookups import (
    CASES,
    CONCURRENCY,
    EVERY_CALL_ONCE,
    EVERY_CASE_ONCE,
    KEY,
    ROUNDS,
    RUN,
    left_over,
    lookup_api,
    lookup_project,
    recorded,
)
from tests.e2e.programs import NIGHT, WATCHKEEPER, Ended, finished, journaled, started
from tests.projects import FIRST_SLOT, write_project
from tests.servers.anthropic_replies import message
from tests.servers.anthropic_server import AnthropicServer, anthropic_server
from tests.servers.loopback import Reply, Request
from tests.servers.s3 import lenient_s3_server
from watchkeeper.store.history import History
from watchkeeper.store.objects import open_objects
from watchkeeper.store.objects.s3 import S3Objects
from watchkeeper.store.records import RunRecords

MACHINES = 8
SLOT = FIRST_SLOT.isoformat()
NEXT_SLOT = (FIRST_SLOT + timedelta(days=1)).isoformat()
TRIALS = 12
"""Of a run of the project that `write_project` makes where nothing else is said."""

_DENIED = Reply(403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")


@dataclass(frozen=True, slots=True)
class Shared:
    """A store that several machines reach, and what their programs need for it."""

    url: str
    variables: dict[str, str]

    def records(self) -> RunRecords:
        """The store as another machine sees it."""
        return RunRecords(open_objects(self.url, root=Path("/")))

    def machine(self, folder: Path) -> Path:
        """A machine of its own: a project folder that only shares the store."""
        folder.mkdir()
        return write_project(folder, watchkeeper={"store": self.url})


@pytest.fixture(params=["folder", "S3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    """A folder that all machines mount, and a bucket."""
    if request.param == "folder":
        return Shared((tmp_path / "shared").as_uri(), {})
    bucket: Bucket = request.getfixturevalue("bucket")
    return Shared(bucket.url(), bucket.variables)


def _rows(records: RunRecords, cache: Path, statement: str) -> list[tuple[object, ...]]:
    connection = History(records, cache).connect()
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_eight_machines_commit_one_run_once(tmp_path: Path, shared: Shared) -> None:
    """Of eight machines that finish the same run at the same moment one commits it.

    History holds the run once, with every trial once, and all eight report its one verdict.
    """
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    arguments = (SLOT, "--meet", str(meeting), str(MACHINES))
    folders = [shared.machine(tmp_path / f"machine-{number}") for number in range(MACHINES)]
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                started(NIGHT, *arguments, folder=folder, variables=shared.variables)
            )
            for folder in folders
        ]
        ended = [program.wait() for program in programs]

    assert len(list(meeting.iterdir())) == MACHINES
    assert [one.exit_code for one in ended] == [0] * MACHINES, ended
    assert len({json.dumps(one.json()["pairs"]) for one in ended}) == 1
    records, cache = shared.records(), tmp_path / "cache"
    (commit,) = records.commits()
    assert _rows(records, cache, "select run_id, passed, planned_count from runs") == [
        (commit.run_id, TRIALS, TRIALS)
    ]
    for table in ("trial_attempts", "trials", "grade_records", "transcripts"):
        counted = f"select count(*), count(distinct trial_id) from {table}"
        assert _rows(records, cache, counted) == [(TRIALS, TRIALS)], table
    assert [verdict["run_id"] for verdict in records.verdicts()] == [commit.run_id]
    assert [left_over(folder, records, commit.run_id) for folder in folders] == [[]] * MACHINES


def test_two_runs_committed_at_the_same_moment_are_both_there(
    tmp_path: Path, shared: Shared
) -> None:
    """Two machines that commit different runs at once do not get in each other's way."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    slots = {SLOT: tmp_path / "one", NEXT_SLOT: tmp_path / "two"}
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                started(
                    NIGHT,
                    *(slot, "--meet", str(meeting), "2"),
                    folder=shared.machine(folder),
                    variables=shared.variables,
                )
            )
            for slot, folder in slots.items()
        ]
        ended = [program.wait() for program in programs]

    assert [one.exit_code for one in ended] == [0, 0], ended
    rows = _rows(
        shared.records(),
        tmp_path / "cache",
        "select run_id, count(*), count(distinct trial_id) from trials group by 1 order by 1",
    )
    wanted = [one.json()["pairs"][0]["run_id"] for one in ended]
    assert rows == [(run_id, TRIALS, TRIALS) for run_id in wanted]


@pytest.mark.parametrize("read", ["/plan.json", ".jsonl.gz"])
def test_run_that_another_machine_commits_meanwhile_is_not_made_again(
    tmp_path: Path, bucket: Bucket, objects: S3Objects, read: str
) -> None:
    """A machine that joins a run just while another one commits it makes no trial of its own.

    What it was about to read from the staging area is gone by then, and that is no error.
    """
    variables = {**KEY, **bucket.variables}
    with (
        lookup_api(tmp_path / "api", delay_s=0.0) as api,
        Gateway(bucket.server.endpoint_url).running() as first_way,
        Gateway(bucket.server.endpoint_url).running() as second_way,
    ):
        first = lookup_project(tmp_path / "first", api, store=bucket.url(first_way.url))
        second = lookup_project(tmp_path / "second", api, store=bucket.url(second_way.url))
        with (
            first_way.holding("PUT", "/commits/", is_done=False) as hold,
            started(NIGHT, SLOT, folder=first, variables=variables) as committing,
        ):
            hold.wait()
            ended: list[Ended] = []

            def commit_first(request: Request) -> Reply | None:
                is_due = request.verb == "GET" and "/staging/" in request.path
                if is_due and request.path.endswith(read) and not ended:
                    hold.released.set()
                    ended.append(committing.wait())
                return None

            second_way.rule = commit_first
            ended.append(finished(NIGHT, SLOT, folder=second, variables=variables))

    assert [one.exit_code for one in ended] == [0, 0], ended
    assert ended[0].json()["pairs"] == ended[1].json()["pairs"]
    run_id = ended[0].json()["pairs"][0]["run_id"]
    assert api.asked() == EVERY_CALL_ONCE
    assert recorded(bucket.url(), tmp_path, run_id) == EVERY_CASE_ONCE
    assert left_over(second, RunRecords(objects), run_id) == []


@pytest.fixture
def api() -> Iterator[AnthropicServer]:
    """A Messages API that should not be called."""
    with anthropic_server(then=message("yes")) as server:
        yield server


def _refused(folder: Path, api: AnthropicServer, store: str, **variables: str) -> Ended:
    """The end of `run` and of a night with a store that cannot be used: both the same."""
    folder.mkdir(exist_ok=True)
    endpoint = {
        "kind": "anthropic",
        "model": "claude-sonnet-5-5",
        "api_key": "env:MODEL_KEY",
        "base_url": api.url,
        "owner": "team",
        "suites": ["basic"],
    }
    write_project(folder, watchkeeper={"store": store}, endpoints={"agent": endpoint})
    known = {**KEY, **variables}
    run = finished(WATCHKEEPER, *RUN, folder=folder, variables=known)
    night = finished(NIGHT, SLOT, folder=folder, variables=known)
    resume = ("run", "--resume", "20260302T023000Z-agent-basic-00000000")
    resumed = finished(WATCHKEEPER, *resume, folder=folder, variables=known)
    assert [one.exit_code for one in (run, night, resumed)] == [2, 2, 2], (run, night, resumed)
    assert {one.out for one in (run, night, resumed)} == {""}
    said = {re.sub(r"probe/[0-9a-f]+", "probe/…", one.err) for one in (run, night, resumed)}
    assert len(said) == 1, said
    assert api.calls == []
    return run


def test_store_that_accepts_a_second_conditional_write_is_refused(
    tmp_path: Path, api: AnthropicServer
) -> None:
    """A look-alike of S3 that ignores If-None-Match would lose a commit: 2 before any call."""
    with lenient_s3_server() as server:
        known = server.environment
        client = boto3.client(
            "s3",
            endpoint_url=server.endpoint_url,
            region_name=server.region,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
        )
        client.create_bucket(Bucket="lenient")
        ended = _refused(tmp_path / "project", api, "s3://lenient/records", **known)
        left = client.list_objects_v2(Bucket="lenient")["KeyCount"]
        client.close()
    assert "If-None-Match" in ended.err
    assert left == 0


def test_store_that_may_not_be_written_is_refused(
    tmp_path: Path, api: AnthropicServer, bucket: Bucket
) -> None:
    """Credentials that may only read are found before any call, and exit with 2."""

    def read_only(request: Request) -> Reply | None:
        return _DENIED if request.verb == "PUT" else None

    with Gateway(bucket.server.endpoint_url).running() as gateway:
        gateway.rule = read_only
        store = bucket.url(gateway.url)
        ended = _refused(tmp_path / "project", api, store, **bucket.variables)
    assert "s3:PutObject" in ended.err


def test_bucket_that_does_not_exist_is_refused(
    tmp_path: Path, api: AnthropicServer, bucket: Bucket
) -> None:
    """A wrong bucket is found before any call, and exits with 2."""
    store = bucket.url().replace(bucket.name, "another-bucket")
    ended = _refused(tmp_path / "project", api, store, **bucket.variables)
    assert "there is no bucket 'another-bucket'" in ended.err


def test_store_whose_server_is_not_there_is_refused(
    tmp_path: Path, api: AnthropicServer, bucket: Bucket
) -> None:
    """A server that nobody listens at is found before any call, and exits with 2."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    ended = _refused(tmp_path / "project", api, bucket.url(nobody), **bucket.variables)
    assert f"no connection to {nobody}" in ended.err


def test_folder_on_a_disk_that_is_not_mounted_is_refused(
    tmp_path: Path, api: AnthropicServer
) -> None:
    """A store is not made from below where its disk is missing: 2 before any call."""
    ended = _refused(tmp_path / "project", api, (tmp_path / "mount" / "records").as_uri())
    assert "is a disk not mounted?" in ended.err
    assert not (tmp_path / "mount").exists()


def test_file_in_place_of_the_store_is_refused(tmp_path: Path, api: AnthropicServer) -> None:
    """A store's folder that is a file is found before any call, and exits with 2."""
    (tmp_path / "records").write_text("not a folder")
    ended = _refused(tmp_path / "project", api, (tmp_path / "records").as_uri())
    assert str(tmp_path / "records") in ended.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_may_not_be_written_is_refused(tmp_path: Path, api: AnthropicServer) -> None:
    """A read-only folder is found before any call, and exits with 2."""
    (tmp_path / "records").mkdir(mode=0o555)
    ended = _refused(tmp_path / "project", api, (tmp_path / "records").as_uri())
    assert str(tmp_path / "records") in ended.err


@pytest.mark.parametrize("write", [".jsonl.gz", "/trials/"], ids=["mid-run", "commit"])
def test_store_that_goes_away_costs_nothing_that_was_finished(
    tmp_path: Path, bucket: Bucket, objects: S3Objects, write: str
) -> None:
    """A store that is gone in mid-run ends the run with 3 and keeps its finished trials here.

    Resuming it when the store is back makes what was not finished, and nothing else.
    """
    variables = {**KEY, **bucket.variables}
    with (
        lookup_api(tmp_path / "api", delay_s=0.02) as api,
        Gateway(bucket.server.endpoint_url).running() as gateway,
    ):
        folder = lookup_project(tmp_path / "project", api, store=bucket.url(gateway.url))

        def go_away(request: Request) -> Reply | None:
            if request.verb == "PUT" and write in request.path:
                gateway.target = None
            return None

        gateway.rule = go_away
        broken = finished(WATCHKEEPER, *RUN, folder=folder, variables=variables)
        run_id = broken.err.splitlines()[0].removeprefix("run ")
        kept, asked = journaled(folder), api.asked()
        still_broken = finished(WATCHKEEPER, *RUN, folder=folder, variables=variables)

        gateway.target, gateway.rule = bucket.server.endpoint_url, lambda _: None
        resume = ("run", "--resume", run_id, "--json")
        resumed = finished(WATCHKEEPER, *resume, folder=folder, variables=variables)
        after = api.asked()

    assert (broken.exit_code, broken.out) == (3, ""), broken
    assert bucket.url(gateway.url) in broken.err
    assert "Traceback" not in broken.err
    assert (still_broken.exit_code, still_broken.out) == (2, ""), still_broken
    assert len(kept) == CASES if write == "/trials/" else 8 <= len(kept) < CASES
    assert resumed.exit_code == 0, resumed.err
    assert {name: after[name] for name in kept.values()} == {
        name: asked[name] for name in kept.values()
    }
    assert after.total() <= (CASES + CONCURRENCY) * ROUNDS
    assert recorded(bucket.url(), tmp_path, run_id) == EVERY_CASE_ONCE
    assert left_over(folder, RunRecords(objects), run_id) == []


def test_catalog_that_cannot_be_written_is_told_and_changes_nothing(
    tmp_path: Path, bucket: Bucket
) -> None:
    """The catalog for other clients is a convenience: without it the exit code is the verdict's."""
    ended = _with_denied(tmp_path, bucket, "catalog.duckdb")
    assert [one.exit_code for one in ended] == [0, 0], ended
    assert all("the catalog was not published" in one.err for one in ended)


def test_store_that_refuses_after_the_first_call_is_a_broken_evaluation(
    tmp_path: Path, bucket: Bucket
) -> None:
    """Rights that are missing for the verdict alone show after the calls: 3, never 2."""
    ended = _with_denied(tmp_path, bucket, "/verdicts/")
    assert [one.exit_code for one in ended] == [3, 3], ended
    assert all("s3:PutObject" in one.err for one in ended)


def _with_denied(folder: Path, bucket: Bucket, part: str) -> list[Ended]:
    """The ends of `run` and of a night whose credentials may not write some objects."""
    with Gateway(bucket.server.endpoint_url).running() as gateway:
        gateway.rule = lambda asked: _DENIED if asked.verb == "PUT" and part in asked.path else None
        write_project(folder, watchkeeper={"store": bucket.url(gateway.url)})
        return [
            finished(module, *arguments, folder=folder, variables=bucket.variables)
            for module, arguments in ((WATCHKEEPER, RUN), (NIGHT, (SLOT,)))
        ]
