"""Agents that are Python callables: real processes, of modules that a test writes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pydantic import ValidationError

from watchkeeper.adapters.python import Settings, connect
from watchkeeper.clock import SimulatedClock, SystemClock
from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.content import Attachment, UserTurn
from watchkeeper.domain.endpoint import Endpoint, Harness, McpServer, PriceTable
from watchkeeper.domain.ports import Session, Step, ToolResults, TrialBrief
from watchkeeper.errors import EndpointFault, UsageError
from watchkeeper.rollout.calls import Calls
from watchkeeper.rollout.conversation import Conversation
from watchkeeper.rollout.toolbox import Toolbox

START = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
ENVIRONMENT = {"PATH": os.environ["PATH"], "API_KEY": "s3cret-s3cret", "COLOUR": "blue"}
CASE = Case("case", "facts", (UserTurn("find it"), UserTurn("and now?")), ())


def endpoint(harness: Harness | None = None, **settings: Any) -> Endpoint:
    """An endpoint of the kind, as the loader makes it."""
    made = Settings.model_validate({"callable": "agent:run", **settings})
    place = "config/endpoints.yaml:3"
    return Endpoint(
        "agent",
        "python",
        "team",
        "test",
        made.model,
        (),
        made,
        "",
        harness or Harness(),
        location=place,
    )


def agent(root: Path, source: str, name: str = "agent.py") -> None:
    """Writes the team's module."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source))


def brief(workspace: Path | None = None, **limits: Any) -> TrialBrief:
    """A trial of the case."""
    bounds = TrialLimits(**{"seconds": 30, **limits})
    return TrialBrief(CASE, bounds, (), 7, "t1", workspace)


@asynccontextmanager
async def opened(
    root: Path, workspace: Path | None = None, limits: Mapping[str, Any] | None = None, **more: Any
) -> AsyncIterator[Session]:
    """A session of the agent in a folder, closed afterwards with its adapter."""
    adapter = connect(endpoint(**more), ENVIRONMENT, root, SystemClock())
    session = await adapter.open(brief(workspace, **(limits or {})))
    try:
        yield session
    finally:
        await session.close()
        await adapter.close()


async def told(root: Path, source: str, turn: str | UserTurn = "find it", **more: Any) -> Step:
    """What an agent does with one turn."""
    agent(root, source)
    said = UserTurn(turn) if isinstance(turn, str) else turn
    async with opened(root, **more) as session:
        return await asyncio.wait_for(session.step(said), 20)


def is_alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "source",
    [
        "def run(input): return input.upper()",
        "def run(turn): return turn['input'].upper()",
        "def run(turn, /): return turn['input'].upper()",
        "def run(*, input, workspace): return input.upper()",
        "def run(input, tone='loud'): return input.upper() if tone == 'loud' else ''",
        "def run(**turn): return turn['input'].upper()",
        "async def run(input): return input.upper()",
        "class Agent:\n    def __call__(self, input): return input.upper()\nrun = Agent()",
        "import functools\ndef go(prefix, input): return input.upper()\n"
        "run = functools.partial(go, 'x')",
        "def run(input): return {'answer': input.upper()}",
        "def run(input):\n    yield 'FIND'\n    yield ' IT'",
        "async def run(input):\n    yield 'FIND'\n    yield {'type': 'text', 'text': ' IT'}",
        "async def run(input):\n    yield {'type': 'result', 'answer': input.upper()}",
        "import dataclasses\n@dataclasses.dataclass\nclass Turn:\n    answer: str\n"
        "def run(input): return Turn(input.upper())",
        "import asyncio\ndef run(input): return asyncio.run(asyncio.sleep(0, input.upper()))",
    ],
)
async def test_callables_of_every_shape(source: str, tmp_path: Path) -> None:
    """Sync, async, streaming; with the arguments that it names, or with one mapping."""
    step = await told(tmp_path, source)
    assert (step.end, step.answer, step.error) == ("answered", "FIND IT", None)
    assert len(step.rounds) == 1
    assert step.rounds[0].usage.total_tokens is None


