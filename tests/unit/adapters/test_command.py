"""An agent that is a program: how it is asked, what it may take, and what its ends mean."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from watchkeeper.adapters import adapter_module
from watchkeeper.adapters._command.session import CommandSession
from watchkeeper.clock import SystemClock
from watchkeeper.domain.case import Case, SimulatedUser, TrialLimits
from watchkeeper.domain.content import Attachment, UserTurn
from watchkeeper.domain.endpoint import Endpoint, Harness
from watchkeeper.domain.ports import Adapter, Step, ToolResults, TrialBrief
from watchkeeper.errors import EndpointFault, UsageError

STREAMS = Path(__file__).parents[2] / "data" / "streams"
SECRET = "s3cret-value-of-a-key"
ENVIRONMENT = {"PATH": os.environ["PATH"], "KEY": SECRET, "PLAIN": "plain", "OTHER": "other"}
CASE = Case("case", "facts", (UserTurn("find it"),), ())
TWO_TURNS = Case("two", "facts", (UserTurn("find it"), UserTurn("and now?")), ())


def connected(
    root: Path,
    command: list[str],
    environment: Mapping[str, str] = ENVIRONMENT,
    harness: Harness = Harness(),  # noqa: B008 - frozen
    **more: object,
) -> Adapter:
    """A program as an endpoint; it prints a text and is given no input unless said otherwise."""
    given: dict[str, object] = {"command": command, "input": "stdin", "format": "text", **more}
    module = adapter_module("command")
    settings = module.Settings.model_validate(given)
    endpoint = Endpoint(
        *("agent", "command", "team", "test", "m", (), settings, ""),
        harness=harness,
        location="config/endpoints.yaml:3",
    )
    return module.connect(endpoint, environment, root, SystemClock())


def brief(
    folder: Path | None = None, case: Case = CASE, seconds: float = 20, rounds: int = 20
) -> TrialBrief:
    """A trial in a folder."""
    return TrialBrief(case, TrialLimits(rounds, seconds), (), 1, "trial-1", folder)


async def step_of(adapter: Adapter, one: TrialBrief, turn: UserTurn | None = None) -> Step:
    """The step of a trial's first turn."""
    session = await adapter.open(one)
    try:
        return await session.step(turn or one.case.turns[0])
    finally:
        await session.close()


def is_there(path: str) -> bool:
    """Whether a folder that a program named is there."""
    return Path(path).exists()


def noted_pids(folder: Path) -> list[int]:
    """The processes that left a file each."""
    return [int(path.stem) for path in folder.glob("*.pid")]


def shell(code: str) -> list[str]:
    """The words that run a line of shell."""
    return ["sh", "-c", code]


async def test_a_text_is_the_answer_of_one_round(tmp_path: Path) -> None:
    """How many responses it took is unknown; that there was one is not."""
    step = await step_of(connected(tmp_path, shell("cat; echo ' it'")), brief())
    assert (step.answer, step.end, len(step.rounds)) == ("find it it", "answered", 1)
    assert step.rounds[0].text == "find it it"
    assert (step.rounds[0].latency_ms or 0) > 0
    assert step.rounds[0].usage.total_tokens is None


async def test_placeholders_are_filled_once(tmp_path: Path) -> None:
    """What the user says is never looked through, and other braces stay."""
    words = ["printf", "%s|", "{input}", "{workspace}", "{project}", "{trial_id}", '{"a": {model}}']
    adapter = connected(tmp_path, words, input="argument", model="big")
    step = await step_of(adapter, brief(tmp_path), UserTurn("say {model} and {input}"))
    assert step.answer == (
        f'say {{model}} and {{input}}|{tmp_path}|{tmp_path}|trial-1|{{"a": big}}|'
    )


async def test_a_program_runs_in_the_trials_workspace(tmp_path: Path) -> None:
    """Or in an empty folder of its own, with temporary files that go with it."""
    show = connected(tmp_path, shell("pwd; ls -A; echo $TMPDIR; touch $TMPDIR/x"))
    (tmp_path / "file").touch()
    given = await step_of(show, brief(tmp_path))
    place, listed, temporary = given.answer.splitlines()
    assert (place, listed) == (str(tmp_path), "file")
    assert not is_there(temporary)
    place, temporary = (await step_of(show, brief())).answer.splitlines()
    assert not is_there(place)
    assert Path(place).parent == Path(temporary).parent


