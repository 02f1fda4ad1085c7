"""Foreign programs: what they are given, what ends them, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from watchkeeper.processes import Bounds, Ended, run_bounded, surroundings

VARIABLES = {"PATH": os.environ["PATH"]}
QUICK = Bounds(seconds=10, grace_s=0.2)

DAEMONS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def note():
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
note()
if os.fork() == 0:          # another group and session
    os.setsid(); note(); time.sleep(60); os._exit(0)
if os.fork() == 0:          # a daemon, without parent, environment or open files
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 10)
        os.execve(sys.executable, [sys.executable, "-c",
            "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            "open('pids', 'a').write(f'{os.getpid()}\\\\n'); time.sleep(60)"], {})
    os._exit(0)
while len(open("pids").readlines()) < 3:
    time.sleep(0.01)
print("ready", flush=True)
"""
STAYING = f"{DAEMONS}\ntime.sleep(60)"


async def run(folder: Path, *words: str, bounds: Bounds = QUICK, **more: object) -> Ended:
    """A program in a folder."""
    return await run_bounded(words, cwd=folder, variables=VARIABLES, bounds=bounds, **more)  # type: ignore[arg-type]


def python(code: str) -> tuple[str, ...]:
    """The words that run some Python."""
    return (sys.executable, "-c", code)


def is_alive(pid: int) -> bool:
    """Whether a process is there and no mere entry of an ended one."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def pids_in(folder: Path) -> list[int]:
    """What the daemons noted of themselves."""
    return [int(line) for line in (folder / "pids").read_text().split()]


def are_all_there(folder: Path) -> bool:
    """Whether the three daemons have begun."""
    return (folder / "pids").exists() and len(pids_in(folder)) == 3


def soon(condition: Callable[[], bool], seconds: float = 8.0) -> bool:
    """Whether something becomes true within bounds."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


async def test_what_a_program_says_and_how_it_ends(tmp_path: Path) -> None:
    """Both streams, apart; what it reads; its code; and where it runs."""
    ended = await run(tmp_path, "sh", "-c", "cat; pwd; echo no >&2; exit 3", stdin="in: ü\n")
    assert ended.reason == "exited"
    assert (ended.exit_code, ended.signal, ended.left_count) == (3, None, 0)
    assert ended.stdout.decode() == f"in: ü\n{tmp_path}\n"
    assert ended.stderr == b"no\n"
    assert (ended.stdout_byte_count, ended.stderr_byte_count) == (len(ended.stdout), 3)
    assert 0 < ended.seconds < 10


async def test_a_program_is_given_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    """A key in our environment is not the agent's, unless somebody says so."""
    ours = {"PATH": os.environ["PATH"], "HOME": "/h", "API_KEY": "secret", "PASSED": "p", "X": "x"}
    given = surroundings(ours, ["PASSED", "UNSET"], {"OWN": "o", "HOME": "/other"})
    ended = await run_bounded(["env"], cwd=tmp_path, variables=given, bounds=QUICK)
    lines = sorted(line for line in ended.stdout.decode().splitlines() if line[:2] != "_=")
    assert lines == ["HOME=/other", "OWN=o", "PASSED=p", f"PATH={os.environ['PATH']}"]


async def test_limits_and_signals_are_those_of_a_fresh_program(tmp_path: Path) -> None:
    """No core files; a broken pipe ends it; no signal is blocked."""
    code = (
        "import resource, signal\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), signal.pthread_sigmask(0, []))"
    )
    ended = await run(tmp_path, *python(code))
    assert ended.stdout.decode().strip() == "(0, 0) set()"
    broken = await run(tmp_path, "sh", "-c", "kill -PIPE $$; echo still here")
    assert (broken.signal, broken.stdout) == (signal.SIGPIPE, b"")


