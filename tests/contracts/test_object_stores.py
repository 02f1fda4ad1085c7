"""One contract for every object store, on a real folder and a real S3 API server."""

from __future__ import annotations

import hashlib
import http.client
import multiprocessing
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.servers.s3 import S3Server, lenient_s3_server, s3_server
from watchkeeper.errors import (
    RecordUnreadable,
    StoreRefused,
    StoreUnavailable,
    UsageError,
    WatchkeeperError,
)
from watchkeeper.store.cache import FileRef, ObjectCache
from watchkeeper.store.objects import open_objects
from watchkeeper.store.objects.local import LocalObjects
from watchkeeper.store.objects.port import (
    TEMPORARY_PREFIX,
    KeyRefused,
    ObjectInfo,
    ObjectMissing,
    ObjectStore,
)
from watchkeeper.store.objects.s3 import S3Limits, S3Objects
from watchkeeper.store.objects.urls import S3Address, s3_address

SPAWN = multiprocessing.get_context("spawn")
WRITERS = 8
ROUNDS = 20
PATIENCE_S = 60
QUICK = S3Limits(connect_seconds=1, read_seconds=2, attempts=2, conflict_seconds=0.0)
NOBODY = 65534

# ---- stores ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One S3 server for this file."""
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def bucket(server: S3Server) -> str:
    """A bucket that is there."""
    return _new_bucket(server)