async def test_a_program_is_given_the_variables_that_are_listed(tmp_path: Path) -> None:
    """By name, by value, or under another name; nothing else of ours."""
    variables = {"FIXED": "1", "API_KEY": "env:KEY"}
    adapter = connected(tmp_path, ["env"], pass_variables=["PLAIN"], variables=variables)
    lines = (await step_of(adapter, brief())).answer.splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert set(found) - {"_", "PWD", "SHLVL"} == {
        *("PATH", "TMPDIR", "PLAIN", "FIXED", "API_KEY", "WATCHKEEPER_TRIAL_ID")
    }
    assert found["API_KEY"] == SECRET


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"command": ["no-such-program-here"]}, "was not found: it is not in PATH"),
        ({"command": ["./agent.sh"]}, "agent.sh is no file that may be executed"),
        ({"command": ["true"], "resume": ["nope"]}, "the program 'nope' was not found"),
        ({"command": ["true"], "pass_variables": ["UNSET"]}, "the variable UNSET is not set"),
        ({"command": ["true"], "variables": {"A": "env:UNSET"}}, "the variable UNSET is not set"),
    ],
)
def test_what_is_missing_is_found_before_any_call(
    more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """With the endpoint and where it stands."""
    (tmp_path / "agent.sh").write_text("no program yet")
    with pytest.raises(UsageError, match=said) as caught:
        connected(tmp_path, **more)
    assert str(caught.value).startswith("config/endpoints.yaml:3: endpoint 'agent': ")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"command": []}, "at least 1 item"),
        ({"command": ["true"], "format": "yaml"}, "expected one of trajectory, jsonl"),
        ({"command": ["true"], "input": "argument"}, "expects a word with {input}"),
        ({"command": ["true", "{input}"]}, "input: stdin expects no {input}"),
        ({"command": ["true", "{model}"]}, "the key model does not"),
        ({"command": ["true", "{session_id}"]}, "not known before the first turn"),
        ({"command": ["true"], "variables": {"A_KEY": "hunter2"}}, "the value of 'A_KEY' as env:"),
        ({"command": ["true"], "variables": {"A B": "x"}}, "should match pattern"),
        ({"command": ["true\0"]}, "cannot hold a NUL"),
        ({"command": ["true"], "disk_bytes": 1}, "greater than or equal"),
    ],
)
def test_settings_say_what_does_not_fit(more: dict[str, object], said: str) -> None:
    """Before anything is run."""
    given = {"command": ["true"], "input": "stdin", "format": "text", **more}
    with pytest.raises(ValidationError, match=said) as caught:
        adapter_module("command").Settings.model_validate(given)
    assert "hunter2" not in str(caught.value)


def test_a_harness_that_a_program_does_not_read_is_refused(tmp_path: Path) -> None:
    """Nobody should think that a prompt is used which is not."""
    for harness in (Harness(system="be nice"), Harness(tools="a:B")):
        with pytest.raises(UsageError, match=r"harness\.(system|tools) is not for kind command"):
            connected(tmp_path, ["true"], harness=harness)


async def test_a_program_of_the_project_is_found_there(tmp_path: Path) -> None:
    """It runs in the workspace all the same."""
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    step = await step_of(connected(tmp_path, ["./agent.sh"]), brief())
    assert step.answer == "here"


async def test_a_stream_of_a_real_agents_format_is_read(tmp_path: Path) -> None:
    """Claude Code's, Codex's, and what the agent calls the conversation."""
    for name, rounds in (("claude_parallel", 4), ("codex_tools", 7)):
        kind = name.partition("_")[0]
        adapter = connected(tmp_path, ["cat", str(STREAMS / f"{name}.jsonl")], format=kind)
        step = await step_of(adapter, brief())
        assert (step.end, len(step.rounds)) == ("answered", rounds)


async def test_a_report_in_the_trajectory_format_is_read(tmp_path: Path) -> None:
    """As one value over several lines, or event by event."""
    rounds: list[dict[str, Any]] = [
        {"text": "hm", "tool_calls": [{"tool": "look", "result": ""}]},
        {"text": "ok"},
    ]
    report = json.dumps({"answer": "yes", "rounds": rounds}, indent=1)
    events = [{"type": "round", **one} for one in rounds] + [{"type": "result", "answer": "yes"}]
    lines = "\n".join(json.dumps(event) for event in events)
    for format_, text in (("trajectory", report), ("jsonl", lines)):
        step = await step_of(connected(tmp_path, ["printf", "%s", text], format=format_), brief())
        assert (step.answer, step.end) == ("yes", "answered")
        assert [len(one.tool_calls) for one in step.rounds] == [1, 0]
        assert step.rounds[0].is_barren