async def test_a_crash_is_told_by_its_signal(tmp_path: Path) -> None:
    """A program that ended itself was not ended by us."""
    ended = await run(tmp_path, "sh", "-c", "kill -SEGV $$")
    assert (ended.reason, ended.exit_code, ended.signal) == ("exited", None, signal.SIGSEGV)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["no-such-program"], FileNotFoundError),
        (["/no/such/program"], FileNotFoundError),
        (["./text"], PermissionError),
        (["echo", "a\0b"], ValueError),
    ],
)
async def test_what_cannot_be_executed_raises(
    words: list[str], error: type[Exception], tmp_path: Path
) -> None:
    """Before anything was run, and with the program's name."""
    (tmp_path / "text").write_text("no program")
    with pytest.raises(error) as caught:
        await run(tmp_path, *words)
    if isinstance(caught.value, OSError):
        assert caught.value.filename == words[0]


async def test_time_ends_a_program_which_may_say_goodbye(tmp_path: Path) -> None:
    """SIGTERM first; what it says within its grace is kept."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(4)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    ended = await run(tmp_path, *python(code), bounds=Bounds(seconds=1, grace_s=5))
    assert (ended.reason, ended.exit_code) == ("time", 4)
    assert ended.stdout == b"ready\nbye\n"
    assert ended.seconds < 4


async def test_nothing_is_left_of_a_program_that_ignores_sigterm(tmp_path: Path) -> None:
    """Nor of its children in other groups and sessions, daemons without environment included."""
    ended = await run(tmp_path, *python(STAYING), bounds=Bounds(seconds=1, grace_s=0.2))
    assert (ended.reason, ended.signal, ended.left_count) == ("time", signal.SIGKILL, 0)
    assert ended.stdout == b"ready\n"
    pids = pids_in(tmp_path)
    assert len(pids) == 3
    assert not any(map(is_alive, pids))


async def test_nothing_is_left_of_a_program_that_exited(tmp_path: Path) -> None:
    """What it left in the background is ended with it, and keeps no pipe of ours open."""
    ended = await run(tmp_path, *python(DAEMONS))
    assert (ended.reason, ended.exit_code, ended.stdout) == ("exited", 0, b"ready\n")
    assert ended.seconds < 5
    assert not any(map(is_alive, pids_in(tmp_path)))


async def test_nothing_is_left_after_our_own_cancellation(tmp_path: Path) -> None:
    """Even where the task is cancelled again while it cleans up."""
    task = asyncio.ensure_future(run(tmp_path, *python(STAYING)))
    assert await asyncio.to_thread(soon, lambda: are_all_there(tmp_path))
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_alive, pids_in(tmp_path)))


def test_nothing_is_left_after_our_own_death(tmp_path: Path) -> None:
    """A kill -9 of Watchkeeper ends what it had started."""
    code = (
        "import asyncio, pathlib, sys\n"
        "from watchkeeper.processes import Bounds, run_bounded\n"
        "asyncio.run(run_bounded(sys.argv[1:], cwd=pathlib.Path.cwd(),\n"
        f"    variables={VARIABLES!r}, bounds=Bounds(60, grace_s=0.2)))"
    )
    ours = subprocess.Popen([*python(code), *python(STAYING)], cwd=tmp_path)
    try:
        assert soon(lambda: are_all_there(tmp_path))
    finally:
        ours.kill()
        ours.wait()
    assert soon(lambda: not any(map(is_alive, pids_in(tmp_path))))


async def test_a_program_that_kills_its_supervisor_dies_with_it(tmp_path: Path) -> None:
    """Its group too; it cannot outlive its bounds that way."""
    code = "echo $$ > pids; sleep 60 & echo $! >> pids; kill -9 $PPID; sleep 60"
    ended = await run(tmp_path, "sh", "-c", code)
    assert (ended.exit_code, ended.signal) == (None, signal.SIGKILL)
    assert soon(lambda: not any(map(is_alive, pids_in(tmp_path))))


async def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A gigabyte of one line is cut at the bound; nothing of it is handed out as a line."""
    lines: list[bytes] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = await run(
        tmp_path,
        *("head", "-c", "1000000000", "/dev/zero"),
        bounds=Bounds(20, output_bytes=1_000_000),
        on_line=lines.append,
    )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert ended.reason == "output"
    assert ended.stdout_byte_count < 100_000_000
    assert lines == []
    assert grown < 20_000, "kilobytes"