@pytest.fixture
def aws(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> S3Server:
    """The server, with its credentials and nothing else in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    return server


@pytest.fixture
def remote(aws: S3Server, bucket: str) -> Iterator[S3Objects]:
    """A fresh prefix in a bucket; listings come in pages of three."""
    address = S3Address(
        bucket, f"store-{secrets.token_hex(6)}", endpoint_url=aws.endpoint_url, region=aws.region
    )
    objects = S3Objects(address, limits=S3Limits(page_size=3))
    yield objects
    objects.close()


@pytest.fixture
def local(tmp_path: Path) -> LocalObjects:
    """A store in a folder that does not exist yet."""
    return LocalObjects(tmp_path / "store")


@pytest.fixture(params=["local", "s3"])
def objects(request: pytest.FixtureRequest) -> ObjectStore:
    """Each kind of store, empty."""
    store: ObjectStore = request.getfixturevalue("local" if request.param == "local" else "remote")
    return store


def _new_bucket(server: S3Server) -> str:
    name = f"records-{secrets.token_hex(6)}"
    client = boto3.session.Session(server.access_key, server.secret_key).client(
        "s3", endpoint_url=server.endpoint_url, region_name="us-east-1"
    )
    client.create_bucket(Bucket=name)
    client.close()
    return name


def _fault(call: Callable[[], object]) -> WatchkeeperError:
    """What the call raises, after a look for the secret key in everything that it says."""
    with pytest.raises(WatchkeeperError) as caught:
        call()
    secret = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if secret and len(secret) > 10:
        assert secret not in "".join(traceback.format_exception(caught.value))
    return caught.value


def _keys(objects: ObjectStore, prefix: str = "") -> list[str]:
    return [info.key for info in objects.list(prefix)]


def _exits(process: Any) -> None:
    process.join(PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode == 0
    process.close()


# ---- the contract ------------------------------------------------------------------------------


def test_put_if_absent_creates_once(objects: ObjectStore) -> None:
    """The first write of a key is True and stays; a second is False, even with equal bytes."""
    assert objects.put_if_absent("commits/r1.json", b"one") is True
    assert objects.put_if_absent("commits/r1.json", b"two") is False
    assert objects.put_if_absent("commits/r1.json", b"one") is False
    assert objects.get("commits/r1.json") == b"one"


def _race(url: str, me: int, barrier: Barrier, results: Queue[tuple[int, list[bool]]]) -> None:
    objects = open_objects(url, root=Path.cwd())
    won = []
    for number in range(ROUNDS):
        barrier.wait(PATIENCE_S)
        won.append(objects.put_if_absent(f"commits/round-{number:02}.json", str(me).encode()))
    results.put((me, won))


def test_of_racing_processes_exactly_one_wins(objects: ObjectStore) -> None:
    """Eight processes write one key at once, 20 times: one True each, and its bytes are stored."""
    barrier = SPAWN.Barrier(WRITERS)
    results: Queue[tuple[int, list[bool]]] = SPAWN.Queue()
    writers = [
        SPAWN.Process(target=_race, args=(objects.url, me, barrier, results))
        for me in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    won = dict(results.get(timeout=PATIENCE_S) for _ in writers)
    for writer in writers:
        _exits(writer)
    results.close()
    for number in range(ROUNDS):
        winners = [me for me in won if won[me][number]]
        assert len(winners) == 1, f"round {number}: {winners}"
        assert objects.get(f"commits/round-{number:02}.json") == str(winners[0]).encode()
    assert len(_keys(objects)) == ROUNDS


def test_put_overwrites_whole(objects: ObjectStore) -> None:
    """The last put is what is read; an empty object is an object."""
    objects.put("catalog.duckdb", b"a long first version")
    objects.put("catalog.duckdb", b"short")
    assert objects.get("catalog.duckdb") == b"short"
    objects.put("catalog.duckdb", b"")
    assert objects.get("catalog.duckdb") == b""
    assert list(objects.list("")) == [ObjectInfo("catalog.duckdb", 0)]


def test_large_object_round_trips(objects: ObjectStore) -> None:
    """Several megabytes of bytes of every kind come back as they were."""
    data = secrets.token_bytes(5_000_001)
    assert objects.put_if_absent("trials/big.parquet", data)
    assert objects.get("trials/big.parquet") == data


def test_missing_object_is_its_own_error(objects: ObjectStore) -> None:
    """Reading a key without an object raises ObjectMissing, which names key and store."""
    objects.put("commits/r1.json", b"1")
    for key in ("commits/r2.json", "nothing/at/all", "commits"):
        with pytest.raises(ObjectMissing) as caught:
            objects.get(key)
        assert caught.value.key == key
        assert repr(key) in str(caught.value)
        assert objects.url in str(caught.value)
        assert isinstance(caught.value, RecordUnreadable)


def test_delete_is_repeatable(objects: ObjectStore) -> None:
    """A deleted object is gone; deleting it again is no error; the key can be written anew."""
    objects.put("staging/r1/a", b"1")
    objects.put("staging/r1/b", b"2")
    objects.delete("staging/r1/a")
    objects.delete("staging/r1/a")
    objects.delete("staging/never/was")
    assert _keys(objects) == ["staging/r1/b"]
    objects.delete("staging/r1/b")
    assert _keys(objects) == []
    assert objects.put_if_absent("staging/r1/a", b"3")


def test_list_is_sorted_by_key_over_folders_and_pages(objects: ObjectStore) -> None:
    """The order is that of whole keys, where '-' and '.' come before '/', as in S3."""
    keys = ["a-b", "a.b", "a/b", "a/b-c", "a/bc/d", "a0", "b", "commits/r1", "commits/r10", "ä"]
    for key in reversed(keys):
        objects.put(key, key.encode())
    assert list(objects.list("")) == [ObjectInfo(key, len(key.encode())) for key in keys]
    assert _keys(objects, "a/") == ["a/b", "a/b-c", "a/bc/d"]
    assert _keys(objects, "a/b") == ["a/b", "a/b-c", "a/bc/d"]
    assert _keys(objects, "a") == keys[:6]
    assert _keys(objects, "commits/r10") == ["commits/r10"]
    assert _keys(objects, "none/") == []


ODD_KEYS = [
    "trials/run_date=2026-05-14/run_id=nightly:support-agent@1/ab.parquet",
    "with space/ leading and trailing ",
    "percent/%2e%2e/100%25+plus&amp;=x?y#z",
    "quotes/'single' \"double\" `tick` $HOME;*[!a]",
    "unicode/ñandú/東京/🙂",
    ".hidden/.file",
    "-rf/~",
    "...",
    "x" * 255,
    "/".join(["d" * 99] * 9),
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys_are_plain_text(objects: ObjectStore, key: str) -> None:
    """Whatever has a meaning in a URL, a shell or a pattern has none in a key."""
    assert objects.put_if_absent(key, b"odd") is True
    assert objects.put_if_absent(key, b"again") is False
    assert objects.get(key) == b"odd"
    assert list(objects.list(key)) == [ObjectInfo(key, 3)]
    objects.delete(key)
    assert _keys(objects) == []


REFUSED_KEYS = [
    "",
    "/etc/passwd",
    "commits/",
    "a//b",
    "..",
    "../outside",
    "a/../../outside",
    "./a",
    "a\\b",
    "a\0b",
    "a\nb",
    "\ud800",
    "x" * 256,
    "a/" * 500 + "a",
    f"commits/{TEMPORARY_PREFIX}1",
]


@pytest.mark.parametrize("key", REFUSED_KEYS, ids=range(len(REFUSED_KEYS)))
def test_keys_that_lead_elsewhere_are_refused(objects: ObjectStore, key: str) -> None:
    """Every method refuses such a key before it touches anything."""
    calls: list[Callable[[], object]] = [
        lambda: objects.put_if_absent(key, b"x"),
        lambda: objects.put(key, b"x"),
        lambda: objects.get(key),
        lambda: objects.delete(key),
        lambda: objects.local_path(key),
    ]
    for call in calls:
        with pytest.raises(KeyRefused):
            call()
    assert _keys(objects) == []
    with pytest.raises(KeyRefused):
        objects.list("../")


def test_probe_passes_and_leaves_nothing(objects: ObjectStore) -> None:
    """A sound store passes twice in a row, and the probe's own objects are gone."""
    objects.probe()
    objects.probe()
    assert _keys(objects) == []


def test_url_opens_the_same_store(objects: ObjectStore, tmp_path: Path) -> None:
    """What ``url`` shows can be given back to open_objects."""
    objects.put("a", b"1")
    assert open_objects(objects.url, root=tmp_path).get("a") == b"1"


def test_local_path_is_the_object_itself(local: LocalObjects, remote: S3Objects) -> None:
    """A folder's object is read in place; an object in S3 has no path."""
    local.put("trials/a.parquet", b"rows")
    assert local.local_path("trials/a.parquet").read_bytes() == b"rows"
    assert remote.local_path("trials/a.parquet") is None


# ---- a local folder ----------------------------------------------------------------------------


def test_long_local_listing(local: LocalObjects, tmp_path: Path) -> None:
    """Far more keys than one S3 page are listed once each, in order; foreign names are not."""
    folder = tmp_path / "store" / "commits"
    folder.mkdir(parents=True)
    for number in range(2500):
        (folder / f"r{number:05}.json").write_bytes(b"{}")
    (folder / "back\\slash").write_bytes(b"")
    (folder / "loop").symlink_to(folder)
    keys = _keys(local, "commits/r")
    assert keys == [f"commits/r{number:05}.json" for number in range(2500)]


def test_reading_a_store_that_is_not_there_yet(tmp_path: Path) -> None:
    """Before the first write there is nothing to list, and nothing is created by looking."""
    objects = LocalObjects(tmp_path / "watchkeeper-data")
    assert _keys(objects) == []
    with pytest.raises(ObjectMissing):
        objects.get("commits/r1.json")
    assert list(tmp_path.iterdir()) == []


def test_missing_parent_is_refused(tmp_path: Path) -> None:
    """A store on a disk that is not mounted is refused, not created on the disk below."""
    objects = LocalObjects(tmp_path / "mnt" / "store")
    fault = _fault(objects.probe)
    assert isinstance(fault, StoreRefused)
    assert str(tmp_path / "mnt") in str(fault)
    assert "Create or mount" in str(fault)
    assert list(tmp_path.iterdir()) == []


def test_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A file in the store's place stops reading, listing and writing alike, and stays as it is."""
    file = tmp_path / "store"
    file.write_bytes(b"mine")
    objects = LocalObjects(file)
    calls: list[Callable[[], object]] = [
        objects.probe,
        lambda: objects.put("a", b"x"),
        lambda: objects.get("a"),
        lambda: _keys(objects),
    ]
    for call in calls:
        fault = _fault(call)
        assert isinstance(fault, StoreRefused)
        assert "a file stands where a folder was expected" in str(fault)
    assert file.read_bytes() == b"mine"


def test_folder_in_the_place_of_an_object_is_refused(local: LocalObjects) -> None:
    """A key that is another's folder is no "already there"."""
    local.put("a/b", b"1")
    for call in (lambda: local.put_if_absent("a", b"x"), lambda: local.put("a", b"x")):
        fault = _fault(call)
        assert isinstance(fault, StoreRefused)
        assert "a folder stands where a file was expected" in str(fault)
    assert isinstance(_fault(lambda: local.put("a/b/c", b"x")), StoreRefused)
    assert _keys(local) == ["a/b"]


def _refused_as_nobody(folder: str, results: Queue[tuple[str, str]]) -> None:
    objects = LocalObjects(Path(folder))
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    for call in (objects.probe, lambda: objects.put("a", b"x")):
        try:
            call()
        except WatchkeeperError as error:
            results.put((type(error).__name__, str(error)))
        else:
            results.put(("none", ""))


def test_unwritable_folder_is_refused() -> None:
    """Without write permission the message names the folder and the way out."""
    above = Path(tempfile.mkdtemp())
    try:
        above.chmod(0o755)
        folder = above / "store"
        folder.mkdir()
        folder.chmod(0o555)
        results: Queue[tuple[str, str]] = SPAWN.Queue()
        child = SPAWN.Process(target=_refused_as_nobody, args=(str(folder), results))
        child.start()
        said = [results.get(timeout=PATIENCE_S) for _ in range(2)]
        _exits(child)
        results.close()
        for kind, text in said:
            assert kind == "StoreRefused"
            assert str(folder) in text
            assert "no permission" in text
            assert "Give this user write permission" in text
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(above)


@contextmanager
def _small_disk(folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", ",".join(("size=1m", *options)), "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_leaves_no_half_object(tmp_path: Path) -> None:
    """What does not fit is not stored in part, and what was there before is still whole."""
    with _small_disk(tmp_path / "disk") as disk:
        objects = LocalObjects(disk / "store")
        objects.put("catalog.duckdb", b"old")
        assert objects.put_if_absent("commits/r1.json", b"x" * 400_000)
        too_much = b"y" * 900_000
        calls: list[Callable[[], object]] = [
            lambda: objects.put_if_absent("commits/r2.json", too_much),
            lambda: objects.put("catalog.duckdb", too_much),
        ]
        for call in calls:
            fault = _fault(call)
            assert isinstance(fault, StoreUnavailable)
            assert "the disk is full" in str(fault)
            assert str(disk / "store") in str(fault)
        assert _keys(objects) == ["catalog.duckdb", "commits/r1.json"]
        assert objects.get("catalog.duckdb") == b"old"
        assert [path for path in disk.rglob("*") if path.name.startswith(TEMPORARY_PREFIX)] == []
        assert objects.put_if_absent("commits/r2.json", b"fits")


def test_read_only_disk_is_refused(tmp_path: Path) -> None:
    """A disk mounted read-only is refused with what to do."""
    with _small_disk(tmp_path / "disk", "ro") as disk:
        fault = _fault(LocalObjects(disk / "store").probe)
        assert isinstance(fault, StoreRefused)
        assert "mounted read-only" in str(fault)


def _write_large(folder: str, key: str) -> None:
    LocalObjects(Path(folder)).put_if_absent(key, bytes(64_000_000))


def test_killed_writer_leaves_nothing_listed(local: LocalObjects, tmp_path: Path) -> None:
    """Kill -9 while the temporary file is there: no object; probe clears it after a grace."""
    folder = tmp_path / "store"
    for attempt in range(5):
        key = f"commits/r{attempt}.json"
        writer = SPAWN.Process(target=_write_large, args=(str(folder), key))
        writer.start()
        deadline = time.monotonic() + PATIENCE_S
        while not (left := list(folder.rglob(f"{TEMPORARY_PREFIX}*"))):
            assert time.monotonic() < deadline
        writer.kill()
        writer.join()
        writer.close()
        if left[0].exists() and not (folder / key).exists():
            break
    else:
        pytest.fail("the writer was faster than kill -9, five times")
    assert _keys(local, key) == []
    with pytest.raises(ObjectMissing):
        local.get(key)
    local.probe()
    assert left[0].exists(), "a young file may belong to a writer that is alive"
    yesterday = time.time() - 86_400
    os.utime(left[0], (yesterday, yesterday))
    local.probe()
    assert not left[0].exists()
    assert local.put_if_absent(key, b"now")


def test_emptied_folders_do_not_stop_writers(local: LocalObjects) -> None:
    """Deleting the last object of a folder while others write into it loses no write."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            local.put("staging/r1/churn", b"1")
            local.delete("staging/r1/churn")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for number in range(100):
            assert local.put_if_absent("staging/r1/steady", str(number).encode())
            local.delete("staging/r1/steady")
    finally:
        stop.set()
        thread.join()


# ---- S3, as it answers when something is wrong -------------------------------------------------


class _Front(ThreadingHTTPServer):
    """Stands before the S3 server and spoils the answers that ``script`` says, in order.

    ``pass`` forwards; ``lose`` forwards and hangs up; ``drop`` hangs up; ``cut`` sends half of
    the body; ``503 SlowDown`` and the like are answered here. When the script ends: the last.
    """

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _FrontHandler)
        self.upstream = upstream.removeprefix("http://")
        self.script: list[str] = ["pass"]
        self.methods: list[str] = []

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _FrontHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Front

    def do_PUT(self) -> None:
        """One request, forwarded or spoiled as the script says."""
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.server.methods.append(self.command)
        script = self.server.script
        step = script.pop(0) if len(script) > 1 else script[0]
        if step == "drop":
            self.close_connection = True
        elif step[0].isdigit():
            status, _, code = step.partition(" ")
            self._answer(int(status), {}, f"<Error><Code>{code}</Code></Error>".encode())
        else:
            status_there, headers, answer = self._forward(body)
            if step == "pass":
                self._answer(status_there, headers, answer)
            elif step == "cut":
                self._answer(status_there, headers, answer, sent=len(answer) // 2)
                self.close_connection = True
            else:
                self.close_connection = True

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=PATIENCE_S)
        kept = {name: text for name, text in self.headers.items() if name.lower() != "expect"}
        connection.request(self.command, self.path, body, kept)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, {"ETag": response.headers.get("ETag", "")}, answer

    def _answer(
        self, status: int, headers: dict[str, str], body: bytes, sent: int | None = None
    ) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent])

    def do_GET(self) -> None:
        """As PUT."""
        self.do_PUT()

    def do_DELETE(self) -> None:
        """As PUT."""
        self.do_PUT()

    def log_message(self, *arguments: object) -> None:
        """Nothing: the test says what matters."""


@pytest.fixture
def front(aws: S3Server) -> Iterator[_Front]:
    """The server behind a front that spoils answers."""
    with _Front(aws.endpoint_url) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the fronted store would have waited."""
    return []


@pytest.fixture
def fronted(front: _Front, bucket: str, waits: list[float]) -> Iterator[S3Objects]:
    """A store that talks through the front."""
    address = S3Address(
        bucket, f"front-{secrets.token_hex(6)}", endpoint_url=front.endpoint_url, region="us-east-1"
    )
    limits = S3Limits(connect_seconds=1, read_seconds=5, attempts=3)
    objects = S3Objects(address, limits=limits, sleep=waits.append)
    yield objects
    objects.close()


def test_lost_answer_to_our_own_write_is_ours(front: _Front, fronted: S3Objects) -> None:
    """The server stored it, the answer was lost, the repetition met 412: that was us."""
    front.script = ["lose", "pass"]
    assert fronted.put_if_absent("commits/r1.json", b"token of worker 1") is True
    assert front.methods == ["PUT", "PUT", "GET"]


def test_lost_request_and_a_faster_writer_is_not_ours(front: _Front, fronted: S3Objects) -> None:
    """Our request never arrived and another's did: the repetition meets 412 and other bytes."""
    fronted.put("commits/r1.json", b"token of worker 2")
    front.script = ["drop", "pass"]
    assert fronted.put_if_absent("commits/r1.json", b"token of worker 1") is False


def test_conflict_is_repeated_within_bounds(
    front: _Front, fronted: S3Objects, waits: list[float]
) -> None:
    """409 means "another is under way": tried again, and given up after a known number."""
    front.script = ["409 ConditionalRequestConflict"] * 2 + ["pass"]
    assert fronted.put_if_absent("commits/r1.json", b"1") is True
    assert waits == [0.1, 0.2]
    front.script = ["409 ConditionalRequestConflict"]
    front.methods.clear()
    fault = _fault(lambda: fronted.put_if_absent("commits/r2.json", b"1"))
    assert isinstance(fault, StoreUnavailable)
    assert "HTTP 409" in str(fault)
    assert len(front.methods) == S3Limits().conflict_attempts


def test_conflict_after_a_lost_answer_is_still_ours(front: _Front, fronted: S3Objects) -> None:
    """That an answer was lost is remembered across a 409."""
    front.script = ["lose", "409 ConditionalRequestConflict", "pass"]
    assert fronted.put_if_absent("commits/r1.json", b"token of worker 1") is True


def test_answer_that_breaks_off_is_fetched_again(front: _Front, fronted: S3Objects) -> None:
    """Half an object is never returned; a store that only ever sends half is unavailable."""
    fronted.put("trials/a.parquet", bytes(range(256)) * 40)
    front.script = ["cut", "pass"]
    assert fronted.get("trials/a.parquet") == bytes(range(256)) * 40
    front.script = ["cut"]
    fault = _fault(lambda: fronted.get("trials/a.parquet"))
    assert isinstance(fault, StoreUnavailable)
    assert "broke" in str(fault)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ("403 InvalidAccessKeyId", StoreRefused, "does not accept the access key"),
        ("403 SignatureDoesNotMatch", StoreRefused, "does not accept the access key"),
        ("403 AccessDenied", StoreRefused, "s3:PutObject"),
        ("403 ", StoreRefused, "s3:PutObject"),
        ("400 ExpiredToken", StoreRefused, "Sign in again"),
        ("403 RequestTimeTooSkewed", StoreUnavailable, "Set the clock"),
        ("301 PermanentRedirect", StoreRefused, "Add region="),
        ("400 IllegalLocationConstraintException", StoreRefused, "Add region="),
        ("404 NoSuchBucket", StoreRefused, "Create the bucket"),
        ("501 NotImplemented", StoreRefused, "conditional writes"),
        ("400 InvalidRequest", StoreRefused, "Look the code up"),
        ("429 TooManyRequests", StoreUnavailable, "can be run again"),
        ("503 SlowDown", StoreUnavailable, "still at request 2"),
        ("500 InternalError", StoreUnavailable, "InternalError (HTTP 500)"),
    ],
)
def test_each_refusal_says_what_to_do(
    front: _Front,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    kind: type[WatchkeeperError],
    words: str,
) -> None:
    """The message names the store, the server's word and the remedy, and never the secret."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-QmFzZTY0-secret-value")
    address = S3Address(bucket, endpoint_url=front.endpoint_url, region="us-east-1")
    objects = S3Objects(address, limits=QUICK)
    front.script = [answer]
    try:
        calls: list[Callable[[], object]] = [
            objects.probe,
            lambda: objects.put("a", b"x"),
            lambda: objects.get("a"),
            lambda: _keys(objects),
        ]
        for call in calls if answer.startswith("4") else calls[:1]:
            fault = _fault(call)
            assert type(fault) is kind
            assert words in str(fault)
            assert objects.url in str(fault)
            assert answer.partition(" ")[2] in str(fault)
    finally:
        objects.close()


def test_lenient_server_is_refused(aws: S3Server) -> None:
    """A server that takes a second conditional write is refused with the reason, and cleaned."""
    with lenient_s3_server() as lenient:
        name = _new_bucket(lenient)
        objects = S3Objects(
            S3Address(name, endpoint_url=lenient.endpoint_url, region=lenient.region)
        )
        fault = _fault(objects.probe)
        assert isinstance(fault, StoreRefused)
        for words in (objects.url, "accepted a second write", "lost", "Use a store", "412"):
            assert words in str(fault)
        assert _keys(objects) == []
        objects.close()


def test_missing_bucket_is_refused(aws: S3Server) -> None:
    """A real server's answer for a bucket that is not there."""
    address = S3Address("no-such-bucket", endpoint_url=aws.endpoint_url, region=aws.region)
    objects = S3Objects(address, limits=QUICK)
    calls: list[Callable[[], object]] = [
        objects.probe,
        lambda: objects.get("a"),
        lambda: _keys(objects),
        lambda: objects.delete("a"),
    ]
    for call in calls:
        fault = _fault(call)
        assert isinstance(fault, StoreRefused)
        assert "there is no bucket 'no-such-bucket'" in str(fault)
    objects.close()