async def test_further_turns_go_on_with_the_conversation(tmp_path: Path) -> None:
    """With the words for it and the id that the stream named; counts are those of each turn."""
    first = {"type": "thread.started", "thread_id": "th-1"}
    said = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "TEXT"}}

    def stream(text: str, tokens: int) -> str:
        usage = {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": tokens}
        end = {"type": "turn.completed", "usage": usage}
        return "\n".join(json.dumps(one) for one in (first, said, end)).replace("TEXT", text)

    adapter = connected(
        tmp_path,
        ["printf", "%s", stream("first: {input}", 100)],
        resume=["printf", "%s", stream("{session_id}: {input}", 250)],
        input="argument",
        format="codex",
    )
    session = await adapter.open(brief(case=TWO_TURNS))
    steps = [await session.step(turn) for turn in TWO_TURNS.turns]
    await session.close()
    assert [step.answer for step in steps] == ["first: find it", "th-1: and now?"]
    assert [step.rounds[-1].usage.output_tokens for step in steps] == [100, 150]


@pytest.mark.parametrize(
    "case", [TWO_TURNS, Case("u", "c", CASE.turns, (), user=SimulatedUser("s", "", "g"))]
)
async def test_several_turns_need_words_for_them(case: Case, tmp_path: Path) -> None:
    """A second turn would else be the first of another conversation."""
    adapter = connected(tmp_path, ["true"])
    with pytest.raises(EndpointFault, match="several turns; say with the key resume") as caught:
        await adapter.open(brief(case=case))
    assert (caught.value.kind, caught.value.is_transient) == ("not_supported", False)


async def test_what_is_sent_along_lies_in_a_file(tmp_path: Path) -> None:
    """The program is told where; a file that is not what it was is not sent."""
    source = tmp_path / "source.png"
    source.write_bytes(b"picture")
    sha256 = hashlib.sha256(b"picture").hexdigest()
    attachment = Attachment("a/b.png", "image/png", sha256, 7, source)
    turn = UserTurn.of(("look", attachment))
    adapter = connected(tmp_path, shell("cat > t; cat t; cat $(sed -n 's/Attached: //p' t)"))
    step = await step_of(adapter, brief(), turn)
    assert step.answer.startswith("look\nAttached: /")
    assert step.answer.endswith("/b.png\npicture") or step.answer.endswith("/b.pngpicture")
    source.write_bytes(b"another")
    with pytest.raises(EndpointFault, match=r"source\.png: it is not what it was"):
        await step_of(adapter, brief(), turn)


STREAM = (STREAMS / "claude_parallel.jsonl").read_text().splitlines()


@pytest.mark.parametrize(
    ("code", "format_", "error", "rounds"),
    [
        ("echo oh >&2; exit 3", "text", "the program exited with 3: oh", 0),
        ("echo half; exit 3", "text", "the program exited with 3", 1),
        ("echo oh >&2; exit 3", "claude", "exited with 3: no result after 0 rounds: oh", 0),
        ("true", "codex", "no end of the turn after 0 rounds", 0),
        ("true", "trajectory", "not JSON", 0),
        ("echo '<html>'", "jsonl", "line 1 is not JSON", 0),
        ("kill -SEGV $$", "text", "the program crashed: SIGSEGV", 0),
        ("kill -ABRT $$", "claude", "the program crashed: SIGABRT", 0),
    ],
)
async def test_an_agent_that_crashes_has_failed(
    code: str, format_: str, error: str, rounds: int, tmp_path: Path
) -> None:
    """It is a record with what it did, and no fault of the harness."""
    step = await step_of(connected(tmp_path, shell(code), format=format_), brief())
    assert step.end == "agent_error"
    assert error in (step.error or "")
    assert len(step.rounds) == rounds


@pytest.mark.parametrize(
    ("format_", "lines", "rounds"),
    [
        ("claude", [*STREAM[:8], '{"type": "assistant", "mess', *STREAM[8:]], 1),
        ("jsonl", ['{"type": "round", "text": "one"}', "", '{"type": "rou'], 1),
        ("jsonl", ['{"type": "text", "text": "one"}', "", "not any"], 1),
    ],
)
async def test_broken_json_in_the_middle_keeps_what_came_before(
    format_: str, lines: list[str], rounds: int, tmp_path: Path
) -> None:
    """Which line it was is said, and the program is ended there."""
    (tmp_path / "stream").write_text("\n".join(lines) + "\n")
    adapter = connected(tmp_path, shell("cat stream; sleep 60"), format=format_)
    step = await step_of(adapter, brief(tmp_path))
    assert step.end == "agent_error"
    assert (step.error or "").startswith(f"line {9 if format_ == 'claude' else 3} is not JSON: ")
    assert len(step.rounds) == rounds


async def test_a_result_counts_whatever_the_exit_code(tmp_path: Path) -> None:
    """Claude Code exits with 1 where it reports an error, which then is what it reports."""
    code = f"cat {STREAMS / 'claude_parallel.jsonl'}; exit 1"
    step = await step_of(connected(tmp_path, shell(code), format="claude"), brief())
    assert step.end == "answered"


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT", "HUP"])
async def test_a_program_that_is_ended_from_outside_has_not_failed(
    name: str, tmp_path: Path
) -> None:
    """The machine ran out of memory, or somebody ended it: the trial is tried again."""
    with pytest.raises(EndpointFault, match=f"from outside by SIG{name}") as caught:
        await step_of(connected(tmp_path, shell(f"kill -{name} $$")), brief())
    assert (caught.value.kind, caught.value.is_transient) == ("killed", True)


async def test_a_program_may_say_that_its_failure_will_pass(tmp_path: Path) -> None:
    """By exit code 75, as sysexits.h has it; its last words are told."""
    adapter = connected(tmp_path, shell("echo 'no\nnetwork' >&2; exit 75"))
    with pytest.raises(EndpointFault, match="exited with 75: no network") as caught:
        await step_of(adapter, brief())
    assert (caught.value.kind, caught.value.is_transient) == ("temporary_failure", True)


async def test_a_fault_after_calls_is_not_repeated_in_the_same_workspace(tmp_path: Path) -> None:
    """What the program did there before would be done twice; before any call it may be."""
    call = {"type": "tool_use", "id": "t", "name": "Write", "input": {}}
    lines = [
        {"type": "assistant", "message": {"id": "m", "model": "x", "content": [call]}},
        {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 529},
    ]
    for number, expected in ((0, 1), (1, 2)):
        log = tmp_path / f"runs-{number}"
        text = "\n".join(json.dumps(line) for line in lines[number:])
        code = f"echo x >> {log}; printf '%s' '{text}'"
        session = await connected(tmp_path, shell(code), format="claude").open(brief())
        for _ in range(2):
            with pytest.raises(EndpointFault) as caught:
                await session.step(CASE.turns[0])
            assert caught.value.kind == "overloaded"
        await session.close()
        assert len(log.read_text().split()) == expected


async def test_a_trials_time_ends_the_program(tmp_path: Path) -> None:
    """And everything that it started; what was done by then is told."""
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"open({str(tmp_path)!r} + f'/{{os.getpid()}}.pid', 'w')\n"
        f"print({STREAM[3]!r}, flush=True)\n"
        "time.sleep(60)"
    )
    adapter = connected(tmp_path, [sys.executable, "-c", code], format="claude")
    session = await adapter.open(brief(seconds=1))
    assert isinstance(session, CommandSession)
    with pytest.raises(TimeoutError):
        await session.step(CASE.turns[0])
    assert [len(one.tool_calls) for one in session.unfinished] == [1]
    pids = noted_pids(tmp_path)
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    await session.close()


