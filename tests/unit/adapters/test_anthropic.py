"""The adapter for the Messages API: the real SDK against a scripted server on loopback."""

import asyncio
import json
import re
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.servers import anthropic_replies as api
from tests.servers.anthropic_server import anthropic_server
from tests.servers.loopback import LoopbackServer, Reply, Request
from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.adapters._anthropic.messages import read_usage
from watchkeeper.adapters._harness import git_revision
from watchkeeper.adapters._model.faults import retry_after_s
from watchkeeper.adapters._model.json import MAX_DEPTH
from watchkeeper.adapters.anthropic import Settings, connect
from watchkeeper.clock import SimulatedClock, SystemClock
from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Endpoint, Harness
from watchkeeper.domain.ports import (
    Adapter,
    Session,
    Step,
    ToolResults,
    ToolSpec,
    TrialBrief,
)
from watchkeeper.domain.trajectory import ToolCall, Usage, call_status
from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
    UsageError,
)

BARE = Harness()
KEY = "sk-local-0123456789abcdef"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FIND = ToolSpec("find", "Finds files.", {"type": "object", "properties": {"q": {}}})
CALL = b'{"content":[{"type":"tool_use","id":"a","name":"b","input":%s}],"stop_reason":"tool_use"}'
NOTE = ToolSpec("note", "", {"type": "object"}, is_silent=True)


def endpoint(url: str | None, harness: Harness = BARE, **settings: Any) -> Endpoint:
    """An endpoint as the loader makes it."""
    return Endpoint(
        name="support",
        kind="anthropic",
        owner="support",
        env="production",
        requested_model=api.DEFAULT_MODEL,
        suites=(),
        settings=Settings(
            model=settings.pop("model", api.DEFAULT_MODEL),
            api_key="env:SOME_KEY",
            base_url=url,
            **settings,
        ),
        config_hash="",
        harness=harness,
        location="config/endpoints.yaml:7",
    )


@asynccontextmanager
async def connected(
    url: str, root: Path = Path("/"), harness: Harness = BARE, **settings: Any
) -> AsyncIterator[Adapter]:
    """The adapter of an endpoint at ``url``, closed at the end."""
    clock = SimulatedClock(NOW)
    adapter = connect(endpoint(url, harness, **settings), {"SOME_KEY": KEY}, root, clock)
    try:
        yield adapter
    finally:
        await adapter.close()


def brief(*tools: ToolSpec) -> TrialBrief:
    """A trial that offers some tools."""
    case = Case("case", "category", (UserTurn("hello"),), ())
    return TrialBrief(case, TrialLimits(), tools, seed=1, trial_id="t1")


async def converse(server: LoopbackServer, *observations: Any, **settings: Any) -> list[Step]:
    """The steps of one conversation about some observations."""
    async with connected(server.url, **settings) as adapter:
        session = await adapter.open(brief(FIND, NOTE))
        steps = [await session.step(observation) for observation in observations]
        await session.close()
    return steps


async def first_fault(reply: Reply, **settings: Any) -> EndpointFault:
    """What the first step raises; checks that it can be given again and no key is shown."""
    with anthropic_server([reply, api.message("recovered")]) as server:
        async with connected(server.url, **settings) as adapter:
            session = await adapter.open(brief())
            with pytest.raises(EndpointFault) as caught:
                await session.step(UserTurn("hello"))
            assert len(server.message_calls) == 1
            step = await session.step(UserTurn("hello"))
        assert step.answer == "recovered"
        assert server.message_calls[-1].body["messages"] == [{"role": "user", "content": "hello"}]
    fault = caught.value
    assert KEY not in "".join(traceback.format_exception(fault))
    assert len(str(fault)) <= 500
    assert "endpoint 'support'" in str(fault)
    return fault


def answered(call: ToolCall, result: str, *, is_error: bool = False) -> ToolCall:
    """The call with its result, as the toolbox gives it."""
    status = call_status(result, is_error=is_error)
    return replace(call, result=result, status=status, is_error=is_error)


def verbatim(body: bytes) -> Reply:
    """A reply that the server hands out as it stands; it completes others that say JSON."""
    return Reply(body=body, headers={"content-type": "application/vnd.test+json"})


def replied(**changes: Any) -> Reply:
    """A normal answer with some keys of its body changed; ``...`` takes a key away."""
    body = {**json.loads(api.message("Paris").body), **changes}
    return verbatim(
        json.dumps({k: value for k, value in body.items() if value is not ...}).encode()
    )


class Always(LoopbackServer):
    """A server that knows one reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply

    def answer(self, request: Request) -> Reply:
        """The reply, whatever is asked."""
        return self.reply


# Settings


def test_module_is_found_by_its_kind() -> None:
    """The file's name is the kind, and the module offers what the contract asks for."""
    assert "anthropic" in adapter_kinds()
    assert adapter_module("anthropic").Settings is Settings


