"""The adapter for OpenAI's APIs: the real SDK against a scripted server on loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.servers import openai_replies as api
from tests.servers.loopback import DROPPED, Reply
from tests.servers.openai_replies import Answer
from tests.servers.openai_server import openai_server
from tests.unit.adapters.openai_stand import (
    APIS,
    FIND,
    KEY,
    NOTE,
    Always,
    answered,
    brief,
    connected,
    converse,
    endpoint,
    first_fault,
    verbatim,
)
from watchkeeper.adapters import adapter_kinds, adapter_module
from watchkeeper.adapters._openai.shapes import read_usage
from watchkeeper.adapters.openai import Settings, connect, list_models
from watchkeeper.clock import SystemClock
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Harness, ListedModel
from watchkeeper.domain.ports import RateLimits, ToolResults
from watchkeeper.domain.trajectory import Usage
from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
    UsageError,
)

HELLO = UserTurn("hello")
HTML = b"<!doctype html><html><body>Checking your browser</body></html>"


# Settings and connecting


def test_module_is_found_by_its_kind() -> None:
    """The file's name is the kind, and the module offers what the contract asks for."""
    assert "openai" in adapter_kinds()
    assert adapter_module("openai").Settings is Settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"api": "assistants"},
        {"temperature": 3},
        {"top_p": 0},
        {"reasoning_effort": "enormous"},
        {"organization": "a\nb"},
        {"project": ""},
        {"output_bound": "n"},
        {"api_key": "sk-proj-secret-value"},
        {"base_url": "https://user:secret-value@host/v1"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(wrong: Mapping[str, Any]) -> None:
    """Before any call, and without repeating what may be a secret."""
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"model": "m", "api_key": "env:KEY", **wrong})
    assert "secret-value" not in repr(caught.value.errors())


def test_missing_key_names_variable_and_endpoint() -> None:
    """A missing secret is found before any call."""
    with pytest.raises(UsageError, match=r"endpoints\.yaml:7.*'support'.*SOME_KEY"):
        connect(endpoint(None), {}, Path("/"), SystemClock())


def test_reading_the_module_does_not_load_the_sdk() -> None:
    """Commands that call no model do not pay for the SDK's import."""
    code = "import sys, watchkeeper.adapters.openai; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", APIS)