def test_wrong_credentials_are_refused(aws: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server's answer for a key it does not know; the secret is nowhere in it."""
    monkeypatch.setenv("AUTH", "true")  # makes the server look at access keys
    with s3_server() as strict:
        address = S3Address(
            _new_bucket(strict), endpoint_url=strict.endpoint_url, region=strict.region
        )
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAUNKNOWNUNKNOWN00")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-QmFzZTY0-secret-value")
        objects = S3Objects(address, limits=QUICK)
        calls: list[Callable[[], object]] = [
            objects.probe,
            lambda: objects.get("a"),
            lambda: _keys(objects),
            lambda: objects.delete("a"),
        ]
        for call in calls:
            fault = _fault(call)
            assert isinstance(fault, StoreRefused)
            assert "does not accept the access key or its secret" in str(fault)
            assert "AWS_ACCESS_KEY_ID" in str(fault)
        objects.close()


def test_no_credentials_are_refused(
    aws: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without credentials the message names the variables, and a half of them is noticed."""
    address = S3Address(bucket, endpoint_url=aws.endpoint_url, region=aws.region)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    half = _fault(lambda: S3Objects(address, limits=QUICK).probe())
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    none = _fault(lambda: S3Objects(address, limits=QUICK).probe())
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    profile = _fault(lambda: S3Objects(address, limits=QUICK).probe())
    for fault, words in ((half, "only half"), (none, "no AWS credentials"), (profile, "profile")):
        assert isinstance(fault, StoreRefused)
        assert words in str(fault)
        assert "AWS_PROFILE" in str(fault)


def test_unreachable_server_is_given_up_in_seconds(aws: S3Server, bucket: str) -> None:
    """Nobody listens: a bounded wait, then where no connection was possible."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        objects = S3Objects(
            S3Address(bucket, endpoint_url=endpoint, region=aws.region), limits=QUICK
        )
        began = time.monotonic()
        fault = _fault(objects.probe)
        assert time.monotonic() - began < 10
    assert isinstance(fault, StoreUnavailable)
    assert f"no connection to {endpoint}" in str(fault)