async def test_what_a_callable_is_told(tmp_path: Path) -> None:
    """The turn and what was said before, where it works, and which trial it is."""
    workspace, picture = tmp_path / "workspace", tmp_path / "a.png"
    workspace.mkdir()
    picture.write_bytes(b"png")
    sha256 = hashlib.sha256(b"png").hexdigest()
    attachment = Attachment("a.png", "image/png", sha256, 3, picture)
    agent(
        tmp_path,
        """
        import json, os
        from pathlib import Path

        def run(turn):
            for one in turn["attachments"]:
                one["holds"] = Path(one["path"]).read_text()
            return json.dumps({**turn, "cwd": os.getcwd()})
        """,
    )
    turn = UserTurn.of(("look at", attachment, "please"))
    async with opened(tmp_path, workspace, {"tokens": 9}, model="alias") as session:
        first = json.loads((await session.step(turn)).answer)
        second = json.loads((await session.step(UserTurn("and now?"))).answer)
    (file,) = first.pop("attachments")
    assert Path(file.pop("path")).name == "a.png"
    parts = first.pop("parts")
    assert file == {"name": "a.png", "media_type": "image/png", "sha256": sha256, "holds": "png"}
    assert [parts[0], parts[1]["name"], parts[2]] == ["look at", "a.png", "please"]
    assert first == {
        "input": "look at\nplease",
        "messages": [{"role": "user", "text": "look at\nplease"}],
        "turn_number": 1,
        "workspace": str(workspace),
        "cwd": str(workspace),
        "trial_id": "t1",
        "case_id": "case",
        "seed": 7,
        "model": "alias",
        "limits": {"rounds": 20, "seconds": 30, "tokens": 9, "cost_usd": None},
    }
    assert second["turn_number"] == 2
    assert [one["role"] for one in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][2]["text"] == "and now?"


async def test_a_file_that_was_changed_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    """The case is not what it was when it was loaded."""
    (tmp_path / "a.png").write_bytes(b"other")
    attachment = Attachment("a.png", "image/png", "0" * 64, 3, tmp_path / "a.png")
    with pytest.raises(EndpointFault, match=r"a\.png: it is not what it was") as caught:
        await told(tmp_path, "def run(input): return ''", UserTurn("", (attachment,)))
    assert (caught.value.kind, caught.value.is_transient) == ("setup_failed", False)


async def test_the_turns_of_a_trial_are_calls_in_one_process(tmp_path: Path) -> None:
    """What the module keeps between them is there; another trial has none of it."""
    agent(
        tmp_path,
        """
        import asyncio, os
        seen = []
        lock = asyncio.Lock()

        async def run(input):
            async with lock:
                seen.append(input)
            return f"{os.getpid()} {len(seen)}"
        """,
    )
    answers = []
    for _ in range(2):
        async with opened(tmp_path) as session:
            answers += [(await session.step(UserTurn("x"))).answer.split() for _ in range(2)]
    assert [count for _, count in answers] == ["1", "2", "1", "2"]
    assert len({pid for pid, _ in answers}) == 2


async def test_rounds_that_are_reported_are_rounds(tmp_path: Path) -> None:
    """With their calls, tokens, model and end; as one value or one by one."""
    source = """
        ROUND = {
            "text": "let me look",
            "tool_calls": [{"tool": "look", "arguments": {"path": "a"}, "result": "a.txt"}],
            "usage": {"input_tokens": 10, "output_tokens": 2},
            "served_model": "model-v1",
            "stop_reason": "tool_use",
        }
        LAST = {"answer": "a.txt", "state": {"found": True}, "cost_usd": 0.5}

        def whole(input):
            return {**LAST, "rounds": [ROUND, {"text": "a.txt", "served_model": "model-v1"}]}

        async def pieces(input):
            yield {"type": "round", **ROUND}
            yield {"type": "round", "text": "a.txt", "served_model": "model-v1"}
            yield {"type": "result", **LAST}
        """
    steps = [await told(tmp_path, source, callable=f"agent:{name}") for name in ("whole", "pieces")]
    assert steps[0] == steps[1]
    (first, last) = steps[0].rounds
    assert (first.tool_calls[0].result, first.usage.input_tokens) == ("a.txt", 10)
    assert (last.served_model, steps[0].state, steps[0].cost_usd) == (
        "model-v1",
        {"found": True},
        0.5,
    )


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def run(input):\n    raise ValueError('no such\\ntool')", "ValueError: no such tool"),
        ("def run(input):\n    raise ValueError('x')", "(agent.py:2)"),
        ("import sys\ndef run(input): sys.exit(3)", "SystemExit: 3"),
        ("import os\ndef run(input): os._exit(3)", "process ended with exit code 3 in a turn"),
        (
            "import os, sys\ndef run(input):\n    print('last', 'words')\n"
            "    sys.stdout.flush()\n    os._exit(1)",
            "exit code 1 in a turn: last words",
        ),
        ("import os\ndef run(input): os.kill(os.getpid(), 11)", "process crashed: SIGSEGV"),
        ("def run(input): return run(input)", "RecursionError: maximum recursion depth exceeded"),
        ("def run(input): return object()", "returned what is no text and no JSON: an object of"),
        ("def run(input): return None", "expected a text or a mapping, found NoneType"),
        ("def run(input): return {'anser': 'x'}", "the agent reported what is no trial: anser"),
        ("def run(input): return {'cost_usd': float('nan')}", "NaN is not a JSON number"),
        ("def run(input):\n    yield 'x'\n    yield {'type': 'rond'}", "no trial: "),
        ("def run(input):\n    yield 'x'\n    raise KeyError('y')", "KeyError: 'y'"),
        ("def run(input): print('x' * 2_000_000)", "wrote more than 1,000,000 bytes"),
        ("def run(input): return 'x' * 2_000_000", "wrote more than 1,000,000 bytes"),
        (
            "import os\ndef run(input): raise ValueError(os.environ['KEY'])",
            "ValueError: [secret API_KEY]",
        ),
    ],
)
async def test_an_agent_that_breaks_has_failed(source: str, says: str, tmp_path: Path) -> None:
    """Whatever its own code does: a failed trial, with the last line of why."""
    more: dict[str, Any] = {"max_output_bytes": 1_000_000, "variables": {"KEY": "env:API_KEY"}}
    step = await told(tmp_path, source, **more)
    assert step.end == "agent_error"
    assert says in str(step.error)
    assert str(step.error).isprintable()
    assert "s3cret" not in str(step.error)