async def test_what_is_under_test_does_not_depend_on_the_environment(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Address, key, organization and project are those of the configuration."""
    for name, value in {
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "OPENAI_API_KEY": "sk-of-somebody-else",
        "OPENAI_ADMIN_KEY": "sk-admin-of-somebody-else",
        "OPENAI_ORG_ID": "org-else",
        "OPENAI_PROJECT_ID": "proj-else",
        "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer sk-of-somebody-else",
    }.items():
        monkeypatch.setenv(name, value)
    adapter: Any = connect(endpoint(None), {"SOME_KEY": KEY}, Path("/"), SystemClock())
    assert str(adapter._line.client.base_url) == "https://api.openai.com/v1/"
    await adapter.close()
    with openai_server([Answer("ok"), Answer("ok")], api_key=KEY) as server:
        await converse(server, HELLO, api=kind)
        await converse(server, HELLO, api=kind, organization="org-1", project="proj-1")
        sent = [call.headers for call in server.answer_calls]
    assert [one.get("openai-organization") for one in sent] == [None, "org-1"]
    assert [one.get("openai-project") for one in sent] == [None, "proj-1"]


async def test_account_tells_what_shares_limits() -> None:
    """Address, who is billed, the variable of the key and the model; never the key."""
    async with connected("http://h", organization="org-1", project="p-1") as adapter:
        assert adapter.account == f"http://h/v1 org-1 p-1 env:SOME_KEY {api.DEFAULT_MODEL}"


# Requests and answers


async def test_chat_request_carries_model_prompt_and_tools() -> None:
    """What is sent is what the endpoint declares and nothing else."""
    with openai_server([Answer("Paris")]) as server:
        harness = Harness(system="Be \ud800 kind.")
        (step,) = await converse(server, UserTurn("Capital?\udfff"), harness=harness, max_tokens=99)
        (call,) = server.answer_calls
    assert call.body == {
        "model": api.DEFAULT_MODEL,
        "max_completion_tokens": 99,
        "messages": [
            {"role": "system", "content": "Be \ufffd kind."},
            {"role": "user", "content": "Capital?\ufffd"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "find",
                    "description": "Finds files.",
                    "parameters": FIND.input_schema,
                },
            },
            {"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}},
        ],
    }
    assert (step.end, step.answer, step.wanted) == ("answered", "Paris", ())


async def test_responses_request_carries_model_prompt_and_tools() -> None:
    """The same in the other API; nothing is kept at the provider."""
    with openai_server([Answer("Paris")]) as server:
        harness = Harness(system="Be kind.")
        await converse(server, HELLO, api="responses", harness=harness, max_tokens=99)
        (call,) = server.answer_calls
    assert call.path == "/v1/responses"
    assert call.body == {
        "model": api.DEFAULT_MODEL,
        "max_output_tokens": 99,
        "store": False,
        "instructions": "Be kind.",
        "input": [{"role": "user", "content": "hello"}],
        "tools": [
            {
                "type": "function",
                "name": "find",
                "description": "Finds files.",
                "parameters": FIND.input_schema,
                "strict": False,
            },
            {
                "type": "function",
                "name": "note",
                "parameters": {"type": "object"},
                "strict": False,
            },
        ],
    }


async def test_what_is_given_is_sent_and_nothing_else_is() -> None:
    """A server's own defaults hold for what nobody configured."""
    given: Any = {"temperature": 0.0, "top_p": 0.5, "reasoning_effort": "low", "max_tokens": 7}
    with openai_server(then=Answer("ok")) as server:
        async with connected(server.url, **given, output_bound="max_tokens") as adapter:
            await (await adapter.open(brief())).step(HELLO)
        async with connected(server.url, **given, api="responses") as adapter:
            await (await adapter.open(brief())).step(HELLO)
        chat, responses = (dict(call.body) for call in server.answer_calls)
    for body, conversation in ((chat, "messages"), (responses, "input")):
        del body["model"], body[conversation]
    sampling = {"temperature": 0.0, "top_p": 0.5}
    assert chat == {**sampling, "reasoning_effort": "low", "max_tokens": 7}
    assert responses == {
        **sampling,
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "max_output_tokens": 7,
    }


@pytest.mark.parametrize("kind", APIS)
async def test_answer_is_a_round(kind: str) -> None:
    """Text, stop reason, model, usage, request and what is left of the limits."""
    answer = Answer("Paris", model="gpt-6-mini-2026-02-02", usage=(100, 60, 30, 12, 4))
    with openai_server([answer]) as server:
        (step,) = await converse(server, HELLO, api=kind)
    (one,) = step.rounds
    assert (one.text, one.served_model) == ("Paris", "gpt-6-mini-2026-02-02")
    assert one.stop_reason == {"chat": "stop", "responses": "completed"}[kind]
    assert one.usage == Usage(10, 30, None, 60, 12, 4)
    assert one.usage.total_tokens == 112
    assert (one.request_id, one.latency_ms, one.first_token_ms) == ("req_000001", 0.0, None)
    assert step.limits == RateLimits(requests_left=999, tokens_left=25_000, reset_s=90.5)


@pytest.mark.parametrize("kind", APIS)
async def test_several_turns_are_one_conversation(kind: str) -> None:
    """The second turn is sent with all that was said before."""
    with openai_server([Answer("one"), Answer("two")]) as server:
        steps = await converse(server, UserTurn("a"), UserTurn("b"), api=kind)
        said = server.answer_calls[1].said
    assert [step.answer for step in steps] == ["one", "two"]
    assert [entry["role"] for entry in said] == ["user", "assistant", "user"]
    middle = said[1]["content"]
    assert (middle if kind == "chat" else middle[0]["text"]) == "one"


@pytest.mark.parametrize("kind", APIS)
async def test_parallel_tool_calls_are_wanted_and_answered(kind: str) -> None:
    """The loop is ours: calls wait, results go back by id, calls exactly as given."""
    calls = (("find", {"q": "x"}), ("note", " "), ("find", {"q": "y"}))
    with openai_server([Answer("Looking.", calls), Answer("Done.")]) as server:
        async with connected(server.url, api=kind) as adapter:
            session = await adapter.open(brief(FIND, NOTE))
            first = await session.step(HELLO)
            wanted = first.wanted
            wanted[0].arguments["q"] = "changed by a tool"
            results = (
                answered(wanted[0], "a.txt \ud800"),
                answered(wanted[1], ""),
                answered(wanted[2], "boom", is_error=True),
            )
            last = await session.step(ToolResults(results))
        said = server.answer_calls[1].said
    assert (first.rounds, first.end) == ((), None)
    assert first.waiting is not None
    assert (first.waiting.text, first.waiting.tool_calls) == ("Looking.", wanted)
    assert [(call.tool, call.call_id, call.is_silent) for call in wanted] == [
        ("find", "call_1_0", False),
        ("note", "call_1_1", True),
        ("find", "call_1_2", False),
    ]
    if kind == "chat":
        sent = [one["function"]["arguments"] for one in said[1]["tool_calls"]]
        told = [(one["role"], one["tool_call_id"], one["content"]) for one in said[2:]]
        role = "tool"
    else:
        sent = [one["arguments"] for one in said if one.get("type") == "function_call"]
        told = [(one["type"], one["call_id"], one["output"]) for one in said[-3:]]
        role = "function_call_output"
    assert sent == ['{"q": "x"}', "{}", '{"q": "y"}']
    assert told == [
        (role, "call_1_0", "a.txt \ufffd"),
        (role, "call_1_1", ""),
        (role, "call_1_2", "Error: boom"),
    ]
    assert (last.answer, last.end, len(last.rounds)) == ("Done.", "answered", 1)


@pytest.mark.parametrize("kind", APIS)
@pytest.mark.parametrize(
    "written", ['{"q": ', "[1]", "null", '{"q": NaN}', '{"a":' * 200 + "1" + "}" * 200, "q=x"]
)
async def test_arguments_that_are_no_object_are_the_models_mistake(kind: str, written: str) -> None:
    """The call is an error that the model may put right; nothing is run and nothing crashes."""
    with openai_server([Answer(calls=(("find", written),)), Answer("Sorry.")]) as server:
        async with connected(server.url, api=kind) as adapter:
            session = await adapter.open(brief(FIND))
            first = await session.step(HELLO)
            last = await session.step(ToolResults(first.wanted))
        said = server.answer_calls[1].said
    (call,) = first.wanted
    assert (call.status, call.is_error) == ("error", True)
    assert call.arguments == {"INVALID_JSON": written}
    assert "not a JSON object" in str(call.result)
    sent = said[1]["tool_calls"][0]["function"] if kind == "chat" else said[1]
    assert json.loads(sent["arguments"]) == {"INVALID_JSON": written}
    assert str(said[-1].get("content", said[-1].get("output"))).startswith("Error: the arguments")
    assert last.answer == "Sorry."


@pytest.mark.parametrize("kind", APIS)
async def test_fault_between_calls_and_results_changes_nothing(kind: str) -> None:
    """A retried request is not a round, and is the same request."""
    script: list[Answer | Reply] = [
        Answer(calls=(("find", {}),)),
        api.server_error(),
        Answer("ok"),
    ]
    with openai_server(script) as server:
        async with connected(server.url, api=kind) as adapter:
            session = await adapter.open(brief(FIND))
            (call,) = (await session.step(HELLO)).wanted
            results = ToolResults((answered(call, "x"),))
            with pytest.raises(EndpointUnreachable):
                await session.step(results)
            step = await session.step(results)
        assert server.answer_calls[1].body == server.answer_calls[2].body
    assert (step.answer, len(step.rounds)) == ("ok", 1)


async def test_answer_to_something_else_is_our_own_mistake() -> None:
    """Calls that are not answered never reach the server."""
    with openai_server([Answer(calls=(("find", {}),))]) as server:
        with pytest.raises(ValueError, match="waits for"):
            await converse(server, HELLO, UserTurn("and?"))
        assert len(server.answer_calls) == 1


@pytest.mark.parametrize("kind", APIS)
async def test_cut_off_answer_is_truncated(kind: str) -> None:
    """Half a call is recorded and neither carried out nor sent back."""
    answer = Answer("The cap", (("find", '{"q": "ha'),), stop="length")
    with openai_server([answer, Answer("ok")]) as server:
        first, second = await converse(server, HELLO, UserTurn("b"), api=kind)
        said = server.answer_calls[1].said
    assert (first.end, first.answer, first.wanted) == ("truncated", "The cap", ())
    assert [call.tool for call in first.rounds[0].tool_calls] == ["find"]
    assert [entry["role"] for entry in said] == ["user", "assistant", "user"]
    assert second.end == "answered"


@pytest.mark.parametrize("kind", APIS)
async def test_refusal_is_the_agents_end_in_its_own_words(kind: str) -> None:
    """What it said instead of an answer is the answer, and the reason."""
    with openai_server([Answer(refusal="I cannot help.")]) as server:
        (step,) = await converse(server, HELLO, api=kind)
    assert (step.end, step.answer, step.error) == ("refused", "I cannot help.", "I cannot help.")
    assert step.rounds[0].text == "I cannot help."


@pytest.mark.parametrize("kind", APIS)
async def test_filtered_answer_is_refused(kind: str) -> None:
    """The provider cut it off, which the user of the agent would see as well."""
    with openai_server([Answer("How to", stop="content_filter")]) as server:
        (step,) = await converse(server, HELLO, api=kind)
    assert (step.end, step.answer) == ("refused", "How to")
    assert step.error == "the provider's content filter"


@pytest.mark.parametrize("kind", APIS)
async def test_filtered_request_is_refused_and_no_outage(kind: str) -> None:
    """The same conversation meets it every time: the agent's end, without a round."""
    reply = api.failed(400, "The prompt was filtered.", "", code="content_filter")
    with openai_server([reply]) as server:
        (step,) = await converse(server, HELLO, api=kind)
    assert (step.end, step.rounds) == ("refused", ())
    assert "The prompt was filtered." in str(step.error)


@pytest.mark.parametrize("kind", APIS)
async def test_conversation_that_outgrew_the_context_is_truncated(kind: str) -> None:
    """An agent that reads until nothing fits has failed; a first request too long is a fault."""
    text = "This model's maximum context length is 8192 tokens."
    too_long = api.failed(400, text, code="context_length_exceeded")
    with openai_server([Answer("a"), too_long]) as server:
        _, step = await converse(server, HELLO, UserTurn("b"), api=kind)
    assert (step.end, step.rounds) == ("truncated", ())
    fault = await first_fault(too_long, api=kind)
    assert (fault.kind, fault.is_transient) == ("context_exceeded", False)


async def test_stop_for_tools_without_a_call_is_the_agents_error() -> None:
    """There is nothing to answer, so the turn ends, and says why."""
    body = api.chat_body(Answer("hm"), 1, "m")
    body["choices"][0]["finish_reason"] = "tool_calls"
    with Always(Reply.json(body)).running() as server:
        (step,) = await converse(server, HELLO)
    assert (step.end, step.answer) == ("agent_error", "hm")


async def test_calls_beside_an_ordinary_stop_are_wanted_and_ids_are_made_up() -> None:
    """Some servers name no other reason, and give their calls no ids."""
    body = api.chat_body(Answer(calls=(("find", {}), ("note", {}))), 1, "m")
    body["choices"][0]["finish_reason"] = "stop"
    for call in body["choices"][0]["message"]["tool_calls"]:
        call["id"] = ""
    with Always(Reply.json(body)).running() as server:
        (step,) = await converse(server, HELLO)
    assert [(call.tool, call.call_id) for call in step.wanted] == [
        ("find", "call_1"),
        ("note", "call_2"),
    ]


async def test_thoughts_go_back_beside_the_calls_only() -> None:
    """Servers of open models want them there, and refuse them elsewhere."""
    calling = Answer("Hm.", (("find", {}),), thoughts="think")
    with openai_server([calling, Answer("A.", thoughts="more"), Answer("B.")]) as server:
        async with connected(server.url) as adapter:
            session = await adapter.open(brief(FIND))
            (call,) = (await session.step(HELLO)).wanted
            await session.step(ToolResults((answered(call, "x"),)))
            await session.step(UserTurn("and?"))
        said = server.answer_calls[2].said
    assert [entry.get("reasoning_content") for entry in said if entry["role"] == "assistant"] == [
        "think",
        None,
    ]


@pytest.mark.parametrize(("thoughts", "has_ids"), [("gAAA", True), ("", False)])
async def test_thoughts_that_the_server_does_not_hold_are_sent_whole_or_not_at_all(
    thoughts: str, *, has_ids: bool
) -> None:
    """Encrypted ones go back as they are; without them nothing may refer to what is missing."""
    answer = Answer("Hm.", (("find", {}),), thoughts=thoughts)
    with openai_server([answer, Answer("A.")]) as server:
        async with connected(server.url, api="responses") as adapter:
            session = await adapter.open(brief(FIND))
            (call,) = (await session.step(HELLO)).wanted
            await session.step(ToolResults((answered(call, "x"),)))
        items = server.answer_calls[1].said[1:-1]
    kinds = ["message", "function_call"]
    assert [one["type"] for one in items] == (["reasoning", *kinds] if has_ids else kinds)
    assert all(("id" in one) == has_ids for one in items)


@pytest.mark.parametrize("kind", APIS)
async def test_silence_is_an_answer_and_not_sent_back(kind: str) -> None:
    """An empty text is what the agent said; blank turns are refused by some servers."""
    with openai_server([Answer(""), Answer("ok")]) as server:
        steps = await converse(server, HELLO, UserTurn("b"), api=kind)
        roles = [entry["role"] for entry in server.answer_calls[1].said]
    assert (steps[0].end, steps[0].answer) == ("answered", "")
    assert roles == (["user", "user"] if kind == "chat" else ["user", "assistant", "user"])


@pytest.mark.parametrize("kind", APIS)
async def test_hostile_text_can_be_sent_back_and_stored(kind: str) -> None:
    """Half a surrogate pair, NUL and numbers beyond a float survive the way there and back."""
    arguments = '{"\\udfff": ["\\ud83d\\ude00", 1e999]}'
    with openai_server([Answer("a\ud800\0b", (("find", arguments),)), Answer("ok")]) as server:
        async with connected(server.url, api=kind) as adapter:
            session = await adapter.open(brief(FIND))
            first = await session.step(HELLO)
            (call,) = first.wanted
            last = await session.step(ToolResults((answered(call, "\ud800"),)))
    assert last.end == "answered"
    assert first.waiting is not None
    assert first.waiting.text == "a\ufffd\0b"
    assert call.arguments == {"\ufffd": ["\U0001f600", sys.float_info.max]}


# Usage


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, None, None, None, 2, None)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(6, None, None, 4),
        ),
        (
            {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(0, None, None, 4),
        ),
        ({"prompt_tokens": True, "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": 1.5, "prompt_tokens_details": 3}, Usage()),
        ({"prompt_tokens": "7", "completion_tokens_details": []}, Usage()),
        (None, Usage()),
        ("many", Usage()),
    ],
)
def test_what_the_provider_does_not_say_is_unknown(usage: object, expected: Usage) -> None:
    """Absence is not a number, and neither is a text or a negative count."""
    assert read_usage(usage, "prompt", "completion") == expected