def test_silent_server_is_given_up_in_seconds(aws: S3Server, bucket: str) -> None:
    """A server that takes the request and says nothing is left after the read timeout."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        limits = S3Limits(connect_seconds=0.5, read_seconds=0.5, attempts=2)
        objects = S3Objects(
            S3Address(bucket, endpoint_url=endpoint, region=aws.region), limits=limits
        )
        began = time.monotonic()
        fault = _fault(lambda: objects.put("a", b"x"))
        assert time.monotonic() - began < 10
        objects.close()
    assert isinstance(fault, StoreUnavailable)
    assert "did not answer in time" in str(fault)
    assert "writing it again is safe" in str(fault)


def test_endpoint_and_region_from_the_environment(
    aws: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A bare s3:// URL finds its server as boto3 does, and faults say which server that was."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.endpoint_url)
    monkeypatch.setenv("AWS_REGION", aws.region)
    open_objects(f"s3://{bucket}/from-environment", root=tmp_path).probe()
    fault = _fault(open_objects("s3://no-such-bucket", root=tmp_path).probe)
    assert aws.endpoint_url in str(fault)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:canary-password@127.0.0.1:9")
    fault = _fault(lambda: open_objects(f"s3://{bucket}", root=tmp_path))
    assert isinstance(fault, StoreRefused)
    assert "canary-password" not in "".join(traceback.format_exception(fault))


def test_foreign_objects_in_the_bucket_are_not_listed(remote: S3Objects, aws: S3Server) -> None:
    """A folder marker made by a console, or a neighbour's prefix, is no object of ours."""
    address = s3_address(remote.url)
    client = boto3.session.Session().client(
        "s3", endpoint_url=aws.endpoint_url, region_name=aws.region
    )
    for key in (f"{address.prefix}/", f"{address.prefix}/commits/", f"{address.prefix}-2/x"):
        client.put_object(Bucket=address.bucket, Key=key, Body=b"")
    client.close()
    remote.put("commits/r1.json", b"1")
    assert _keys(remote) == ["commits/r1.json"]


