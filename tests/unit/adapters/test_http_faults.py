"""The adapter for a team's own agent where something goes wrong: whose failure it is, bounded."""

import asyncio
import gzip
import socket
import time
import traceback
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.servers.agent_server import (
    Call,
    RawReply,
    Script,
    agent_server,
    bomb,
    dripping,
    endless,
    head,
    jsonl,
    page,
    redirect,
    report,
    sse,
    until,
    zipped,
)
from tests.servers.loopback import DROPPED, Reply
from tests.unit.adapters.http_agents import (
    ASK,
    BEARER,
    TOKEN,
    agent,
    asked,
    brief,
    endpoint,
    refused,
)
from watchkeeper.adapters.http import connect
from watchkeeper.clock import SimulatedClock, SystemClock
from watchkeeper.errors import (
    EndpointFault,
    EndpointOverloaded,
    EndpointRefused,
    EndpointUnreachable,
)

MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("status", "fault", "kind", "is_transient"),
    [
        (400, EndpointRefused, "invalid_request", False),
        (401, EndpointRefused, "authentication", False),
        (403, EndpointRefused, "authentication", False),
        (404, EndpointRefused, "not_found", False),
        (408, EndpointUnreachable, "timeout", True),
        (409, EndpointUnreachable, "conflict", True),
        (422, EndpointRefused, "invalid_request", False),
        (429, EndpointOverloaded, "rate_limited", True),
        (500, EndpointUnreachable, "server_error", True),
        (502, EndpointUnreachable, "server_error", True),
        (503, EndpointOverloaded, "overloaded", True),
        (504, EndpointUnreachable, "timeout", True),
        (529, EndpointOverloaded, "overloaded", True),
        (304, EndpointUnreachable, "bad_response", False),
    ],
)
async def test_a_status_says_whose_failure_it_is(
    status: int, fault: type[EndpointFault], kind: str, is_transient: bool
) -> None:
    """And whether the same request may succeed later."""
    caught = await refused(Reply(status, b"" if status == 304 else b'{"detail": "no"}'))
    assert (type(caught), caught.kind, caught.is_transient) == (fault, kind, is_transient)
    assert f"HTTP {status}" in str(caught)
    assert "endpoint 'support'" in str(caught)


async def test_an_overloaded_agent_says_how_long_to_wait() -> None:
    """In seconds, or as a time of day."""
    fault = await refused(Reply(429, b"slow down", {"retry-after": "7"}))
    assert fault.retry_after_s == 7
    at = {"retry-after": "Mon, 02 Mar 2026 00:00:30 GMT"}
    with agent_server(Reply(503, b"", at)) as server:
        clock = SimulatedClock(datetime(2026, 3, 2, tzinfo=UTC))
        adapter = connect(endpoint(server.url), {}, Path(), clock)
        with pytest.raises(EndpointFault) as caught:
            await (await adapter.open(brief())).step(ASK)
        await adapter.close()
    assert caught.value.retry_after_s == 30


async def test_a_page_in_front_of_the_agent_is_no_answer() -> None:
    """HTML with status 200 is a fault that may pass, whatever the agent would have said."""
    for reply in (page(), Reply(200, b"<html><title>Sign in</title>", {})):
        fault = await refused(reply)
        assert (fault.kind, fault.is_transient) == ("bad_response", True)
        assert "an HTML page, 'Sign in'" in str(fault)
    fault = await refused(page(), response={"format": "text"})
    assert fault.kind == "bad_response"
    fault = await refused(page(), stream="sse")
    assert fault.kind == "bad_response"


async def test_a_body_that_says_the_service_failed_is_a_fault() -> None:
    """Where ``error`` names it; what the agent says of itself is not meant."""
    body = Reply.json({"status": "error", "problem": {"code": 17}, "reply": None})
    fault = await refused(body, response={"answer": "reply", "error": "problem"})
    assert (fault.kind, fault.is_transient) == ("service_error", True)
    assert '{"code": 17}' in str(fault)
    empty: list[object] = [None, "", [], False]
    for nothing in empty:
        reply = Reply.json({"problem": nothing, "reply": "x"})
        step = await asked(reply, response={"answer": "reply", "error": "problem"})
        assert step.answer == "x"


@pytest.mark.parametrize(
    ("body", "why", "is_transient"),
    [
        (b"", "not JSON", True),
        (b"Internal error", "not JSON", True),
        (b'{"answer": "x"', "not JSON", True),
        (b'{"answer": "\xff\xfe"}', "not UTF-8", True),
        (b'{"cost_usd": NaN}', "NaN is not a JSON number", True),
        (b'{"cost_usd": 1e999}', "inf is not a JSON number", True),
        (b'{"cost_usd": ' + b"9" * 5_000 + b"}", "too many digits", True),
        (b'{"state": ' + b"[" * 100_000 + b"}", "nested deeper than 100", True),
        (b'{"state": {"a":' + b"[" * 120 + b"]" * 120 + b"}}", "nested deeper than 100", True),
        (b"[1, 2]", "expected a text or a mapping, found list", False),
        (b"null", "found NoneType", False),
        (b'{"detail": "try again"}', "detail: unknown key", False),
        (b'{"rounds": [{"tool_calls": [{}]}]}', "rounds.0.tool_calls.0.tool", False),
        (b'{"cost_usd": -1}', "cost_usd", False),
        (b'{"error": {"code": 7}}', "error", False),
    ],
)
async def test_what_is_no_report_is_a_fault(body: bytes, why: str, is_transient: bool) -> None:
    """No JSON may be an accident of the way; JSON of another shape will come again."""
    fault = await refused(Reply(200, body, {"content-type": "application/json"}))
    assert (fault.kind, fault.is_transient) == ("bad_response", is_transient)
    assert why in str(fault)
    assert str(fault).isprintable()
    assert len(str(fault)) <= 500