@pytest.mark.parametrize("key", ["sk-ant-secret-value", "env:sk-ant-secret-value", "", 17, None])
def test_literal_key_is_refused_and_never_repeated(key: object) -> None:
    """A key in the file is a fault, and no error shows it, whatever else is wrong."""
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"api_key": key, "max_tokens": 0, "extra": 1})
    assert "secret-value" not in str(caught.value)
    assert "secret-value" not in repr(caught.value.errors())
    assert {error["loc"][0] for error in caught.value.errors()} == {
        "api_key",
        "max_tokens",
        "model",
        "extra",
    }


@pytest.mark.parametrize(
    "address",
    ["https://user:hidden-pw@host", "ftp://host", "host", "https://host/?a=1", "http://ho st", ""],
)
def test_address_with_secrets_or_of_another_kind_is_refused(address: str) -> None:
    """Only a plain http(s) address is taken; a password in it is not repeated."""
    with pytest.raises(ValidationError) as caught:
        Settings(model="m", api_key="env:KEY", base_url=address)
    assert "hidden-pw" not in repr(caught.value.errors())


@pytest.mark.parametrize("model", ["", "..", "a b", "a\nb", "m" * 201])
def test_model_that_is_no_name_is_refused(model: str) -> None:
    """The SDK puts the name into a path and would raise on some of these."""
    with pytest.raises(ValidationError):
        Settings(model=model, api_key="env:KEY")


@pytest.mark.parametrize(
    "wrong",
    [{"max_tokens": 0}, {"max_tokens": 10**6}, {"request_seconds": 0}, {"request_seconds": 1e9}],
)
def test_bounds_are_bounded(wrong: Mapping[str, Any]) -> None:
    """Every limit has a limit."""
    with pytest.raises(ValidationError):
        Settings.model_validate({"model": "m", "api_key": "env:KEY", **wrong})


# Connecting


@pytest.mark.parametrize("variables", [{}, {"SOME_KEY": ""}, {"SOME_KEY": " \n"}])
def test_missing_key_names_variable_and_endpoint(variables: Mapping[str, str]) -> None:
    """A missing secret is found before any call."""
    with pytest.raises(UsageError, match=r"endpoints\.yaml:7.*'support'.*SOME_KEY"):
        connect(endpoint(None), variables, Path("/"), SystemClock())


def test_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    """The SDK would raise an error that quotes the header."""
    with pytest.raises(UsageError, match="SOME_KEY") as caught:
        connect(endpoint(None), {"SOME_KEY": "pass\nword"}, Path("/"), SystemClock())
    assert "word" not in str(caught.value)


def test_reading_the_module_does_not_load_the_sdk() -> None:
    """Commands that call no model do not pay for the SDK's import."""
    code = "import sys, watchkeeper.adapters.anthropic; sys.exit('anthropic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_public_address_does_not_depend_on_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stray ANTHROPIC_BASE_URL does not change what is under test."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    adapter: Any = connect(endpoint(None), {"SOME_KEY": KEY}, Path("/"), SystemClock())
    assert str(adapter._line.client.base_url).rstrip("/") == "https://api.anthropic.com"
    await adapter.close()
    await adapter.close()


# Requests and answers


async def test_request_carries_model_prompt_and_tools() -> None:
    """What is sent is what the endpoint declares and nothing else."""
    with anthropic_server([api.message("Paris")], api_key=KEY) as server:
        harness = Harness(system="Be \ud800 kind.")
        (step,) = await converse(server, UserTurn("Capital?\udfff"), harness=harness, max_tokens=99)
        (call,) = server.message_calls
    assert call.body == {
        "model": api.DEFAULT_MODEL,
        "max_tokens": 99,
        "system": "Be \ufffd kind.",
        "messages": [{"role": "user", "content": "Capital?\ufffd"}],
        "tools": [
            {"name": "find", "description": "Finds files.", "input_schema": FIND.input_schema},
            {"name": "note", "input_schema": {"type": "object"}},
        ],
    }
    (one,) = step.rounds
    assert (step.end, step.answer, step.wanted) == ("answered", "Paris", ())
    assert (one.text, one.stop_reason, one.served_model) == (
        "Paris",
        "end_turn",
        api.DEFAULT_MODEL,
    )
    assert one.request_id == "req_000001"
    assert one.latency_ms == 0.0  # the clock is simulated


async def test_blank_prompt_and_no_tools_are_left_out() -> None:
    """The API refuses an empty system prompt and an empty list of tools is noise."""
    with anthropic_server([api.message()]) as server:
        async with connected(server.url, harness=Harness(system=" \n")) as adapter:
            await (await adapter.open(brief())).step(UserTurn("hello"))
        assert set(server.message_calls[0].body) == {"model", "max_tokens", "messages"}