# ---- URLs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:./data", "data"),
        ("file:data", "data"),
        ("data", "data"),
        ("./data:1", "data:1"),
        ("file:./my%20data", "my data"),
        ("file:///var/data", "/var/data"),
        ("file://localhost/var/data", "/var/data"),
        ("file:/var/data", "/var/data"),
        ("/var/data", "/var/data"),
    ],
)
def test_local_urls(url: str, folder: str, tmp_path: Path) -> None:
    """Relative folders start at the project, absolute ones do not."""
    assert open_objects(url, root=tmp_path).url == (tmp_path / folder).as_uri()


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket",
        "s3://bucket/a/b",
        "s3://bucket/p?endpoint_url=http://127.0.0.1:9000&region=eu-west-1&path_style=true",
        "s3://bucket?path_style=false",
    ],
)
def test_s3_urls_round_trip(url: str) -> None:
    """An address shows the URL that it was parsed from."""
    assert str(s3_address(url)) == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "empty"),
        ("gs://bucket/p", "known: file:./folder"),
        ("https://user:canary@host/p", "known: file:./folder"),
        ("file://host/p", "names a machine"),
        ("file:", "without a folder"),
        ("file:./p?region=x", "takes no options"),
        ("s3:bucket", "expected s3://bucket/prefix"),
        ("s3://", "expected s3://bucket/prefix"),
        ("s3://key:canary@bucket/p", "holds credentials"),
        ("s3://bucket/../p", "prefix"),
        ("s3://bucket/p#canary", "prefix"),
        ("s3://bucket?sse=aws:kms&region=x", "the option sse; known: endpoint_url"),
        ("s3://bucket?aws_secret_access_key=canary", "the option aws_secret_access_key"),
        ("s3://bucket?region", "cannot be parsed"),
        ("s3://bucket?region=a&region=b", "twice"),
        ("s3://bucket?path_style=yes", "neither true nor false"),
        ("s3://bucket?endpoint_url=ftp://host", "endpoint_url"),
        ("s3://bucket?endpoint_url=http://user:canary@host", "endpoint_url"),
    ],
)
def test_urls_that_mean_no_store(url: str, words: str, tmp_path: Path) -> None:
    """Each is refused before anything is opened, and no part that may be secret is repeated."""
    with pytest.raises(UsageError) as caught:
        open_objects(url, root=tmp_path)
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