@pytest.mark.parametrize("kind", APIS)
async def test_answer_without_usage_or_model_is_still_an_answer(kind: str) -> None:
    """What is missing is unknown; the requested name is no evidence of what was served."""
    make = api.chat_body if kind == "chat" else api.response_body
    body = make(Answer("Paris"), 1, "m")
    del body["usage"], body["model"]
    with Always(Reply.json(body)).running() as server:
        (step,) = await converse(server, HELLO, api=kind)
    assert step.answer == "Paris"
    assert (step.rounds[0].usage, step.rounds[0].served_model) == (Usage(), None)
    assert step.limits is None


# Faults


@pytest.mark.parametrize("kind", APIS)
@pytest.mark.parametrize(
    ("reply", "fault_class", "word", "is_transient", "retry_after"),
    [
        (api.rate_limited(), EndpointOverloaded, "rate_limited", True, None),
        (api.rate_limited(7.5), EndpointOverloaded, "rate_limited", True, 7.5),
        (api.out_of_money(), EndpointOverloaded, "quota_exhausted", False, None),
        (
            api.failed(429, "on requests per day (RPD): Limit 200, Used 200.", "requests"),
            EndpointOverloaded,
            "quota_exhausted",
            False,
            None,
        ),
        (api.server_error(), EndpointUnreachable, "server_error", True, None),
        (Reply(status=503, body=b"busy"), EndpointUnreachable, "server_error", True, None),
        (Reply(status=502, body=HTML), EndpointUnreachable, "server_error", True, None),
        (api.unauthorized(), EndpointRefused, "authentication", False, None),
        (api.failed(403, "Country not supported."), EndpointRefused, "authentication", False, None),
        (api.model_missing(), EndpointRefused, "model_not_found", False, None),
        (Reply(status=404, body=HTML), EndpointRefused, "model_not_found", False, None),
        (
            api.failed(400, "Unsupported parameter: 'temperature'.", code="unsupported_parameter"),
            EndpointRefused,
            "invalid_request",
            False,
            None,
        ),
        (api.failed(422, "no"), EndpointRefused, "invalid_request", False, None),
        (
            Reply.json({"error": "no such thing"}, status=400),
            EndpointRefused,
            "invalid_request",
            False,
            None,
        ),
        (Reply(status=405), EndpointRefused, "not_supported", False, None),
        (Reply(status=304), EndpointUnreachable, "bad_response", True, None),
        (DROPPED, EndpointUnreachable, "connection", True, None),
    ],
)
async def test_fault_of_each_status(
    kind: str,
    reply: Reply,
    fault_class: type[EndpointFault],
    word: str,
    is_transient: bool,
    retry_after: float | None,
) -> None:
    """Every failure says what it was, whether to come back, and when; the step changed nothing."""
    fault = await first_fault(reply, api=kind)
    assert type(fault) is fault_class
    assert (fault.kind, fault.is_transient, fault.retry_after_s) == (
        word,
        is_transient,
        retry_after,
    )