async def test_several_turns_are_one_conversation() -> None:
    """The second turn is sent with all that was said before."""
    with anthropic_server([api.message("one"), api.message("two")]) as server:
        steps = await converse(server, UserTurn("a"), UserTurn("b"))
        messages = server.message_calls[1].body["messages"]
    assert [step.answer for step in steps] == ["one", "two"]
    assert [(entry["role"], entry["content"]) for entry in messages] == [
        ("user", "a"),
        ("assistant", [{"type": "text", "text": "one"}]),
        ("user", "b"),
    ]


async def test_parallel_tool_calls_are_wanted_and_answered_in_one_turn() -> None:
    """The loop is ours: calls wait, results go back in one message, blocks exactly as given."""
    calls = [("find", {"q": "x"}), ("note", {}), ("find", {"q": "y"})]
    with anthropic_server([api.tool_uses(calls, text="Looking."), api.message("Done.")]) as server:
        async with connected(server.url) as adapter:
            session = await adapter.open(brief(FIND, NOTE))
            first = await session.step(UserTurn("hello"))
            wanted = first.wanted
            wanted[0].arguments["q"] = "changed by a tool"
            results = (
                answered(wanted[0], "a.txt \ud800"),
                answered(wanted[1], ""),
                answered(wanted[2], "", is_error=True),
            )
            last = await session.step(ToolResults(results))
        messages = server.message_calls[1].body["messages"]
    assert (first.rounds, first.end) == ((), None)
    assert first.waiting is not None
    assert first.waiting.text == "Looking."
    assert first.waiting.tool_calls == wanted
    assert [(call.tool, call.call_id, call.is_silent) for call in wanted] == [
        ("find", "toolu_1", False),
        ("note", "toolu_1_2", True),
        ("find", "toolu_1_3", False),
    ]
    assert [block.get("input") for block in messages[1]["content"]] == [
        None,
        {"q": "x"},
        {},
        {"q": "y"},
    ]
    assert messages[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt \ufffd"},
            {"type": "tool_result", "tool_use_id": "toolu_1_2", "content": ""},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1_3",
                "content": "The tool gave no result.",
                "is_error": True,
            },
        ],
    }
    assert (last.answer, last.end, len(last.rounds)) == ("Done.", "answered", 1)


async def test_fault_between_calls_and_results_changes_nothing() -> None:
    """The same results may be given again after a fault."""
    script = [api.tool_use("find", {}), api.overloaded(), api.message("ok")]
    with anthropic_server(script) as server:
        async with connected(server.url) as adapter:
            session = await adapter.open(brief(FIND))
            (call,) = (await session.step(UserTurn("hello"))).wanted
            results = ToolResults((answered(call, "x"),))
            with pytest.raises(EndpointOverloaded):
                await session.step(results)
            assert (await session.step(results)).answer == "ok"
        assert server.message_calls[1].body == server.message_calls[2].body


@pytest.mark.parametrize(
    "wrong", [UserTurn("and?"), ToolResults(()), ToolResults((ToolCall("find", call_id="no"),))]
)
async def test_answer_to_something_else_is_our_own_mistake(wrong: Any) -> None:
    """Calls that are not answered, or others that are, never reach the server."""
    with anthropic_server([api.tool_use("find", {})]) as server:
        with pytest.raises(ValueError, match="waits for"):
            await converse(server, UserTurn("hello"), wrong)
        assert len(server.message_calls) == 1


async def test_pause_is_a_round_and_goes_on_without_a_user_turn() -> None:
    """Each response is a round; the answer is the text of the whole turn."""
    text = {"type": "text", "text": "I looked. "}
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    pause = api.message(content=[text, search], stop_reason="pause_turn")
    script = [pause, api.paused(), api.message("Sunny."), api.message("Bye.")]
    with anthropic_server(script) as server:
        on = ToolResults(())
        steps = await converse(server, UserTurn("weather?"), on, on, UserTurn("thanks"))
        sent = [call.body["messages"] for call in server.message_calls]
    assert [(len(one.rounds), one.wanted, one.end) for one in steps[:2]] == [(1, (), None)] * 2
    assert [one.rounds[0].stop_reason for one in steps[:3]] == [
        "pause_turn",
        "pause_turn",
        "end_turn",
    ]
    assert (steps[2].answer, steps[2].end) == ("I looked. Sunny.", "answered")
    assert [entry["role"] for entry in sent[2]] == ["user", "assistant", "assistant"]
    assert sent[1][1]["content"] == [text, search]
    assert steps[3].answer == "Bye."