def test_local_store_does_without_boto3(tmp_path: Path) -> None:
    """Opening a folder does not import the S3 client, which costs every command its start."""
    program = (
        "import sys; from pathlib import Path; from watchkeeper.store.objects import open_objects; "
        "open_objects('file:./data', root=Path(sys.argv[1])).probe(); "
        "sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environment, check=True)


# ---- the cache ---------------------------------------------------------------------------------


def _stored(objects: ObjectStore, key: str, data: bytes) -> FileRef:
    objects.put(key, data)
    return FileRef(key, len(data), hashlib.sha256(data).hexdigest())


def _cache(objects: ObjectStore, folder: Path, *, max_bytes: int = 10**9) -> ObjectCache:
    return ObjectCache(objects, folder, max_bytes, workers=4, keep_seconds=0)


def _files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != ".lock"}


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_cached_files_come_in_order(objects: ObjectStore, tmp_path: Path) -> None:
    """One sound path for each reference, also for equal files, repeated ones and none."""
    files = [_stored(objects, f"trials/{n}.parquet", bytes([n % 5]) * (n + 1)) for n in range(12)]
    files += [_stored(objects, "trials/copy.parquet", bytes([3]) * 4), files[0]]
    paths = _cache(objects, tmp_path / "cache").paths(files)
    for file, path in zip(files, paths, strict=True):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
    assert paths[0] == paths[-1]
    assert _cache(objects, tmp_path / "cache").paths([]) == []