async def test_a_cancelled_step_tells_what_was_done(tmp_path: Path) -> None:
    """The trial's own deadline cancels it."""
    stream = STREAMS / "claude_parallel.jsonl"
    adapter = connected(tmp_path, shell(f"head -4 {stream}; sleep 60"), format="claude")
    session = await adapter.open(brief())
    assert isinstance(session, CommandSession)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await session.step(CASE.turns[0])
    assert len(session.unfinished) == 1
    await session.close()


async def test_a_program_that_passes_the_limit_of_rounds_is_ended(tmp_path: Path) -> None:
    """It would only cost more: one round too many is enough to know."""
    stream = STREAMS / "claude_parallel.jsonl"
    adapter = connected(tmp_path, shell(f"head -13 {stream}; sleep 60"), format="claude")
    step = await step_of(adapter, brief(rounds=2))
    assert (step.end, len(step.rounds)) == ("agent_error", 3)
    assert step.error == "the program made more than 2 rounds"


async def test_a_gigabyte_of_one_line_ends_the_program(tmp_path: Path) -> None:
    """Its bound is a setting."""
    adapter = connected(
        tmp_path, shell("head -c 1000000000 /dev/zero"), format="jsonl", max_output_bytes=100_000
    )
    step = await step_of(adapter, brief())
    assert (step.end, step.rounds) == ("agent_error", ())
    assert step.error == "the program wrote more than 100,000 bytes of output"