async def test_a_mapping_that_finds_nothing_is_a_fault() -> None:
    """A gateway's own JSON is not taken for a silent agent; an empty answer is one."""
    fault = await refused(Reply.json({"message": "upstream"}), response={"answer": "reply.text"})
    assert (fault.kind, fault.is_transient) == ("bad_response", False)
    assert "nothing is where 'response' says" in str(fault)
    step = await asked(Reply.json({"reply": {"text": ""}}), response={"answer": "reply.text"})
    assert (step.answer, step.end) == ("", "answered")
    fault = await refused(Reply.json({"reply": 3}), response={"answer": "length(reply)"})
    assert "length(reply) cannot be applied" in str(fault)


async def test_a_body_without_end_is_read_up_to_the_bound() -> None:
    """Reading stops there, and so does the memory that it takes."""
    async with agent(endless(1_000 * MEGABYTE), max_response_bytes=MEGABYTE) as (adapter, server):
        session = await adapter.open(brief())
        tracemalloc.start()
        try:
            with pytest.raises(EndpointFault, match="max_response_bytes") as caught:
                await session.step(ASK)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (caught.value.kind, caught.value.is_transient) == ("response_too_large", False)
    assert server.sent_bytes < 20 * MEGABYTE  # the sockets' buffers are what is beyond it
    assert peak < 8 * MEGABYTE


async def test_a_stream_without_end_is_read_up_to_the_bound() -> None:
    """Many events, or one line of any length."""
    many = jsonl([{"type": "note", "x": "x" * 10_000}] * 1_000)
    fault = await refused(many, stream="jsonl", max_response_bytes=MEGABYTE)
    assert fault.kind == "response_too_large"
    line = RawReply(pieces=lambda: [head("text/event-stream"), *[b"x" * 65_536] * 100])
    fault = await refused(line, stream="sse", max_response_bytes=MEGABYTE)
    assert fault.kind == "response_too_large"


@pytest.mark.parametrize("status", [200, 500])
async def test_a_small_body_that_unpacks_to_a_large_one_is_bounded(status: int) -> None:
    """200 MB in 200 KB; of an error no more than its beginning is unpacked."""
    reply = bomb(200 * MEGABYTE)
    reply = Reply(status, reply.body, reply.headers)
    async with agent(reply, max_response_bytes=MEGABYTE) as (adapter, _):
        session = await adapter.open(brief())
        tracemalloc.start()
        try:
            with pytest.raises(EndpointFault) as caught:
                await session.step(ASK)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert caught.value.kind == ("response_too_large" if status == 200 else "server_error")
    assert peak < 8 * MEGABYTE


async def test_a_packed_body_is_read_as_what_it_is() -> None:
    """Although it was not asked for; a packing nobody knows is a fault."""
    assert (await asked(zipped(b'{"answer": "x"}'))).answer == "x"
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    fault = await refused(Reply(200, b'{"answer": "x"}', packed))
    assert "not gzip" in str(fault)
    half = gzip.compress(b'{"answer": "x"}')[:-12]
    assert (await refused(Reply(200, half, packed))).kind == "bad_response"
    fault = await refused(Reply(200, b"?", {"content-encoding": "br"}))
    assert "packed as br" in str(fault)


async def test_a_body_in_drips_meets_the_deadline_of_the_whole() -> None:
    """Each piece comes in time and the whole does not."""
    started = time.monotonic()
    fault = await refused(dripping(b'{"answer": "' + b"x" * 1_000, 0.1), request_seconds=0.5)
    assert (fault.kind, fault.is_transient) == ("timeout", True)
    assert time.monotonic() - started < 2
    fault = await refused(sse([{"type": "note"}] * 1_000, 0.1), stream="sse", request_seconds=0.5)
    assert fault.kind == "timeout"


async def test_an_agent_that_does_not_answer_meets_the_deadline() -> None:
    """Nothing at all is the same as too slowly."""
    fault = await refused(report(answer="x").after(5), request_seconds=0.2)
    assert (fault.kind, fault.is_transient) == ("timeout", True)
    assert "0.2 s" in str(fault)