async def test_call_beside_a_pause_or_an_end_is_still_wanted() -> None:
    """Servers that name another stop reason beside calls do not lose them."""
    for reason in ("pause_turn", "end_turn"):
        content = [{"type": "tool_use", "id": "t", "name": "find", "input": {}}]
        with anthropic_server([api.message(content=content, stop_reason=reason)]) as server:
            (step,) = await converse(server, UserTurn("hello"))
        assert [call.tool for call in step.wanted] == ["find"]


async def test_refusal_may_have_no_content() -> None:
    """A refusal is the agent's end; the next turn is sent without the empty one."""
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    refused = api.message(content=[], stop_reason="refusal", stop_details=details)
    with anthropic_server([api.refusal(), refused, api.message("ok")]) as server:
        steps = await converse(server, UserTurn("a"), UserTurn("b"), UserTurn("c"))
        roles = [entry["role"] for entry in server.message_calls[2].body["messages"]]
    assert [(step.end, step.answer, step.error) for step in steps[:2]] == [
        ("refused", "", None),
        ("refused", "", "cyber: No."),
    ]
    assert roles == ["user", "user", "user"]


@pytest.mark.parametrize("reply", [api.cut_off("The cap"), api.context_exceeded("The cap")])
async def test_cut_off_answer_is_truncated(reply: Reply) -> None:
    """Both ways to run out of tokens end the turn with what there is."""
    with anthropic_server([reply]) as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert (step.end, step.answer, len(step.rounds)) == ("truncated", "The cap", 1)


async def test_half_a_call_is_recorded_but_neither_wanted_nor_sent_back() -> None:
    """A truncated response may end within a call, which nobody must carry out."""
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "\n"},
        {"type": "tool_use", "id": "t", "name": "find", "input": {"q": "ha"}},
    ]
    script = [api.message(content=content, stop_reason="max_tokens"), api.message("ok")]
    with anthropic_server(script) as server:
        steps = await converse(server, UserTurn("a"), UserTurn("b"))
        roles = [entry["role"] for entry in server.message_calls[1].body["messages"]]
    assert (steps[0].end, steps[0].wanted) == ("truncated", ())
    assert [call.status for call in steps[0].rounds[0].tool_calls] == ["unanswered"]
    assert roles == ["user", "user"]


async def test_stop_for_a_tool_without_a_call_is_the_agents_error() -> None:
    """There is nothing to answer, so the turn ends, and says why."""
    with anthropic_server([api.message("hm", stop_reason="tool_use")]) as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert (step.end, step.answer) == ("agent_error", "hm")
    assert step.error == "the model stopped to use a tool but asked for none"


async def test_stop_sequence_is_an_answer_and_blocks_are_joined() -> None:
    """Text blocks are one text; other blocks are kept for the next request and not shown."""
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Pa", "citations": None},
        {"type": "from_the_future", "payload": [1]},
        {"type": "text", "text": "ris"},
    ]
    script = [api.message(content=content, stop_reason="stop_sequence"), api.message("ok")]
    with anthropic_server(script) as server:
        steps = await converse(server, UserTurn("a"), UserTurn("b"))
        assert server.message_calls[1].body["messages"][1]["content"] == content
    assert (steps[0].end, steps[0].answer) == ("answered", "Paris")


async def test_hostile_text_can_be_sent_back_and_stored() -> None:
    """Half a surrogate pair, NUL and numbers beyond a float survive the way there and back."""
    raw = (
        rb'{"type":"message","model":"m","stop_reason":"tool_use","usage":{},"content":['
        rb'{"type":"text","text":"a\ud800\u0000b"},'
        rb'{"type":"tool_use","id":"t","name":"find","input":{"\udfff":["\ud83d\ude00",1e999]}}]}'
    )
    script = [verbatim(raw), api.message("ok")]
    with anthropic_server(script) as server:
        async with connected(server.url) as adapter:
            session = await adapter.open(brief(FIND))
            first = await session.step(UserTurn("hello"))
            (call,) = first.wanted
            last = await session.step(ToolResults((answered(call, "\ud800"),)))
        sent = server.message_calls[1].body["messages"][1]["content"]
    assert last.end == "answered"
    assert first.waiting is not None
    assert first.waiting.text == "a\ufffd\0b"
    assert call.arguments == {"\ufffd": ["\U0001f600", sys.float_info.max]}
    assert sent[0]["text"] == "a\ufffd\0b"
    json.dumps(call.arguments, ensure_ascii=False, allow_nan=False).encode()


# Usage and identity of a round