async def test_a_disk_that_is_filled_is_a_failed_trial(tmp_path: Path) -> None:
    """Within the bound of its workspace."""
    source = """
        import time
        def run(input):
            with open("much", "wb") as file:
                file.write(b"x" * 900_000)
            with open("more", "wb") as file:
                file.write(b"x" * 900_000)
            time.sleep(20)
        """
    step = await told(tmp_path, source, disk_bytes=1_000_000)
    assert step.end == "agent_error"
    assert "took more than 1,000,000 bytes of disk" in str(step.error)


@pytest.mark.parametrize(
    ("error", "kind", "is_transient"),
    [
        ("Status(529)", "overloaded", True),
        ("Status(429)", "rate_limited", True),
        ("Status(503)", "server_error", True),
        ("Status(401)", "authentication", False),
        ("ConnectionRefusedError(111, 'Connection refused')", "connection", True),
    ],
)
async def test_an_outage_of_its_provider_is_no_failure_of_the_agent(
    error: str, kind: str, is_transient: bool, tmp_path: Path
) -> None:
    """An exception with an HTTP status, as the SDKs of providers raise them."""
    source = f"""
        class Status(Exception):
            def __init__(self, status):
                super().__init__("the provider says no")
                self.status_code = status
        def run(input):
            raise {error}
        """
    with pytest.raises(EndpointFault) as caught:
        await told(tmp_path, source)
    assert (caught.value.kind, caught.value.is_transient) == (kind, is_transient)


async def test_a_repeat_of_the_first_turn_has_a_fresh_process(tmp_path: Path) -> None:
    """A step that raised has changed nothing."""
    agent(
        tmp_path,
        """
        import os
        from pathlib import Path
        count = 0

        def run(input):
            global count
            count += 1
            if not Path(__file__).with_name("again").exists():
                Path(__file__).with_name("again").touch()
                raise ConnectionError("connection reset")
            return f"{count}"
        """,
    )
    async with opened(tmp_path) as session:
        with pytest.raises(EndpointFault):
            await session.step(UserTurn("x"))
        assert (await session.step(UserTurn("x"))).answer == "1"


async def test_a_fault_after_calls_of_tools_is_not_repeated(tmp_path: Path) -> None:
    """The workspace is no longer what a repeat should begin with."""
    agent(
        tmp_path,
        """
        from pathlib import Path

        def run(input):
            (Path(__file__).parent / "calls").open("a").write("x")
            yield {"type": "round", "tool_calls": [{"tool": "edit", "result": "done"}]}
            raise ConnectionError("connection reset")
        """,
    )
    async with opened(tmp_path) as session:
        for _ in range(2):
            with pytest.raises(EndpointFault, match="connection reset"):
                await session.step(UserTurn("x"))
    assert (tmp_path / "calls").read_text() == "x"