async def test_fault_says_what_is_left_of_the_limits() -> None:
    """The limiter learns it from a refusal too."""
    reply = api.failed(
        429,
        "Slower.",
        "tokens",
        **{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"},
    )
    fault = await first_fault(reply)
    assert fault.limits == RateLimits(None, 0, 360.0)


_CHAT_JUNK = [
    {"hello": "world"},
    {"error": {"message": "oh", "code": 500}},
    {"choices": []},
    {"choices": None},
    {"choices": ["text"]},
    {"choices": [{"message": None, "finish_reason": "stop"}]},
    {"choices": [{"message": {"content": "x"}}]},
    {"choices": [{"message": {"content": "x"}, "finish_reason": None}]},
    {"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]},
    {"choices": [{"message": {"content": [{"type": "text"}]}, "finish_reason": "stop"}]},
    {"choices": [{"message": {"tool_calls": 3}, "finish_reason": "stop"}]},
    {"choices": [{"message": {"tool_calls": [3]}, "finish_reason": "stop"}]},
    {"choices": [{"message": {"tool_calls": [{"id": "a"}]}, "finish_reason": "stop"}]},
    {
        "choices": [
            {
                "message": {
                    "tool_calls": [{"id": "a", "function": {"name": "b", "arguments": {}}}]
                },
                "finish_reason": "stop",
            }
        ]
    },
    {
        "choices": [
            {
                "message": {"tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]},
                "finish_reason": "stop",
            }
        ]
    },
    {
        "choices": [
            {
                "message": {
                    "tool_calls": [
                        {"id": "a", "function": {"name": "b", "arguments": "{}"}},
                        {"id": "a", "function": {"name": "b", "arguments": "{}"}},
                    ]
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
]
_RESPONSE_JUNK = [
    {"hello": "world"},
    {"status": "completed"},
    {"status": "in_progress", "output": []},
    {"status": 7, "output": []},
    {"status": "completed", "output": ["text"]},
    {"status": "completed", "output": [{"role": "assistant"}]},
    {"status": "completed", "output": [{"type": "message", "content": "text"}]},
    {"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text"}]}]},
    {"status": "completed", "output": [{"type": "function_call", "name": "b", "arguments": "{}"}]},
    {
        "status": "completed",
        "output": [{"type": "function_call", "call_id": "a", "name": "b", "arguments": {}}],
    },
]
_BYTES = [b"", b"[]", b"null", b"{", b"\xff\xfe\xff", HTML, b"[" * 100_000]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *(("chat", json.dumps(one).encode()) for one in _CHAT_JUNK),
        *(("responses", json.dumps(one).encode()) for one in _RESPONSE_JUNK),
        *((kind, body) for kind in APIS for body in _BYTES),
    ],
)
async def test_answer_that_is_not_of_the_api_is_the_servers_fault(kind: str, body: bytes) -> None:
    """Nothing that a server may send with status 200 crashes, or is taken for an answer."""
    fault = await first_fault(verbatim(body), api=kind)
    assert isinstance(fault, EndpointUnreachable)
    assert (fault.kind, fault.is_transient) == ("bad_response", True)


@pytest.mark.parametrize(
    ("code", "word", "is_transient"),
    [
        ("server_error", "server_error", True),
        ("rate_limit_exceeded", "rate_limited", True),
        ("invalid_image", "invalid_request", False),
        ("brand_new", "server_error", True),
    ],
)
async def test_response_that_failed_is_a_fault_of_its_kind(
    code: str, word: str, *, is_transient: bool
) -> None:
    """The Responses API tells some failures in a body of status 200."""
    body = {"status": "failed", "error": {"code": code, "message": "oh"}, "output": []}
    fault = await first_fault(Reply.json(body), api="responses")
    assert (fault.kind, fault.is_transient) == (word, is_transient)


async def test_response_that_a_policy_stopped_is_refused() -> None:
    """It is no outage: the same request meets it every time."""
    body = {"status": "failed", "error": {"code": "bio_policy", "message": "No."}, "output": []}
    with Always(Reply.json(body)).running() as server:
        (step,) = await converse(server, HELLO, api="responses")
    assert (step.end, step.rounds) == ("refused", ())


async def test_unknown_stop_reason_is_not_graded() -> None:
    """Nobody knows what it says about the agent."""
    body = api.chat_body(Answer("x"), 1, "m")
    body["choices"][0]["finish_reason"] = "brand_new"
    fault = await first_fault(Reply.json(body))
    assert (fault.kind, fault.is_transient) == ("unknown_stop_reason", False)
    assert "'brand_new'" in str(fault)


@pytest.mark.parametrize("kind", APIS)
async def test_late_answer_is_a_timeout(kind: str) -> None:
    """A request that is not answered in time can be made again."""
    fault = await first_fault(Answer("x").after(30), api=kind, request_seconds=0.2)
    assert (type(fault), fault.kind, fault.is_transient) == (EndpointUnreachable, "timeout", True)


@pytest.mark.parametrize("stream", [False, True])
async def test_deadline_bounds_the_whole_request(stream: bool) -> None:
    """A server that sends a byte now and then keeps no request alive, unlike in the SDK."""
    hung_up = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n"
        )
        writer.write(head)
        while not writer.is_closing():
            writer.write(b": still here\n\n")
            await asyncio.sleep(0.02)
        hung_up.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with connected(f"http://127.0.0.1:{port}", request_seconds=0.2, stream=stream) as adapter:
        session = await adapter.open(brief())
        started = asyncio.get_running_loop().time()
        with pytest.raises(EndpointUnreachable, match=r"within 0\.2 s"):
            await session.step(HELLO)
        assert asyncio.get_running_loop().time() - started < 2
    await hung_up.wait()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_is_not_followed(status: int) -> None:
    """The key goes to the configured address and nowhere else, which the owner has to change."""
    with Always(Reply.json({})).running() as other:
        headers = {"location": f"{other.url}/v1/chat/completions"}
        fault = await first_fault(Reply(status=status, headers=headers))
        assert other.requests == []
    assert (fault.kind, fault.is_transient) == ("redirected", False)
    assert other.url in str(fault)
    assert "base_url" in str(fault)