def test_local_files_are_not_copied(local: LocalObjects, tmp_path: Path) -> None:
    """A folder's own files are handed out, and no cache folder appears."""
    file = _stored(local, "trials/a.parquet", b"rows")
    assert _cache(local, tmp_path / "cache").paths([file]) == [local.local_path(file.key)]
    assert not (tmp_path / "cache").exists()


def test_fetched_files_need_the_store_no_more(remote: S3Objects, tmp_path: Path) -> None:
    """What was fetched once is served from the disk, by other caches on the folder too."""
    file = _stored(remote, "trials/a.parquet", b"rows")
    cache = _cache(remote, tmp_path / "cache")
    cache.paths([file])
    remote.delete(file.key)
    assert cache.paths([file])[0].read_bytes() == b"rows"
    assert _cache(remote, tmp_path / "cache").paths([file])[0].read_bytes() == b"rows"


def test_damaged_cached_file_is_fetched_again(remote: S3Objects, tmp_path: Path) -> None:
    """A flipped byte on the disk is found by the next process, and by this one."""
    file = _stored(remote, "trials/a.parquet", b"rows" * 100)
    cache = _cache(remote, tmp_path / "cache")
    (path,) = cache.paths([file])
    for following in (_cache(remote, tmp_path / "cache"), cache):
        _flip(path)
        assert following.paths([file]) == [path]
        assert path.read_bytes() == b"rows" * 100
    path.write_bytes(b"")
    assert cache.paths([file])[0].read_bytes() == b"rows" * 100


def test_damaged_object_is_refused(objects: ObjectStore, tmp_path: Path) -> None:
    """A flipped byte in the store names the key, the expected and the found hash."""
    good, bad = b"rows" * 100, b"rowz" + b"rows" * 99
    sound = _stored(objects, "trials/b.parquet", b"sound")
    file = _stored(objects, "trials/a.parquet", good)
    objects.put(file.key, bad)
    for folder in ("one", "one", "two"):
        with pytest.raises(RecordUnreadable) as caught:
            _cache(objects, tmp_path / folder).paths([sound, file])
        for words in (file.key, file.sha256, hashlib.sha256(bad).hexdigest(), "400 bytes"):
            assert words in str(caught.value)
        assert not (tmp_path / folder / file.sha256).exists()