async def test_token_classes_are_each_counted_once() -> None:
    """Cache writes are split by lifetime; thinking is part of the output."""
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 700,
        "cache_read_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 200},
        "output_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 30},
    }
    with anthropic_server([replied(usage=usage)]) as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert step.rounds[0].usage == Usage(10, 500, 200, 20, 40, 30)
    assert step.rounds[0].usage.total_tokens == 770


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"cache_creation_input_tokens": 9}, Usage(None, 9, 0)),
        ({"cache_creation_input_tokens": 9, "cache_creation": None}, Usage(None, 9, 0)),
        (
            {
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 4},
            },
            Usage(None, 5, 4),
        ),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 4}}, Usage(None, None, 4)),
        ({"input_tokens": 1, "output_tokens": 2}, Usage(1, None, None, None, 2, None)),
        ({"input_tokens": True, "output_tokens": -1, "cache_read_input_tokens": "7"}, Usage()),
        ({"input_tokens": 1.5, "output_tokens_details": 3, "cache_creation": []}, Usage()),
    ],
)
def test_what_the_provider_does_not_say_is_unknown(usage: object, expected: Usage) -> None:
    """Absence is not a number, and neither is a text or a negative count."""
    assert read_usage(usage) == expected


@pytest.mark.parametrize("usage", [..., None, "many", [1, 2], 7])
async def test_answer_without_usage_is_still_an_answer(usage: object) -> None:
    """Usage that is missing or not as promised is unknown, never 0."""
    with anthropic_server([replied(usage=usage)]) as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert (step.answer, step.end) == ("Paris", "answered")
    assert step.rounds[0].usage == Usage()


async def test_fallback_model_is_the_one_that_served() -> None:
    """A round names the model that really answered."""
    with anthropic_server([api.fallback("ok", served_by="other-model")]) as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert step.rounds[0].served_model == "other-model"


@pytest.mark.parametrize(
    ("iterations", "expected"),
    [
        (
            [
                {"type": "fallback_message", "model": "b"},
                {"type": "fallback_message", "model": "c"},
                {"type": "fallback_message", "model": "b"},
            ],
            "b+c",
        ),
        ([{"type": "message", "model": "x"}, {"type": "advisor_message", "model": "y"}], "a"),
        ([None, 3, {"type": "fallback_message", "model": 5}], "a"),
        ("junk", "a"),
    ],
)
async def test_only_fallback_entries_replace_the_named_model(
    iterations: object, expected: str
) -> None:
    """Advisors and declined models did not answer; several that did are joined."""
    usage = {"input_tokens": 1, "output_tokens": 1, "iterations": iterations}
    with anthropic_server([replied(model="a", usage=usage)]) as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert step.rounds[0].served_model == expected


@pytest.mark.parametrize("model", [..., None, 5, ""])
async def test_unnamed_model_is_unknown(model: object) -> None:
    """The requested name is no evidence of what was served."""
    with Always(replied(model=model)).running() as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert step.rounds[0].served_model is None
    assert step.rounds[0].request_id is None


# Faults


@pytest.mark.parametrize(
    ("reply", "fault_class", "kind", "is_transient", "retry_after"),
    [
        (api.rate_limited(), EndpointOverloaded, "rate_limited", True, None),
        (api.rate_limited(7.5), EndpointOverloaded, "rate_limited", True, 7.5),
        (api.overloaded(), EndpointOverloaded, "overloaded", True, None),
        (
            api.failed(500, "overloaded_error", "Overloaded"),
            EndpointOverloaded,
            "overloaded",
            True,
            None,
        ),
        (api.server_error(), EndpointUnreachable, "server_error", True, None),
        (
            Reply(status=503, body=b"busy", headers={"retry-after": "2"}),
            EndpointUnreachable,
            "server_error",
            True,
            2.0,
        ),
        (api.html_page(502), EndpointUnreachable, "server_error", True, None),
        (api.failed(408, "timeout_error", "t"), EndpointUnreachable, "timeout", True, None),
        (api.failed(409, "conflict_error", "c"), EndpointUnreachable, "conflict", True, None),
        (api.unauthorized(), EndpointRefused, "authentication", False, None),
        (api.failed(403, "permission_error", "no"), EndpointRefused, "authentication", False, None),
        (api.model_missing(), EndpointRefused, "model_not_found", False, None),
        (api.html_page(404), EndpointRefused, "model_not_found", False, None),
        (
            api.failed(400, "invalid_request_error", "prompt is too long"),
            EndpointRefused,
            "context_exceeded",
            False,
            None,
        ),
        (
            api.failed(400, "invalid_request_error", "messages: must not be empty"),
            EndpointRefused,
            "invalid_request",
            False,
            None,
        ),
        (
            api.failed(413, "request_too_large", "x"),
            EndpointRefused,
            "invalid_request",
            False,
            None,
        ),
        (Reply(status=405), EndpointRefused, "not_supported", False, None),
        (Reply(status=304), EndpointUnreachable, "bad_response", True, None),
        (api.html_page(), EndpointUnreachable, "bad_response", True, None),
        (api.junk(), EndpointUnreachable, "bad_response", True, None),
        (api.dropped(), EndpointUnreachable, "connection", True, None),
        (
            api.message(stop_reason="brand_new"),
            EndpointUnreachable,
            "unknown_stop_reason",
            False,
            None,
        ),
    ],
)
async def test_fault_of_each_status(
    reply: Reply,
    fault_class: type[EndpointFault],
    kind: str,
    is_transient: bool,
    retry_after: float | None,
) -> None:
    """Every failure says what it was, whether to come back, and when; the step changed nothing."""
    fault = await first_fault(reply)
    assert type(fault) is fault_class
    assert (fault.kind, fault.is_transient, fault.retry_after_s) == (
        kind,
        is_transient,
        retry_after,
    )