async def test_requests_are_never_repeated_behind_our_back() -> None:
    """Retries are the caller's: one step is one request, also where the server asks for more."""
    busy = api.failed(429, "Slower.", "tokens", retry_after="0", x_should_retry="true")
    with openai_server(then=busy) as server:
        with pytest.raises(EndpointOverloaded):
            await converse(server, HELLO)
        assert len(server.answer_calls) == 1


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
async def test_key_is_in_no_error_text(status: int) -> None:
    """A server that repeats the key, anywhere in a long text, does not make us repeat it."""
    for padding in (0, 380, 420, 5000):
        text = "x" * padding + f" bad key {KEY}, sent as Bearer {KEY} \ud800\x00"
        for reply in (
            api.failed(status, text),
            Reply(status=status, body=text.encode("utf-8", "replace")),
        ):
            fault = await first_fault(reply)
            assert KEY[:12] not in str(fault)


# Identity


async def test_listed_model_is_resolved() -> None:
    """The server's list tells the id and its age; of a lifecycle it says nothing."""
    models = {"gpt-x": api.model_card("gpt-x-2026-02-02", 1_770_000_000)}
    with openai_server(models=models, api_key=KEY) as server:
        async with connected(server.url, model="gpt-x") as adapter:
            served = await adapter.resolve()
    assert (served.requested_model, served.resolved_model) == ("gpt-x", "gpt-x-2026-02-02")
    assert served.created_at == datetime.fromtimestamp(1_770_000_000, UTC)
    assert (served.lifecycle, served.retires_at, served.note) == (None, None, None)