async def test_a_connection_that_fails_is_a_fault_that_may_pass() -> None:
    """Refused, closed before the answer, or in the middle of it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    adapter = connect(endpoint(f"http://127.0.0.1:{port}/"), {}, Path(), SystemClock())
    with pytest.raises(EndpointUnreachable) as caught:
        await (await adapter.open(brief())).step(ASK)
    await adapter.close()
    assert (caught.value.kind, caught.value.is_transient) == ("connection", True)
    garbage = RawReply(pieces=lambda: [b"\x00\x01\x02 what\r\n\r\n"])
    cut = RawReply(pieces=lambda: [head(transfer_encoding="chunked"), b"ff\r\n{"])
    for reply in (DROPPED, garbage, cut):
        fault = await refused(reply)
        assert (fault.kind, fault.is_transient) == ("connection", True)


async def test_a_wrong_content_length_is_not_half_an_answer() -> None:
    """Too long: the connection ended early. Too short: what came is no JSON."""
    body = b'{"answer": "x"}'
    fault = await refused(RawReply(pieces=lambda: [head(content_length=99) + body]))
    assert (fault.kind, fault.is_transient) == ("connection", True)
    fault = await refused(RawReply(pieces=lambda: [head(content_length=9) + body]))
    assert (fault.kind, fault.is_transient) == ("bad_response", True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_on_the_same_host_is_followed(status: int) -> None:
    """With method, headers and body; a 303 is asked for with GET."""

    def script(call: Call) -> Reply:
        if call.request.path == "/ask":
            return redirect("/new/ask", status)
        return report(answer=f"{call.request.verb} {call.request.headers.get('authorization')}")

    verb = "GET" if status == 303 else "POST"
    async with agent(script, headers=BEARER) as (adapter, server):
        step = await (await adapter.open(brief())).step(ASK)
    assert step.answer == f"{verb} Bearer {TOKEN}"
    assert server.calls[1].body == (None if status == 303 else server.calls[0].body)


@pytest.mark.parametrize("form", ["http://{}/", "//{}/x", "http://user@{}/", "http://{}:x/"])
async def test_a_redirect_to_another_host_is_refused(form: str) -> None:
    """Nothing is sent there; the error says where it led and what to do."""
    with agent_server(report(answer="x")) as other:
        to = form.format(other.url.removeprefix("http://"))
        fault = await refused(redirect(to), headers=BEARER)
        assert (type(fault), fault.kind, fault.is_transient) == (EndpointRefused, "redirect", False)
        assert "another host" in str(fault)
        assert "'url'" in str(fault)
        assert other.calls == []


async def test_redirects_in_a_circle_end() -> None:
    """After a handful of them."""
    async with agent(redirect("/ask")) as (adapter, server):
        with pytest.raises(EndpointRefused, match="redirects"):
            await (await adapter.open(brief())).step(ASK)
    assert len(server.calls) == 6


@pytest.mark.parametrize("stream", ["sse", "jsonl"])
async def test_a_stream_that_breaks_off_is_no_answer(stream: str) -> None:
    """Without its result nobody knows what the agent would have done."""
    stream_of = sse if stream == "sse" else jsonl
    fault = await refused(stream_of([{"type": "round", "text": "hm"}]), stream=stream)
    assert (fault.kind, fault.is_transient) == ("bad_response", True)
    assert "no result after 1 rounds" in str(fault)
    text = {"sse": b'data: {"type"\n\n', "jsonl": b'{"type"\n'}[stream]
    form = {"sse": "text/event-stream", "jsonl": "application/x-ndjson"}[stream]
    for body, why in ((text, "not JSON"), (b"\xff\n", "not UTF-8")):
        fault = await refused(Reply(200, body, {"content-type": form}), stream=stream)
        assert (fault.kind, why in str(fault)) == ("bad_response", True)
    fault = await refused(stream_of([{"type": "wat"}]), stream=stream)
    assert "wat" in str(fault)


async def test_a_trial_that_is_given_up_closes_its_connection() -> None:
    """The server sees that nobody is there any more."""

    def pieces() -> list[bytes]:
        return [head(), *[b" "] * 200]

    def script(_: Call) -> Reply:
        return RawReply(pieces=pieces, pause_s=0.02)

    async with agent(script) as (adapter, server):
        session = await adapter.open(brief())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await session.step(ASK)
        count = server.sent_bytes
        assert until(lambda: not server._connections, 3)
        assert server.sent_bytes < count + 100


SECRETS: dict[str, Script | Reply] = {
    "status": Reply(401, f"bad token {TOKEN}".encode()),
    "page": Reply(200, f"<html><title>{TOKEN}</title>".encode(), {"content-type": "text/html"}),
    "key": Reply.json({TOKEN: 1}),
    "error": Reply.json({"problem": TOKEN}),
    "redirect": redirect(f"http://elsewhere.test/{TOKEN}"),
    "long": Reply(400, b"x" * 480 + TOKEN.encode() * 5),
}


@pytest.mark.parametrize("name", SECRETS)
async def test_no_error_repeats_a_secret(name: str) -> None:
    """Whatever the service sends back, neither text nor chain holds the token or half of it."""
    settings = {"headers": BEARER, "response": {"error": "problem"}}
    fault = await refused(SECRETS[name], **settings)
    text = "".join(traceback.format_exception(fault)) + str(fault)
    assert TOKEN[:8] not in text
    assert str(fault).isprintable()