def test_missing_file_names_its_key(objects: ObjectStore, tmp_path: Path) -> None:
    """A file that a record names and the store lost is ObjectMissing, not an empty result."""
    file = FileRef("trials/gone.parquet", 4, "0" * 64)
    with pytest.raises(ObjectMissing) as caught:
        _cache(objects, tmp_path / "cache").paths([file])
    assert caught.value.key == file.key


def test_forged_reference_is_refused(objects: ObjectStore, tmp_path: Path) -> None:
    """A hash that would lead out of the cache folder, or a key out of the store, opens nothing."""
    for file in (
        FileRef("trials/a", 1, "../" * 20 + "etc/passwd"),
        FileRef("trials/a", 1, "A" * 64),
        FileRef("trials/a", -1, "0" * 64),
        FileRef("../a", 1, "0" * 64),
    ):
        with pytest.raises(RecordUnreadable):
            _cache(objects, tmp_path / "cache").paths([file])


def _fill(url: str, folder: str, files: list[FileRef], barrier: Barrier) -> None:
    cache = ObjectCache(open_objects(url, root=Path.cwd()), Path(folder), 0, workers=4)
    barrier.wait(PATIENCE_S)
    for _ in range(5):
        for file, path in zip(files, cache.paths(files), strict=True):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256


def test_processes_share_a_cache(remote: S3Objects, tmp_path: Path) -> None:
    """Two processes fill and cut back one folder at once; each finds all of its files whole."""
    files = [_stored(remote, f"trials/{n}", secrets.token_bytes(200_000)) for n in range(12)]
    barrier = SPAWN.Barrier(2)
    folder = tmp_path / "cache"
    readers = [
        SPAWN.Process(target=_fill, args=(remote.url, str(folder), part, barrier))
        for part in (files[:9], files[3:])
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        _exits(reader)
    assert _files_in(folder) == {file.sha256 for file in files}


def test_least_recently_used_goes_first(remote: S3Objects, tmp_path: Path) -> None:
    """Past the bound the files used longest ago go, never those of the call itself."""
    a, b, c = (_stored(remote, f"trials/{n}", bytes([n]) * 1000) for n in range(3))
    folder = tmp_path / "cache"
    cache = _cache(remote, folder, max_bytes=2000)
    cache.paths([a])
    cache.paths([b])
    cache.paths([a])
    cache.paths([c])
    assert _files_in(folder) == {a.sha256, c.sha256}
    assert all(path.exists() for path in cache.paths([a, b, c]))
    assert len(_files_in(folder)) == 3
    cache.paths([b])
    assert len(_files_in(folder)) == 2
    assert b.sha256 in _files_in(folder)


def test_recently_used_files_outlive_the_bound(remote: S3Objects, tmp_path: Path) -> None:
    """A path handed out by an earlier call stays good while a query may still open it."""
    a, b = (_stored(remote, f"trials/{n}", bytes([n]) * 1000) for n in range(2))
    folder = tmp_path / "cache"
    cache = ObjectCache(remote, folder, 0, workers=1, keep_seconds=60)
    (path,) = cache.paths([a])
    cache.paths([b])
    assert path.exists()
    then = time.time() - 61
    os.utime(path, (then, then))
    cache.paths([b])
    assert not path.exists()


def test_unfinished_cache_files_are_cleared_away(remote: S3Objects, tmp_path: Path) -> None:
    """What a killed process left half fetched goes after its grace; a young one stays."""
    file = _stored(remote, "trials/a", b"rows")
    folder = tmp_path / "cache"
    folder.mkdir()
    young, old = folder / f"{TEMPORARY_PREFIX}young", folder / f"{TEMPORARY_PREFIX}old"
    for path in (young, old):
        path.write_bytes(b"ro")
    then = time.time() - 86_400
    os.utime(old, (then, then))
    _cache(remote, folder).paths([file])
    assert _files_in(folder) == {file.sha256, young.name}


def test_cache_folder_that_is_a_file_is_refused(remote: S3Objects, tmp_path: Path) -> None:
    """The message names the cache folder."""
    file = _stored(remote, "trials/a", b"rows")
    (tmp_path / "cache").write_bytes(b"mine")
    fault = _fault(lambda: _cache(remote, tmp_path / "cache").paths([file]))
    assert isinstance(fault, StoreRefused)
    assert str(tmp_path / "cache") in str(fault)


def test_full_cache_disk_is_said(remote: S3Objects, tmp_path: Path) -> None:
    """A cache on a full disk is the cache's fault, and leaves nothing half written there."""
    file = _stored(remote, "trials/a", secrets.token_bytes(2_000_000))
    with _small_disk(tmp_path / "disk") as disk:
        fault = _fault(lambda: _cache(remote, disk / "cache").paths([file]))
        assert isinstance(fault, StoreUnavailable)
        assert "the disk is full" in str(fault)
        assert str(disk / "cache") in str(fault)
        assert _files_in(disk / "cache") == set()