@pytest.mark.parametrize("created", [0, -1, None, "yesterday", 10**30, True])
async def test_time_that_is_none_is_unknown(created: Any) -> None:
    """An epoch, a text or nothing where a time should be is no time."""
    with openai_server(models={"m": {"id": "m-1", "created": created}}) as server:
        async with connected(server.url, model="m") as adapter:
            served = await adapter.resolve()
    assert (served.resolved_model, served.created_at) == ("m-1", None)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=HTML),
        verbatim(b"[1, 2]"),
        Reply.json({"hello": "world"}),
        Reply.json({"id": 5}),
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
    assert served.resolved_model is None
    assert "identity unverifiable" in str(served.note)


async def test_server_that_fails_is_a_fault() -> None:
    """A key that is refused is found before the first trial."""
    with Always(api.unauthorized()).running() as server:
        async with connected(server.url) as adapter:
            with pytest.raises(EndpointRefused, match="SOME_KEY was not accepted"):
                await adapter.resolve()


async def test_models_are_listed() -> None:
    """What the provider offers, for endpoints that follow its list."""
    models = {"a": api.model_card("a"), "b": {"id": "b"}, "c": {"id": ""}}
    with openai_server(models=models) as server:
        settings = Settings(model="x", api_key="env:KEY", base_url=server.base_url)
        found = await list_models(settings, {"KEY": KEY})
    made = datetime.fromtimestamp(1_770_000_000, UTC)
    assert found == [ListedModel("a", made), ListedModel("b")]


@pytest.mark.small_model
@pytest.mark.parametrize("stream", [False, True])
async def test_real_model_is_spoken_to(stream: bool) -> None:
    """llama.cpp's own Chat Completions: an answer with its tokens, its model, and its end."""
    pytest.importorskip("xllamacpp")
    from tests.servers.small_model import shipped_weights, small_model

    question = UserTurn("What is the capital of France? Answer with one word.")
    with small_model(shipped_weights(), alias="smol", seed=100, replicas=1) as model:
        given: Any = {"model": "smol", "stream": stream, "max_tokens": 24, "temperature": 0.0}
        async with connected(model.base_url, **given) as adapter:
            session = await adapter.open(brief())
            steps = [await session.step(question), await session.step(UserTurn("Are you sure?"))]
            served = await adapter.resolve()
    assert "Paris" in steps[0].answer
    for step in steps:
        (one,) = step.rounds
        assert step.end in {"answered", "truncated"}
        assert (one.served_model, one.stop_reason in {"stop", "length"}) == ("smol", True)
        assert (one.usage.total_tokens or 0) > 10
        assert (one.first_token_ms is not None) == stream
    assert served.resolved_model is None
    assert "does not list the model" in str(served.note)