@pytest.mark.parametrize("stream", [1, 2])
async def test_each_stream_has_its_bound(stream: int, tmp_path: Path) -> None:
    """What was written up to it is kept; the rest is not."""
    bounds = Bounds(10, output_bytes=1000, grace_s=0.2)
    ended = await run(tmp_path, "sh", "-c", f"yes >&{stream}", bounds=bounds)
    assert ended.reason == "output"
    kept = ended.stdout if stream == 1 else ended.stderr
    assert kept == b"y\n" * 500


async def test_lines_are_handed_out_as_they_come(tmp_path: Path) -> None:
    """Without their ends; the last one needs none; empty ones count."""
    found: list[tuple[bytes, float]] = []
    await run(
        tmp_path,
        *("sh", "-c", "printf 'one\\n\\n'; sleep 0.3; printf 'two\\nthree'"),
        on_line=lambda line: found.append((line, time.monotonic())),
    )
    assert [line for line, _ in found] == [b"one", b"", b"two", b"three"]
    assert found[2][1] - found[0][1] > 0.2


async def test_a_listener_that_has_enough_ends_the_program(tmp_path: Path) -> None:
    """Nothing is handed out after it said so."""
    found: list[bytes] = []

    def take(line: bytes) -> bool:
        found.append(line)
        return len(found) == 2

    ended = await run(tmp_path, "sh", "-c", "echo 1; echo 2; echo 3; sleep 60", on_line=take)
    assert ended.reason == "stopped"
    assert found == [b"1", b"2"]


async def test_what_a_listener_raises_ends_the_program(tmp_path: Path) -> None:
    """It is raised where the program was run, and nothing is left running."""

    def take(line: bytes) -> bool:
        raise RuntimeError("ours")

    with pytest.raises(RuntimeError, match="ours"):
        await run(tmp_path, *python(STAYING), on_line=take)
    assert not any(map(is_alive, pids_in(tmp_path)))


async def test_one_large_file_is_too_much_disk(tmp_path: Path) -> None:
    """The system stops the write itself, whatever the program does about it."""
    bounds = Bounds(10, disk_bytes=1_000_000)
    ended = await run(tmp_path, "dd", "if=/dev/zero", "of=large", "bs=64k", bounds=bounds)
    assert ended.reason == "disk"
    assert (tmp_path / "large").stat().st_size <= 1_000_000


@pytest.mark.parametrize("size", [0, 50_000])
async def test_many_small_files_are_too_much_disk(size: int, tmp_path: Path) -> None:
    """Also empty ones, in folders made for them; what was there before does not count."""
    (tmp_path / "before").write_bytes(bytes(3_000_000))
    code = (
        "import os, time\n"
        "for number in range(100_000):\n"
        "    os.makedirs(str(number % 10), exist_ok=True)\n"
        f"    open(f'{{number % 10}}/{{number}}', 'wb').write(bytes({size}))\n"
        "    time.sleep(0.0001)"
    )
    bounds = Bounds(30, disk_bytes=2_000_000, grace_s=0.2)
    ended = await run(tmp_path, *python(code), bounds=bounds)
    assert ended.reason == "disk"
    assert ended.seconds < 20


async def test_a_program_within_its_disk_is_left_alone(tmp_path: Path) -> None:
    """The bound is a bound of growth."""
    (tmp_path / "before").write_bytes(bytes(3_000_000))
    ended = await run(tmp_path, "sh", "-c", "echo x > y", bounds=Bounds(10, disk_bytes=1_000_000))
    assert (ended.reason, ended.exit_code) == ("exited", 0)


async def test_a_program_that_does_not_read_does_not_hang(tmp_path: Path) -> None:
    """However much it was told."""
    ended = await run(tmp_path, "true", stdin="x" * 2_000_000)
    assert (ended.reason, ended.exit_code) == ("exited", 0)


async def test_programs_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    """Each has its own streams, folder and end."""
    folders = [tmp_path / str(number) for number in range(20)]
    for folder in folders:
        folder.mkdir()
    all_ended = await asyncio.gather(
        *(run(one, "sh", "-c", f"cat; exit {one.name}", stdin=one.name) for one in folders)
    )
    assert [one.exit_code for one in all_ended] == list(range(20))
    assert [one.stdout.decode() for one in all_ended] == [one.name for one in folders]