@pytest.mark.parametrize(
    ("status", "type_", "text", "details", "kind"),
    [
        (429, "rate_limit_error", "You exceeded your daily quota.", None, "quota_exhausted"),
        (429, "rate_limit_error", "1,000,000 tokens per day.", None, "quota_exhausted"),
        (
            429,
            "rate_limit_error",
            "Limit.",
            {"error_code": "enforced_spend_limit_reached"},
            "quota_exhausted",
        ),
        (
            429,
            "rate_limit_error",
            "Slower.",
            {"error_code": "ramp_limit_exceeded"},
            "rate_limited",
        ),
        (429, "rate_limit_error", "quota of 50 requests per minute", None, "rate_limited"),
        (429, "rate_limit_error", "your account's rate limit", None, "rate_limited"),
        (
            400,
            "invalid_request_error",
            "You have reached your specified API usage limits.",
            None,
            "quota_exhausted",
        ),
        (400, "invalid_request_error", "Your credit balance is low.", None, "quota_exhausted"),
        (402, "billing_error", "Pay.", None, "quota_exhausted"),
        (400, "invalid_request_error", "messages: daily", None, "invalid_request"),
    ],
)
async def test_exhausted_quota_is_told_from_a_busy_minute(
    status: int, type_: str, text: str, details: object, kind: str
) -> None:
    """What will not be better in a minute is not tried again."""
    error = {"type": type_, "message": text, "details": details}
    fault = await first_fault(Reply.json({"type": "error", "error": error}, status=status))
    assert fault.kind == kind
    assert fault.is_transient == (kind == "rate_limited")
    assert isinstance(fault, EndpointOverloaded if status == 429 else EndpointRefused)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e9"}, 1e9),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "20"}, 20.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, 0.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "Sun, 99 Mar 2026 12:00:30 GMT"}, None),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 +9999"}, None),
    ],
)
def test_wait_that_the_provider_asks_for(
    headers: Mapping[str, str], expected: float | None
) -> None:
    """Seconds, milliseconds or a date; nonsense is nothing. The caller caps it."""
    assert retry_after_s(headers, NOW) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"text"',
        b"{",
        b"\xff\xfe\xff",
        CALL % b'{"amount":NaN}',
        CALL % b'{"amount":-Infinity}',
        b'{"n": ' + b"9" * 5000 + b"}",
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 100_000,
        CALL % (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"),
        b'{"type":"error","error":{"type":"api_error","message":"oh"}}',
        b'{"content":"text","stop_reason":"end_turn"}',
        b'{"content":null,"stop_reason":"end_turn"}',
        b'{"content":["text"],"stop_reason":"end_turn"}',
        b'{"content":[{"text":"x"}],"stop_reason":"end_turn"}',
        b'{"content":[{"type":"text","text":7}],"stop_reason":"end_turn"}',
        b'{"content":[],"stop_reason":null}',
        b'{"content":[]}',
        CALL % b'"{}"',
        b'{"content":[{"type":"tool_use","id":"","name":"b","input":{}}],"stop_reason":"tool_use"}',
        b'{"content":[{"type":"tool_use","id":"a","input":{}}],"stop_reason":"tool_use"}',
        b'{"content":[{"type":"tool_use","id":"a","name":"b","input":{}},'
        b'{"type":"tool_use","id":"a","name":"b","input":{}}],"stop_reason":"tool_use"}',
    ],
)
async def test_answer_that_is_not_of_the_api_is_the_servers_fault(body: bytes) -> None:
    """Nothing that a server may send with status 200 crashes, or is taken for an answer."""
    fault = await first_fault(verbatim(body))
    assert isinstance(fault, EndpointUnreachable)
    assert (fault.kind, fault.is_transient) == ("bad_response", True)


async def test_answer_of_another_type_but_json_is_read() -> None:
    """What counts is the body, not the label on it."""
    reply = api.message("Paris")
    with anthropic_server([replace(reply, headers={"content-type": "text/plain"})]) as server:
        (step,) = await converse(server, UserTurn("hello"))
    assert step.answer == "Paris"


