"""Streamed answers of OpenAI's APIs are what they would have been in one piece."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers import openai_replies as api
from tests.servers.loopback import Reply
from tests.servers.openai_replies import Answer, streamed
from tests.servers.openai_server import openai_server
from tests.unit.adapters.openai_stand import (
    APIS,
    FIND,
    KEY,
    Always,
    answered,
    brief,
    connected,
    converse,
    first_fault,
)
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.ports import Step, ToolResults
from watchkeeper.errors import EndpointOverloaded, EndpointUnreachable

HELLO = UserTurn("hello")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(st.none() | st.integers() | TEXTS, lambda one: st.lists(one, max_size=2))
ARGUMENTS = st.dictionaries(TEXTS, VALUES, max_size=2) | st.sampled_from(['{"q": ', "[]", "", "1e"])
ANSWERS = st.builds(
    Answer,
    text=TEXTS,
    calls=st.lists(st.tuples(st.sampled_from(["find", "note"]), ARGUMENTS), max_size=3).map(tuple),
    stop=st.sampled_from(["", "length", "content_filter"]),
    refusal=st.none() | TEXTS.filter(bool),
    thoughts=st.none() | TEXTS,
    model=st.none() | st.just("gpt-6-mini-2026-02-02"),
    usage=st.none() | st.just((100, 60, 30, 12, 4)),
)


def lasting(step: Step) -> Step:
    """The step without what is measured."""
    rounds = tuple(replace(one, first_token_ms=None, request_id=None) for one in step.rounds)
    waiting = step.waiting and replace(step.waiting, first_token_ms=None, request_id=None)
    return replace(step, rounds=rounds, waiting=waiting)


@pytest.mark.parametrize("kind", APIS)
def test_streamed_is_what_it_would_have_been_in_one_piece(kind: str) -> None:
    """Text, calls, usage, stop reason and model; and what the next request sends back."""

    async def told(answer: Answer, *, stream: bool) -> tuple[Step, list[dict[str, Any]]]:
        server.script = [answer, Answer("ok")]
        server._taken = 0
        server.calls.clear()
        async with connected(server.url, api=kind, stream=stream) as adapter:
            session = await adapter.open(brief(FIND))
            step = await session.step(HELLO)
            results = ToolResults(tuple(answered(call, "x") for call in step.wanted))
            await session.step(results if step.wanted else UserTurn("and?"))
        return lasting(step), server.answer_calls[1].said

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(ANSWERS)
    def compare(answer: Answer) -> None:
        whole = asyncio.run(told(answer, stream=False))
        assert asyncio.run(told(answer, stream=True)) == whole

    with openai_server() as server:
        compare()


@pytest.mark.parametrize("kind", APIS)
async def test_stream_is_asked_for_and_measured(kind: str) -> None:
    """The usage is asked for too, and the first piece of the model has its time."""
    with openai_server(then=Answer("Paris")) as server:
        (step,) = await converse(server, HELLO, api=kind, stream=True)
        (call,) = server.answer_calls
    assert call.body["stream"] is True
    assert call.body.get("stream_options") == ({"include_usage": True} if kind == "chat" else None)
    (one,) = step.rounds
    assert (one.text, one.first_token_ms, one.request_id) == ("Paris", 0.0, "req_000001")
    assert one.usage.total_tokens == 27
    assert step.limits is not None


@pytest.mark.parametrize("kind", APIS)
async def test_no_piece_has_no_time(kind: str) -> None:
    """A model that said nothing began at no time."""
    with openai_server(then=Answer("")) as server:
        (step,) = await converse(server, HELLO, api=kind, stream=True)
    assert step.rounds[0].first_token_ms is None


@pytest.mark.parametrize("kind", APIS)
async def test_connection_is_used_again_after_a_stream(kind: str) -> None:
    """A stream is read to its end, so that the next request needs no new connection."""
    with openai_server(then=Answer("Paris")) as server:
        await converse(server, HELLO, UserTurn("a"), UserTurn("b"), api=kind, stream=True)
        assert len(server.answer_calls) == 3
    assert server.connection_count == 1


@pytest.mark.parametrize("kind", APIS)
@pytest.mark.parametrize("events", [0, 1, 2, 3])
async def test_stream_that_is_cut_is_a_passing_fault(kind: str, events: int) -> None:
    """Nothing of it counts; the request may be made again."""
    fault = await first_fault(Answer("Paris", cut_after=events), api=kind, stream=True)
    assert type(fault) is EndpointUnreachable
    assert (fault.kind, fault.is_transient) == ("stream_cut", True)


@pytest.mark.parametrize("kind", APIS)
async def test_stream_that_ends_early_without_a_word_is_cut(kind: str) -> None:
    """A proxy may turn a lost connection into an ordinary end."""
    text = 'data: {"type": "response.created", "choices": [{"delta": {"content": "Pa"}}]}\n\n'
    fault = await first_fault(streamed(text), api=kind, stream=True)
    assert (fault.kind, fault.is_transient) == ("stream_cut", True)


async def test_stream_without_the_mark_at_its_end_is_whole() -> None:
    """Some servers leave it out; reason and usage are then the last to come."""
    events = api.chat_events(api.chat_body(Answer("Paris"), 1, "m"), has_usage=True)
    with Always(api.stream(events, Answer())).running() as server:
        (step,) = await converse(server, HELLO, stream=True)
    assert (step.answer, step.rounds[0].usage.output_tokens) == ("Paris", 7)


@pytest.mark.parametrize(
    ("kind", "error", "word", "is_transient"),
    [
        ("chat", {"error": {"message": "x", "type": "server_error"}}, "server_error", True),
        ("chat", {"error": {"message": "x", "code": 429}}, "rate_limited", True),
        ("chat", {"error": {"message": "x", "code": "400"}}, "invalid_request", False),
        (
            "chat",
            {"error": {"message": "x", "type": "insufficient_quota"}},
            "quota_exhausted",
            False,
        ),
        ("chat", {"error": "x"}, "server_error", True),
        (
            "responses",
            {"type": "error", "code": "server_error", "message": "x"},
            "server_error",
            True,
        ),
        (
            "responses",
            {"type": "error", "code": "rate_limit_exceeded", "message": "x"},
            "rate_limited",
            True,
        ),
        (
            "responses",
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}},
            },
            "server_error",
            True,
        ),
    ],
)
async def test_error_in_a_stream_is_a_fault_of_its_kind(
    kind: str, error: dict[str, Any], word: str, *, is_transient: bool
) -> None:
    """Also behind pieces that were already there."""
    for events in (0, 2):
        reply = Answer("Paris", error_after=events, error=error)
        fault = await first_fault(reply, api=kind, stream=True)
        assert (fault.kind, fault.is_transient) == (word, is_transient)


@pytest.mark.parametrize("kind", APIS)
async def test_refusal_before_the_stream_is_an_ordinary_fault(kind: str) -> None:
    """Statuses are read the same."""
    fault = await first_fault(api.rate_limited(3), api=kind, stream=True)
    assert type(fault) is EndpointOverloaded
    assert (fault.kind, fault.retry_after_s) == ("rate_limited", 3.0)


@pytest.mark.parametrize("kind", APIS)
async def test_server_that_does_not_stream_is_read_all_the_same(kind: str) -> None:
    """A gateway that answers in one piece has answered; when the first piece came is unknown."""
    make = api.chat_body if kind == "chat" else api.response_body
    with Always(Reply.json(make(Answer("Paris"), 1, "m"))).running() as server:
        (step,) = await converse(server, HELLO, api=kind, stream=True)
    assert (step.answer, step.rounds[0].first_token_ms) == ("Paris", None)


@pytest.mark.parametrize("kind", APIS)
@pytest.mark.parametrize(
    "text",
    [
        "data: <html>\n\n",
        "data: [1]\n\n",
        'data: {"hello": "world"}\n\n',
        'data: {"choices": [3]}\n\n',
        'data: {"choices": [{"delta": {"content": 3}}]}\n\n',
        'data: {"choices": [{"delta": {"tool_calls": 3}}]}\n\n',
        'data: {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": 3}}]}}]}\n\n',
        'data: {"type": "response.completed"}\n\n',
        'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n',
        "data: " + "x" * 17_000_000 + "\n\n",
    ],
    ids=range(10),
)
async def test_stream_of_something_else_is_the_servers_fault(kind: str, text: str) -> None:
    """Nothing that may be streamed crashes, or is taken for an answer."""
    fault = await first_fault(streamed(text + "data: [DONE]\n\n"), api=kind, stream=True)
    assert (fault.kind, fault.is_transient) in {("bad_response", True), ("stream_cut", True)}
    assert KEY not in str(fault)


async def test_character_that_two_chunks_share_is_whole() -> None:
    """A pair of halves is one character, as it is in one piece."""
    chunks = ['{"content": "a\\ud83d"}', '{"content": "\\ude00"}']
    events = [f'data: {{"choices": [{{"index": 0, "delta": {one}}}]}}\n\n' for one in chunks]
    last = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    with Always(streamed("".join(events) + last)).running() as server:
        (step,) = await converse(server, HELLO, stream=True)
    assert step.answer == "a\U0001f600"


async def test_whole_calls_without_numbers_are_told_apart() -> None:
    """Servers that stream a call in one piece leave its number out."""
    calls = [{"id": one, "function": {"name": "find", "arguments": "{}"}} for one in "ab"]
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]} for one in calls]
    text = "".join(f"data: {json.dumps(one)}\n\n" for one in events)
    last = 'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\n\ndata: [DONE]\n\n'
    with Always(streamed(text + last)).running() as server:
        (step,) = await converse(server, HELLO, stream=True)
    assert [call.call_id for call in step.wanted] == ["a", "b"]


async def test_cancelled_stream_changes_nothing() -> None:
    """The caller's own deadline is the caller's, and the step may be made again."""
    with openai_server([Answer("x").after(30), Answer("ok")]) as server:
        async with connected(server.url, stream=True) as adapter:
            session = await adapter.open(brief())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await session.step(HELLO)
            assert (await session.step(HELLO)).answer == "ok"