async def test_an_end_from_outside_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    """As when the machine has no memory left."""
    source = f"import os\ndef run(input): os.kill(os.getpid(), {int(signal.SIGKILL)})"
    with pytest.raises(EndpointFault, match="ended from outside by SIGKILL") as caught:
        await told(tmp_path, source)
    assert (caught.value.kind, caught.value.is_transient) == ("killed", True)


@pytest.mark.parametrize("source", ["while True: pass", "import time; time.sleep(60)"])
async def test_a_trial_that_loops_ends_in_time_with_all_that_it_started(
    source: str, tmp_path: Path
) -> None:
    """Also a child in a session of its own that ignores signals."""
    agent(
        tmp_path,
        f"""
        import signal, subprocess, sys
        from pathlib import Path

        def run(input):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            words = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
            child = subprocess.Popen([sys.executable, "-c", words], start_new_session=True)
            Path(__file__).with_name("child").write_text(str(child.pid))
            {source}
        """,
    )
    adapter = connect(endpoint(), ENVIRONMENT, tmp_path, SystemClock())
    limits = TrialLimits(seconds=0.7)
    session = await adapter.open(brief(seconds=0.7))
    talk = Conversation(
        session=session,
        toolbox=Toolbox(CASE, {}),
        case=CASE,
        limits=limits,
        calls=Calls("t1", 0, SystemClock(), lambda: 0.5),
        prices=PriceTable("", {}),
        requested_model=None,
        clock=SystemClock(),
    )
    assert await talk.play() == "time_limit"
    await session.close()
    assert not is_alive(int((tmp_path / "child").read_text()))


async def test_its_modules_and_ours_never_meet(tmp_path: Path) -> None:
    """Neither by the names of our files, nor by names of the standard library in a workspace."""
    for name in ("http", "python", "command", "flows", "tasks", "config", "_reported"):
        agent(tmp_path, "NAME = 'theirs'", f"{name}.py" if name != "tasks" else "tasks/__init__.py")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for name in ("json", "asyncio", "agent"):
        (workspace / f"{name}.py").write_text("raise SystemExit('shadowed')")
    agent(
        tmp_path,
        """
        import sys
        import _reported, command, config, flows, python, tasks

        def run(input):
            theirs = (_reported, command, config, flows, python, tasks)
            folders = [path for path in sys.path if "watchkeeper/adapters" in path]
            return f"{[one.NAME for one in theirs]} {folders} {sys.path[0]}"
        """,
    )
    before = set(sys.modules)
    async with opened(tmp_path, workspace) as session:
        step = await session.step(UserTurn("x"))
    assert step.answer == f"{['theirs'] * 6} [] {tmp_path}"
    assert not {"agent", "flows", "tasks", "config"} & (set(sys.modules) - before)


async def test_a_callable_gets_no_more_of_the_environment_than_it_is_given(tmp_path: Path) -> None:
    """The rest stays here; PYTHONPATH works as it does everywhere."""
    agent(tmp_path, "WORD = 'beside'", "library/beside.py")
    source = """
        import json, os, beside
        def run(input): return json.dumps({**os.environ, "WORD": beside.WORD})
        """
    step = await told(
        tmp_path,
        source,
        pass_variables=["COLOUR"],
        variables={"KEY": "env:API_KEY", "PYTHONPATH": str(tmp_path / "library")},
    )
    given = json.loads(step.answer)
    assert (given["COLOUR"], given["KEY"], given["WORD"]) == ("blue", "s3cret-s3cret", "beside")
    assert given["WATCHKEEPER_TRIAL_ID"] == "t1"
    assert given["TMPDIR"] != os.environ.get("TMPDIR")
    assert "API_KEY" not in given


async def test_prints_are_no_report(tmp_path: Path) -> None:
    """Nor is what a child of it prints, or what it reads."""
    source = """
        import subprocess, sys
        def run(input):
            print('{"value": "no"}', flush=True)
            subprocess.run([sys.executable, "-c", "print('{}')"], check=True)
            return f"yes{sys.stdin.read()}"
        """
    assert (await told(tmp_path, source)).answer == "yes"