async def test_late_answer_is_a_timeout() -> None:
    """A request that is not answered in time can be made again."""
    fault = await first_fault(api.message().after(30), request_seconds=0.1)
    assert (type(fault), fault.kind, fault.is_transient) == (EndpointUnreachable, "timeout", True)


async def test_deadline_bounds_the_whole_request() -> None:
    """A server that sends a byte now and then keeps no request alive, unlike in the SDK."""
    hung_up = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)
        hung_up.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with connected(f"http://127.0.0.1:{port}", request_seconds=0.2) as adapter:
        session = await adapter.open(brief())
        started = asyncio.get_running_loop().time()
        with pytest.raises(EndpointUnreachable, match=r"within 0\.2 s"):
            await session.step(UserTurn("hello"))
        assert asyncio.get_running_loop().time() - started < 2
    await hung_up.wait()
    server.close()
    await server.wait_closed()


async def test_cancelled_step_changes_nothing() -> None:
    """The caller's own deadline is the caller's, and the step may be made again."""
    with anthropic_server([api.message().after(30), api.message("ok")]) as server:
        async with connected(server.url) as adapter:
            session = await adapter.open(brief())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await session.step(UserTurn("hello"))
            assert (await session.step(UserTurn("hello"))).answer == "ok"


async def test_nobody_at_home_is_unreachable() -> None:
    """A refused connection is an infrastructure fault, for a trial and for the watch."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with connected(f"http://127.0.0.1:{port}") as adapter:
        session: Session = await adapter.open(brief())
        for pending in (session.step(UserTurn("hello")), adapter.resolve()):
            with pytest.raises(EndpointUnreachable) as caught:
                await pending
            assert (caught.value.kind, caught.value.is_transient) == ("connection", True)


async def test_requests_are_never_repeated_behind_our_back() -> None:
    """Retries are the caller's: one step is one request, also where the server asks for more."""
    busy = replace(api.rate_limited(0), headers={"retry-after": "0", "x-should-retry": "true"})
    with anthropic_server(then=busy) as server:
        with pytest.raises(EndpointOverloaded):
            await converse(server, UserTurn("hello"))
        assert [call.retry_number for call in server.message_calls] == [0]


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
async def test_key_is_in_no_error_text(status: int) -> None:
    """A server that repeats the key, anywhere in a long text, does not make us repeat it."""
    for padding in (0, 380, 420, 5000):
        text = "x" * padding + f" bad key {KEY}, sent as Bearer {KEY} \ud800\x00"
        fault = await first_fault(api.failed(status, "some_error", text))
        page = f"<html>{'y' * padding}{KEY}</html>".encode()
        fault = await first_fault(Reply(status=status, body=page))
        assert KEY[:12] not in str(fault)
        str(fault).encode()


async def test_fault_says_what_to_look_at() -> None:
    """Whoever is woken learns the variable, the model and the request."""
    refused = str(await first_fault(api.unauthorized()))
    assert re.search(r"req_000001.*SOME_KEY was not accepted.*HTTP 401.*invalid x-api-key", refused)
    assert f"model '{api.DEFAULT_MODEL}'" in str(await first_fault(api.model_missing()))
    assert "base_url" in str(await first_fault(api.html_page(404)))
    assert "Checking your browser" in str(await first_fault(api.html_page()))


# Identity


async def test_alias_is_resolved_to_what_is_served() -> None:
    """The server's list tells the id, its age and how long it stays."""
    card = api.model_card(
        "claude-x-20260201", lifecycle="deprecated", retires_at="2026-12-01T00:00:00Z"
    )
    with anthropic_server(models={"claude-x": card}, api_key=KEY) as server:
        async with connected(server.url, model="claude-x") as adapter:
            served = await adapter.resolve()
    assert (served.requested_model, served.resolved_model) == ("claude-x", "claude-x-20260201")
    assert served.created_at == datetime(2026, 2, 1, tzinfo=UTC)
    assert (served.lifecycle, served.retires_at) == (
        "deprecated",
        datetime(2026, 12, 1, tzinfo=UTC),
    )
    assert (served.harness_revision, served.note) == (None, None)


async def test_missing_fields_of_the_card_are_unknown() -> None:
    """An epoch, a number or nothing where a time should be is no time."""
    for created in ("1970-01-01T00:00:00Z", 1_700_000_000, None, "yesterday"):
        card = {"id": "m-1", "created_at": created, "lifecycle": 3}
        with anthropic_server(models={"m": card}) as server:
            async with connected(server.url, model="m") as adapter:
                served = await adapter.resolve()
        assert (served.resolved_model, served.created_at) == ("m-1", None)
        assert (served.lifecycle, served.retires_at) == (None, None)


