"""Streamed answers of the Messages API are what they would have been in one piece."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers import anthropic_replies as api
from tests.servers.anthropic_events import as_stream, events, streamed
from tests.servers.anthropic_server import anthropic_server
from tests.servers.loopback import Reply
from tests.unit.adapters.test_anthropic import (
    FIND,
    Always,
    answered,
    brief,
    connected,
    converse,
    first_fault,
)
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.ports import RateLimits, Step, ToolResults
from watchkeeper.errors import EndpointUnreachable

HELLO = UserTurn("hello")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(st.none() | st.integers() | TEXTS, lambda one: st.lists(one, max_size=2))
BLOCKS = st.one_of(
    TEXTS.map(lambda text: {"type": "text", "text": text}),
    st.fixed_dictionaries(
        {
            "type": st.just("tool_use"),
            "id": st.uuids().map(str),
            "name": st.sampled_from(["find", "note"]),
            "input": st.dictionaries(TEXTS, VALUES, max_size=2),
        }
    ),
    TEXTS.map(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}),
    st.just({"type": "from_the_future", "payload": [1]}),
)
MESSAGES = st.builds(
    lambda content, reason, read: api.message(
        content=content, stop_reason=reason, cache_read=read, cache_creation=9, output_tokens=33
    ),
    st.lists(BLOCKS, max_size=4),
    st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "pause_turn"]),
    st.integers(0, 99),
)


def lasting(step: Step) -> Step:
    """The step without what is measured."""
    rounds = tuple(replace(one, first_token_ms=None, request_id=None) for one in step.rounds)
    waiting = step.waiting and replace(step.waiting, first_token_ms=None, request_id=None)
    return replace(step, rounds=rounds, waiting=waiting)


def test_streamed_is_what_it_would_have_been_in_one_piece() -> None:
    """Text, calls, usage, stop reason and model; and what the next request sends back."""

    async def told(reply: Reply, *, stream: bool) -> tuple[Step, list[dict[str, Any]]]:
        with anthropic_server([reply, api.message("ok")]) as server:
            async with connected(server.url, stream=stream) as adapter:
                session = await adapter.open(brief(FIND))
                step = await session.step(HELLO)
                results = ToolResults(tuple(answered(call, "x") for call in step.wanted))
                goes_on = step.wanted or step.end is None
                await session.step(results if goes_on else UserTurn("and?"))
            return lasting(step), server.message_calls[1].body["messages"]

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(MESSAGES)
    def compare(reply: Reply) -> None:
        whole = asyncio.run(told(reply, stream=False))
        assert asyncio.run(told(reply, stream=True)) == whole

    compare()


async def test_stream_is_asked_for_and_measured() -> None:
    """The first piece of the model has its time; what is left of the limits is told."""
    with anthropic_server([api.message("Paris"), api.message(content=[])]) as server:
        said, silent = await converse(server, HELLO, UserTurn("b"), stream=True)
        assert server.message_calls[0].body["stream"] is True
    (one,) = said.rounds
    assert (one.text, one.first_token_ms, one.request_id) == ("Paris", 0.0, "req_000001")
    assert silent.rounds[0].first_token_ms is None
    assert said.limits is not None


async def test_what_is_left_of_the_limits_is_told() -> None:
    """Input and output are counted apart; the wait is that of the limit nearest to its end."""
    name = "anthropic-ratelimit"
    headers = {
        f"{name}-requests-limit": "1000",
        f"{name}-requests-remaining": "999",
        f"{name}-requests-reset": "2026-03-01T12:00:01Z",
        f"{name}-input-tokens-limit": "1000",
        f"{name}-input-tokens-remaining": "100",
        f"{name}-input-tokens-reset": "2026-03-01T12:00:45Z",
        f"{name}-output-tokens-limit": "1000",
        f"{name}-output-tokens-remaining": "900",
    }
    with Always(replace(api.message(), headers=headers)).running() as server:
        (step,) = await converse(server, HELLO)
    assert step.limits == RateLimits(999, 100, 45.0, 900)
    fault = await first_fault(replace(api.rate_limited(), headers=headers))
    assert fault.limits == step.limits


@pytest.mark.parametrize("count", [0, 1, 3, 5])
async def test_stream_that_is_cut_is_a_passing_fault(count: int) -> None:
    """Nothing of it counts; the request may be made again."""
    body = json.loads(api.message("Paris").body)
    fault = await first_fault(streamed(body, cut_after=count), stream=True)
    assert type(fault) is EndpointUnreachable
    assert (fault.kind, fault.is_transient) == ("stream_cut", True)
    whole = as_stream(events(body)[:count])
    assert (await first_fault(whole, stream=True)).kind == "stream_cut"


@pytest.mark.parametrize(
    ("type_", "kind", "is_transient"),
    [
        ("overloaded_error", "overloaded", True),
        ("api_error", "server_error", True),
        ("rate_limit_error", "rate_limited", True),
        ("invalid_request_error", "invalid_request", False),
        ("authentication_error", "authentication", False),
        ("brand_new_error", "server_error", True),
    ],
)
async def test_error_in_a_stream_is_a_fault_of_its_kind(
    type_: str, kind: str, *, is_transient: bool
) -> None:
    """Also behind pieces that were already there."""
    begun = events(json.loads(api.message("Paris").body))
    error = {"type": "error", "error": {"type": type_, "message": "oh"}}
    for count in (0, 4):
        fault = await first_fault(as_stream([*begun[:count], error]), stream=True)
        assert (fault.kind, fault.is_transient) == (kind, is_transient)
        assert "oh" in str(fault)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start"},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "message_delta", "delta": 3},
        {"type": "message_stop"},
    ],
)
async def test_stream_of_something_else_is_the_servers_fault(event: dict[str, Any]) -> None:
    """Nothing that may be streamed crashes, or is taken for an answer."""
    reply = as_stream([event, {"type": "message_stop"}])
    fault = await first_fault(reply, stream=True)
    assert (fault.kind, fault.is_transient) == ("bad_response", True)


async def test_server_that_does_not_stream_is_read_all_the_same() -> None:
    """A gateway that answers in one piece has answered; when the first piece came is unknown."""
    with Always(api.message("Paris")).running() as server:
        (step,) = await converse(server, HELLO, stream=True)
    assert (step.answer, step.rounds[0].first_token_ms) == ("Paris", None)


async def test_call_that_was_cut_within_is_kept_as_it_was() -> None:
    """A response that ran into its bound may end within the arguments of a call."""
    content = [{"type": "tool_use", "id": "t", "name": "find", "input": {"q": "long"}}]
    reply = api.message(content=content, stop_reason="max_tokens")
    kept = [
        one
        for one in events(json.loads(reply.body))
        if one.get("delta", {}).get("partial_json") not in {'"}', 'g"}', "}"}
    ]
    with Always(as_stream(kept)).running() as server:
        (step,) = await converse(server, HELLO, stream=True)
    (call,) = step.rounds[0].tool_calls
    assert (step.end, set(call.arguments)) == ("truncated", {"INVALID_JSON"})


@pytest.mark.parametrize("stream", [False, True])
async def test_redirect_is_not_followed(stream: bool) -> None:
    """The key goes to the configured address and nowhere else, which the owner has to change."""
    with anthropic_server(then=api.message("stolen")) as other:
        reply = Reply(status=307, headers={"location": f"{other.url}/v1/messages"})
        fault = await first_fault(reply, stream=stream)
        assert other.calls == []
    assert (fault.kind, fault.is_transient) == ("redirected", False)
    assert other.url in str(fault)