@pytest.mark.parametrize(
    ("source", "reference", "says"),
    [
        ("import absent_module", "agent:run", "ModuleNotFoundError: No module named 'absent_"),
        ("x = ", "agent:run", "SyntaxError: invalid syntax"),
        ("raise SystemExit(4)", "agent:run", "does not import: SystemExit: 4"),
        ("import os; os._exit(5)", "agent:run", "its process ended with exit code 5"),
        ("run = 3", "agent:run", "agent:run is a int, which cannot be called"),
        ("def go(input): pass", "agent:run", "module 'agent' has no attribute 'run'"),
        ("def run(query, mood): pass", "agent:run", "asks for query, mood; expected one argument"),
        ("def run(): pass", "agent:run", "asks for no argument"),
        ("import time; time.sleep(60)", "agent:run", "was not imported within 0.5 s"),
        ("import os; raise ValueError(os.environ['KEY'])", "agent:run", "[secret API_KEY]"),
        ("def run(input): pass", "absent.team:run", "No module named 'absent'"),
    ],
)
async def test_a_callable_that_is_no_use_is_found_before_the_first_call(
    source: str, reference: str, says: str, tmp_path: Path
) -> None:
    """In a process of its own, so that a broken module harms nobody."""
    agent(tmp_path, source)
    seconds = 0.5 if "sleep" in source else 20
    one = endpoint(callable=reference, import_seconds=seconds, variables={"KEY": "env:API_KEY"})
    adapter = connect(one, ENVIRONMENT, tmp_path, SimulatedClock(START))
    began = time.monotonic()
    with pytest.raises(UsageError) as caught:
        await adapter.resolve()
    said = str(caught.value)
    assert said.startswith(f"config/endpoints.yaml:3: endpoint 'agent': callable '{reference}'")
    assert says in said
    assert said.isprintable()
    assert time.monotonic() - began < 10


async def test_what_is_served_is_not_known_before(tmp_path: Path) -> None:
    """The harness's revision is, where it is told."""
    agent(tmp_path, "def run(input): raise SystemExit")
    one = endpoint(Harness(version="v7"), model="alias")
    adapter = connect(one, ENVIRONMENT, tmp_path, SimulatedClock(START))
    identity = await adapter.resolve()
    assert (identity.requested_model, identity.resolved_model) == ("alias", None)
    assert identity.harness_revision == "v7"
    assert "unverifiable" in str(identity.note)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"harness": Harness(system="You are kind.")}, "harness.system is not for kind python"),
        ({"harness": Harness(tools="a:B")}, "harness.tools is not for kind python"),
        ({"harness": Harness(mcp=(McpServer("x", ("y",)),))}, "harness.mcp is not for kind python"),
        ({"pass_variables": ["ABSENT"]}, "the variable ABSENT is not set"),
        ({"variables": {"A": "env:ABSENT"}}, "the variable ABSENT is not set"),
        ({"interpreter": "no-such-python"}, "interpreter: there is no program 'no-such-python'"),
        ({"interpreter": ".venv/bin/python"}, "there is no program '.venv/bin/python'"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_connected(
    more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """With the place in the file."""
    with pytest.raises(UsageError) as caught:
        connect(endpoint(**more), ENVIRONMENT, tmp_path, SimulatedClock(START))
    assert str(caught.value).startswith("config/endpoints.yaml:3: endpoint 'agent': ")
    assert says in str(caught.value)


def test_an_open_secret_is_refused_and_not_repeated() -> None:
    """It belongs in a variable."""
    with pytest.raises(ValidationError) as caught:
        endpoint(variables={"API_KEY": "s3cret-s3cret"})
    assert "the value of 'API_KEY' as env:NAME" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_an_interpreter_of_the_project_runs_it(tmp_path: Path) -> None:
    """A team's own environment, by its place in the project or in the PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    source = "import sys\ndef run(input): return sys.executable"
    step = await told(tmp_path, source, interpreter="bin/python")
    assert step.answer == str(tmp_path / "bin/python")


async def test_only_the_users_turns_are_asked(tmp_path: Path) -> None:
    """The loop is the agent's own."""
    agent(tmp_path, "def run(input): return ''")
    async with opened(tmp_path) as session:
        with pytest.raises(ValueError, match="carries out its own calls"):
            await session.step(ToolResults(()))


async def test_nothing_is_left_of_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, no process, no task; also where the session was cut off and never closed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    agent(tmp_path, "import time\ndef run(input): time.sleep(60)")
    adapter = connect(endpoint(), ENVIRONMENT, tmp_path, SystemClock())
    session = await adapter.open(brief())
    task = asyncio.create_task(session.step(UserTurn("x")))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await adapter.close()
    assert not list((tmp_path / "tmp").iterdir())
    assert asyncio.all_tasks() == {asyncio.current_task()}