@pytest.mark.parametrize(
    "reply",
    [
        api.html_page(),
        Reply(body=b"[1, 2]", headers={"content-type": "application/json"}),
        Reply.json({"hello": "world"}),
        Reply.json({"id": 5, "type": "model"}),
        api.model_missing(),
        Reply(status=404),
        Reply(status=405),
        Reply(status=501),
    ],
)
async def test_server_that_does_not_say_leaves_identity_unverifiable(reply: Reply) -> None:
    """Junk and other servers do not stop an evaluation, and it is said why."""
    with Always(reply).running() as server:
        async with connected(server.url) as adapter:
            served = await adapter.resolve()
    assert served.requested_model == api.DEFAULT_MODEL
    assert served.resolved_model is None
    assert "identity unverifiable" in str(served.note)


@pytest.mark.parametrize(
    ("reply", "fault_class", "kind"),
    [
        (api.unauthorized(), EndpointRefused, "authentication"),
        (api.failed(403, "permission_error", "no"), EndpointRefused, "authentication"),
        (api.rate_limited(), EndpointOverloaded, "rate_limited"),
        (api.server_error(), EndpointUnreachable, "server_error"),
        (api.dropped(), EndpointUnreachable, "connection"),
    ],
)
async def test_server_that_fails_is_a_fault(
    reply: Reply, fault_class: type[EndpointFault], kind: str
) -> None:
    """A key that is refused or a server that is down is found before the first trial."""
    with Always(reply).running() as server:
        async with connected(server.url) as adapter:
            with pytest.raises(fault_class) as caught:
                await adapter.resolve()
    assert caught.value.kind == kind


# Harness revision


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git work tree with one commit."""
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "prompt.md").write_text("Be kind.")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def git(folder: Path, *words: str) -> str:
    """What git prints, whatever the machine's own configuration says."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


async def test_clean_work_tree_is_its_commit(repository: Path) -> None:
    """A committed harness is named by its commit; ignored files do not count."""
    (repository / "a.log").write_text("x")
    assert await git_revision(repository) == (git(repository, "rev-parse", "HEAD"), None)


@pytest.mark.parametrize("file", ["prompt.md", "new.py"])
async def test_uncommitted_change_is_dirty(repository: Path, file: str) -> None:
    """An edited file and a new one both make the commit's name not enough."""
    (repository / file).write_text("changed")
    commit = git(repository, "rev-parse", "HEAD")
    assert await git_revision(repository) == (f"{commit}+dirty", None)


async def test_only_the_folder_itself_makes_it_dirty(repository: Path) -> None:
    """Records that a run writes elsewhere in the repository change no agent."""
    agent = repository / "agent"
    agent.mkdir()
    (repository / "new.py").write_text("x")
    assert (await git_revision(agent)).commit == git(repository, "rev-parse", "HEAD")


async def test_revision_that_cannot_be_told_says_why(repository: Path, tmp_path: Path) -> None:
    """No repository, no folder, no commit, no git, no time: each is a reason, never an error."""
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    outside = {"GIT_CEILING_DIRECTORIES": str(tmp_path), "PATH": "/usr/bin:/bin"}
    reasons = [
        (await git_revision(tmp_path, outside)).reason,
        (await git_revision(tmp_path / "nowhere")).reason,
        (await git_revision(repository / "prompt.md")).reason,
        (await git_revision(empty)).reason,
        (await git_revision(repository, {"PATH": str(empty)})).reason,
        (await git_revision(repository, seconds=0.0)).reason,
    ]
    expected = ["not a git repository", "no such folder", "no such folder", "git says"]
    expected += ["not installed", "within 0 s"]
    assert [word in str(reason) for word, reason in zip(expected, reasons, strict=True)] == [
        True
    ] * len(expected)


async def test_git_hook_does_not_redirect(repository: Path, tmp_path: Path) -> None:
    """Within a hook GIT_DIR names the repository of the hook; the path is what counts."""
    variables = {"GIT_DIR": str(tmp_path / "other"), "GIT_WORK_TREE": "/", "PATH": "/usr/bin:/bin"}
    revision = await git_revision(repository, variables)
    assert revision.commit == git(repository, "rev-parse", "HEAD")


async def test_identity_carries_the_harness_revision(repository: Path, tmp_path: Path) -> None:
    """The revision is told also where the model is not, and a reason joins the note."""
    with anthropic_server(models={"other": {}}) as server:
        harness = Harness(revision_git="agent")
        async with connected(server.url, tmp_path, harness) as adapter:
            served = await adapter.resolve()
        harness = Harness(revision_git="nowhere")
        async with connected(server.url, tmp_path, harness) as adapter:
            unknown = await adapter.resolve()
    assert served.harness_revision == git(repository, "rev-parse", "HEAD")
    assert served.note == "identity unverifiable: the server does not list the model"
    assert unknown.harness_revision is None
    assert str(unknown.note).endswith("nowhere: no such folder")