@pytest.mark.parametrize("place", [".", "$TMPDIR"])
async def test_a_full_disk_ends_the_program(place: str, tmp_path: Path) -> None:
    """Its temporary files count as the workspace does."""
    code = f"dd if=/dev/zero of={place}/large bs=64k count=100 2>/dev/null; sleep 60"
    step = await step_of(connected(tmp_path, shell(code), disk_bytes=2_000_000), brief())
    assert step.end == "agent_error"
    assert "disk" in (step.error or "") or "SIGXFSZ" in (step.error or "")


async def test_secrets_do_not_stand_in_errors(tmp_path: Path) -> None:
    """The program's last words are hostile: one line, within bounds, without our keys."""
    code = "echo $API_KEY >&2; printf 'x\\033[31m\\a' >&2; exit 1"
    adapter = connected(tmp_path, shell(code), variables={"API_KEY": "env:KEY"})
    step = await step_of(adapter, brief())
    assert SECRET not in (step.error or SECRET)
    assert "[secret KEY]" in (step.error or "")
    assert (step.error or "").isprintable()


async def test_secrets_do_not_stand_in_faults(tmp_path: Path) -> None:
    """Nor half of one, where a long text is cut."""
    error = {"type": "turn.failed", "error": {"message": f"HTTP 503\n{'x' * 440} {SECRET}"}}
    words = ["printf", "%s", json.dumps(error)]
    adapter = connected(tmp_path, words, format="codex", variables={"A": "env:KEY"})
    with pytest.raises(EndpointFault, match="endpoint 'agent': HTTP 503 xxx") as caught:
        await step_of(adapter, brief())
    assert SECRET[:6] not in str(caught.value)
    assert str(caught.value).isprintable()


async def test_an_input_that_no_argument_can_hold_is_told(tmp_path: Path) -> None:
    """A NUL, or more than the system takes; standard input takes both."""
    words = ["printf", "%s", "{input}"]
    for text, said in (("a\0b", "holds a NUL"), ("x" * 3_000_000, "Argument list too long")):
        adapter = connected(tmp_path, words, input="argument")
        with pytest.raises(EndpointFault, match=said) as caught:
            await step_of(adapter, brief(), UserTurn(text))
        assert not caught.value.is_transient
        assert (await step_of(connected(tmp_path, ["cat"]), brief(), UserTurn(text))).answer == text


async def test_who_answers_is_not_known_before_a_trial(tmp_path: Path) -> None:
    """What is asked for is; and the revision, where a command of the harness tells it."""
    harness = Harness(revision_command=("printf", "2.1.3"))
    adapter = connected(tmp_path, ["true"], harness=harness, format="claude", model="sonnet")
    identity = await adapter.resolve()
    assert (identity.requested_model, identity.resolved_model) == ("sonnet", None)
    assert identity.harness_revision == "2.1.3"
    assert "the stream names the model" in (identity.note or "")
    assert "KEY" not in adapter.account
    assert "sonnet" in adapter.account


async def test_a_program_carries_out_its_own_calls(tmp_path: Path) -> None:
    """Nobody else has results for it."""
    session = await connected(tmp_path, ["true"]).open(brief())
    with pytest.raises(ValueError, match="expected a turn of the user"):
        await session.step(ToolResults(()))


def test_the_kind_asks_for_a_workspace_and_names_its_tools(tmp_path: Path) -> None:
    """What a case may name is known only where it is listed."""
    module = adapter_module("command")
    given = {"command": ["true"], "input": "stdin", "format": "text"}
    settings = module.Settings.model_validate(given)
    assert settings.needs_workspace  # type: ignore[attr-defined]
    assert settings.offered_tools(tmp_path) is None  # type: ignore[attr-defined]
    listed = module.Settings.model_validate({**given, "tools": ["Read"]})
    assert listed.offered_tools(tmp_path) == {"Read"}  # type: ignore[attr-defined]
