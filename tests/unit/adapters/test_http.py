"""The adapter for a team's own agent: requests, answers, streams, jobs and conversations."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.servers.agent_server import (
    Call,
    agent_server,
    jsonl,
    report,
    sse,
)
from tests.servers.loopback import Reply
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
from watchkeeper.adapters.http import Settings, connect
from watchkeeper.clock import SimulatedClock, SystemClock
from watchkeeper.domain.content import Attachment, UserTurn
from watchkeeper.domain.endpoint import Harness
from watchkeeper.domain.ports import ToolResults
from watchkeeper.domain.trajectory import Usage
from watchkeeper.errors import EndpointFault, UsageError


async def test_a_report_in_the_format_needs_no_mapping() -> None:
    """Rounds, calls, tokens and outcome arrive as the agent reported them."""
    step = await asked(
        report(
            answer="a.txt",
            rounds=[
                {"text": "let me look", "tool_calls": [{"tool": "look", "result": "a.txt"}]},
                {"text": "a.txt", "usage": {"input_tokens": 7, "output_tokens": 2}},
            ],
            served_model="m-1",
            action="found",
            state={"files": 1},
            cost_usd=0.5,
        )
    )
    assert [len(one.tool_calls) for one in step.rounds] == [1, 0]
    assert step.rounds[1].usage == Usage(input_tokens=7, output_tokens=2)
    assert {one.served_model for one in step.rounds} == {"m-1"}
    assert (step.answer, step.action, step.state, step.cost_usd, step.end) == (
        "a.txt",
        "found",
        {"files": 1},
        0.5,
        "answered",
    )


async def test_without_a_template_the_agent_is_told_the_conversation_and_nothing_more() -> None:
    """Neither the case nor the trial: an agent that knows them could answer by them."""
    async with agent(report(answer="x")) as (adapter, server):
        await (await adapter.open(brief())).step(ASK)
    assert server.calls[0].body == {
        "input": "find it",
        "messages": [{"role": "user", "content": "find it"}],
        "session_id": None,
    }
    assert server.calls[0].request.verb == "POST"
    assert server.calls[0].request.headers["content-type"] == "application/json"


async def test_a_template_keeps_the_types_of_its_values() -> None:
    """A text that is one placeholder is the value; within a text it stands as text."""
    template = {
        "q": "{{input}}",
        "history": "{{messages}}",
        "meta": [{"seed": "{{ seed }}", "case": "case {{case_id}}/{{trial_id}}"}, 3, True, None],
        "model": "{{model}}",
        "tools": "{{tools}}",
        "id": "s={{session_id}}",
    }
    async with agent(report(answer="x"), request=template, model="big") as (adapter, server):
        await (await adapter.open(brief())).step(UserTurn('say "é" \ud800'))
    body = server.calls[0].body
    assert body["q"] == 'say "é" �'
    assert body["history"] == [{"role": "user", "content": 'say "é" �'}]
    assert body["meta"] == [{"seed": 11, "case": "case late-07/run.late-07.0"}, 3, True, None]
    assert (body["model"], body["id"]) == ("big", "s=")
    assert body["tools"] == [
        {
            "name": "look",
            "description": "Looks.",
            "input_schema": {"type": "object"},
            "results": [
                {"text": "a.txt", "is_error": False},
                {"text": "gone", "is_error": True},
            ],
        }
    ]


async def test_attachments_are_sent_where_the_template_has_a_place(tmp_path: Path) -> None:
    """With their bytes; where it has none, the trial is refused and not asked without them."""
    file = tmp_path / "bill.png"
    file.write_bytes(b"\x89PNG")
    digest = sha256(b"\x89PNG").hexdigest()
    turn = UserTurn.of(("what is it?", Attachment("bill.png", "image/png", digest, 4, file)))
    async with agent(report(answer="x"), request=["{{input}}", "{{attachments}}"]) as (adapter, it):
        await (await adapter.open(brief())).step(turn)
        file.write_bytes(b"other")
        with pytest.raises(EndpointFault, match="was changed since"):
            await (await adapter.open(brief())).step(turn)
    expected = {"name": "bill.png", "media_type": "image/png", "data": "iVBORw=="}
    assert [call.body for call in it.calls] == [["what is it?", [expected]]]
    async with agent(report(answer="x")) as (adapter, it):
        with pytest.raises(EndpointFault, match="attachments") as caught:
            await adapter.open(brief(case=replace(brief().case, turns=(turn,))))
    assert (caught.value.is_transient, it.calls) == (False, [])


async def test_a_foreign_answer_is_mapped() -> None:
    """JMESPath expressions reshape what the agent says into the format; headers count too."""
    answer = Reply.json(
        {
            "output": {"text": "a.txt", "outcome": "found"},
            "log": [
                {"role": "assistant", "say": "hm", "uses": [{"fn": "look", "args": '{"p": "a"}'}]},
                {"role": "debug"},
                {"role": "assistant", "say": "a.txt", "uses": []},
            ],
            "tokens": {"prompt": 20, "completion": 4},
            "price": 0.25,
        },
        x_model="m-2",
    )
    rounds = "log[?role=='assistant'].{text: say, tool_calls: uses[].{tool: fn, arguments: args}}"
    step = await asked(
        answer,
        response={
            "answer": "output.text",
            "action": "output.outcome",
            "rounds": rounds,
            "usage": "{input_tokens: tokens.prompt, output_tokens: tokens.completion}",
            "served_model": "header:X-Model",
            "cost_usd": "price",
        },
    )
    assert (step.answer, step.action, step.cost_usd) == ("a.txt", "found", 0.25)
    assert [one.text for one in step.rounds] == ["hm", "a.txt"]
    assert step.rounds[0].tool_calls[0].arguments == {"p": "a"}
    assert {one.served_model for one in step.rounds} == {"m-2"}
    assert sum(one.usage.input_tokens or 0 for one in step.rounds) == 20


async def test_a_report_may_stand_inside_an_answer() -> None:
    """``trajectory`` says where; what else is mapped goes on top of it."""
    inner = {"answer": "a", "rounds": [{"text": "a"}]}
    body = Reply.json({"data": {"run": inner}, "model": "m"})
    mapping = {"trajectory": "data.run", "served_model": "model"}
    step = await asked(body, response=mapping)
    assert (step.answer, step.rounds[0].served_model) == ("a", "m")


async def test_an_agent_may_answer_in_plain_text() -> None:
    """The whole body is the answer, also where it looks like JSON."""
    reply = Reply(200, "[1] ü".encode(), {"content-type": "text/plain", "x-model": "m"})
    mapping = {"format": "text", "served_model": "header:x-model"}
    step = await asked(reply, response=mapping)
    assert (step.answer, step.rounds[0].text, step.rounds[0].served_model) == ("[1] ü",) * 2 + (
        "m",
    )


async def test_of_an_answer_without_rounds_the_request_is_the_time() -> None:
    """One round was reported; tokens nobody counted are unknown and not 0."""
    step = await asked(report(answer="x").after(0.05))
    (one,) = step.rounds
    assert one.latency_ms is not None
    assert 50 <= one.latency_ms < 5_000
    assert one.usage == Usage()
    assert one.first_token_ms is None


async def test_stateless_agents_are_told_the_whole_conversation() -> None:
    """Each turn is one request with all that was said before it."""

    def script(call: Call) -> Reply:
        return report(answer=f"answer {len(call.body['messages'])}")

    async with agent(script) as (adapter, server):
        session = await adapter.open(brief())
        answers = [(await session.step(UserTurn(text))).answer for text in ("one", "two")]
    assert answers == ["answer 1", "answer 3"]
    assert server.calls[1].body["messages"] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "answer 1"},
        {"role": "user", "content": "two"},
    ]
    assert server.calls[1].body["input"] == "two"


@pytest.mark.parametrize("stream", ["none", "sse"])
async def test_a_session_id_is_handed_back(stream: str) -> None:
    """The agent keeps the conversation; every trial has its own."""

    def script(call: Call) -> Reply:
        result = {"answer": "x", "session_id": call.body["session_id"] or f"s{call.number}"}
        if stream == "sse":
            return sse([{"type": "result", **result}])
        return report(**result)

    async with agent(script, stream=stream) as (adapter, server):
        one, two = await adapter.open(brief()), await adapter.open(brief())
        for session in (one, two, one, two):
            await session.step(ASK)
    assert [call.body["session_id"] for call in server.calls] == [None, None, "s1", "s2"]


async def test_a_repeated_request_carries_the_same_idempotency_key() -> None:
    """An agent that honours it does nothing twice; another turn or attempt has another."""
    answers = [report(answer=text) for text in "xyz"]
    replies = iter([Reply(503), *answers])
    async with agent(lambda _: next(replies)) as (adapter, server):
        session = await adapter.open(brief())
        with pytest.raises(EndpointFault):
            await session.step(ASK)
        await session.step(ASK)
        await session.step(ASK)
        again = await adapter.open(brief(seed=12))
        await again.step(ASK)
    keys = [call.request.headers["idempotency-key"] for call in server.calls]
    once = ["run.late-07.0-11-1", "run.late-07.0-11-1", "run.late-07.0-11-2"]
    assert keys == [*once, "run.late-07.0-12-1"]
    assert server.calls[0].body == server.calls[1].body


async def test_headers_and_tokens_come_from_the_environment() -> None:
    """Values that begin with ``env:`` are secrets, others are sent as they are."""
    settings: dict[str, Any] = {
        "headers": {**BEARER, "X-Team": "blue", "x-api-key": "env:AGENT_TOKEN"},
    }
    async with agent(report(answer="x"), **settings) as (adapter, server):
        await (await adapter.open(brief())).step(ASK)
    headers = server.calls[0].request.headers
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert (headers["x-team"], headers["x-api-key"]) == ("blue", TOKEN)


def test_a_header_s_missing_variable_is_found_before_any_call() -> None:
    """The error names header and variable."""
    one = endpoint("http://127.0.0.1:1/", headers={"x-api-key": "env:NO_KEY"})
    with pytest.raises(UsageError, match=r"headers\.x-api-key .* NO_KEY, which is not set"):
        connect(one, {}, Path(), SystemClock())
    with pytest.raises(UsageError, match="no header can hold") as caught:
        connect(one, {"NO_KEY": "a\nb-secret"}, Path(), SystemClock())
    assert "b-secret" not in str(caught.value)


async def test_cookies_do_not_tie_trials_to_each_other() -> None:
    """What one answer sets no later request sends."""
    reply = Reply.json({"answer": "x"}, set_cookie="sid=1; Path=/")
    async with agent(reply) as (adapter, server):
        for _ in range(2):
            await (await adapter.open(brief())).step(ASK)
    assert all("cookie" not in call.request.headers for call in server.calls)


EVENTS: list[Mapping[str, object]] = [
    {"type": "text", "text": "let me "},
    {"type": "note", "beat": 1},
    {"type": "text", "text": "look"},
    {"type": "round", "tool_calls": [{"tool": "look", "result": "a.txt"}]},
    {"type": "text", "text": "a.txt"},
    {"type": "result", "served_model": "m"},
]


@pytest.mark.parametrize(("stream", "reply"), [("sse", sse), ("jsonl", jsonl)])
async def test_a_stream_is_read_as_it_comes(stream: str, reply: Any) -> None:
    """Pieces make the round's text and the answer; the first one tells the time to it."""
    step = await asked(reply(EVENTS, pause_s=0.05), stream=stream)
    assert [one.text for one in step.rounds] == ["let me look"]
    assert step.answer == "a.txt"
    first = step.rounds[0].first_token_ms
    assert first is not None
    assert 50 <= first < 250
    assert step.rounds[0].served_model == "m"


async def test_nothing_is_awaited_after_the_result_of_a_stream() -> None:
    """A server that keeps the line open costs nobody time."""
    events = [{"type": "result", "answer": "x"}, *[{"type": "note"}] * 100]
    step = await asked(sse(events, pause_s=1.0), stream="sse", request_seconds=4)
    assert step.answer == "x"


async def test_events_have_their_names_and_forms_in_either_place() -> None:
    """``event:`` names the type, data may take several lines, other lines mean nothing."""
    text = (
        ': hello\r\nevent: round\r\ndata: {\ndata: "text": "é"}\r\nid: 7\r\n\r\n'
        'data: {"type": "result"}\n\ndata: [DONE]\n\n'
    )
    reply = Reply(200, text.encode(), {"content-type": "text/event-stream"})
    step = await asked(reply, stream="sse")
    assert ([one.text for one in step.rounds], step.answer) == (["é"], "é")


async def test_foreign_events_are_mapped() -> None:
    """One expression turns each into the format's; what becomes nothing is left out."""
    events: list[Mapping[str, object]] = [
        {"delta": "a.t"},
        {"ping": 1},
        {"delta": "xt"},
        {"final": {"model": "m"}},
    ]
    expression = (
        "(delta && {type: 'text', text: delta}) || "
        "(final && {type: 'result', served_model: final.model}) || `null`"
    )
    step = await asked(jsonl(events), stream="jsonl", response={"event": expression})
    assert (step.answer, step.rounds[0].served_model) == ("a.txt", "m")


async def test_an_agent_that_streams_may_answer_at_once() -> None:
    """An answer of media type JSON is a whole report, also where a stream was asked for."""
    step = await asked(report(answer="x"), stream="sse")
    assert step.answer == "x"


def job(call: Call) -> Reply:
    """Three looks until the job is done."""
    if call.request.verb == "POST":
        return Reply.json({"id": "j/1", "status": "queued"}, status=202)
    if call.number < 4:
        return Reply.json({"status": "running"})
    return Reply.json({"status": "done", "result": {"answer": "x", "rounds": [{"text": "x"}]}})


POLL = {"job": "id", "url": "URL/jobs/{{job}}", "every_seconds": 0.05}
AT_RESULT = {"trajectory": "result"}


async def test_a_job_is_polled_until_it_is_done() -> None:
    """One request begins it; its id stands in the address that is asked."""
    async with agent(job, poll=POLL, response=AT_RESULT) as (adapter, server):
        step = await (await adapter.open(brief())).step(ASK)
    assert (step.answer, step.end) == ("x", "answered")
    assert [call.request.path for call in server.calls] == ["/ask", *["/jobs/j%2F1"] * 3]
    assert [call.request.verb for call in server.calls] == ["POST", "GET", "GET", "GET"]


async def test_polls_keep_their_distance() -> None:
    """``every_seconds`` is what passes between them."""
    with agent_server(job) as server:
        poll = {**POLL, "url": f"{server.url}/jobs/{{{{job}}}}", "every_seconds": 30}
        one = endpoint(f"{server.url}/ask", poll=poll, response=AT_RESULT)
        clock = SimulatedClock(datetime(2026, 3, 2, tzinfo=UTC))
        adapter = connect(one, {}, Path(), clock)
        await (await adapter.open(brief())).step(ASK)
        await adapter.close()
    assert clock.monotonic() == 90


async def test_a_job_that_is_done_at_once_is_not_polled() -> None:
    """The first answer may be the last."""
    body = Reply.json({"status": "done", "answer": "x", "id": "1"})
    async with agent(body, poll=POLL) as (adapter, server):
        step = await (await adapter.open(brief())).step(ASK)
    assert (step.answer, len(server.calls)) == ("x", 1)


async def test_a_job_that_failed_is_the_agent_s_failure() -> None:
    """A failed trial with its reason, and with the rounds where they are told."""
    reply = Reply.json({"status": "failed", "id": "1", "why": "gave up", "answer": ""})
    step = await asked(reply, poll=POLL, response={"agent_error": "why"})
    assert (step.end, step.error) == ("agent_error", "gave up")
    step = await asked(Reply.json({"status": "failed", "id": "1"}), poll=POLL)
    assert (step.end, step.error) == ("agent_error", "the job ended as 'failed'")


async def test_a_poll_that_failed_does_not_begin_the_job_again() -> None:
    """The same turn given again goes on polling."""

    def script(call: Call) -> Reply:
        return Reply(502) if call.number == 2 else job(call)

    async with agent(script, poll=POLL, response=AT_RESULT) as (adapter, server):
        session = await adapter.open(brief())
        with pytest.raises(EndpointFault) as caught:
            await session.step(ASK)
        assert caught.value.is_transient
        assert (await session.step(ASK)).answer == "x"
        assert (await session.step(UserTurn("and now?"))).answer == "x"
    assert [call.request.verb for call in server.calls].count("POST") == 2


async def test_a_job_may_give_its_own_address_on_the_same_host() -> None:
    """In a header or in the body, whole or relative."""

    def script(call: Call) -> Reply:
        if call.request.verb == "POST":
            return Reply.json({}, status=202, location="/status/7?x=1")
        return Reply.json({"status": "done", "answer": "x"})

    poll = {"location": "header:location", "every_seconds": 0.05}
    async with agent(script, poll=poll) as (adapter, server):
        assert (await (await adapter.open(brief())).step(ASK)).answer == "x"
    assert server.calls[1].request.path == "/status/7"


@pytest.mark.parametrize("is_listed", [False, True])
async def test_a_job_s_address_elsewhere_has_to_be_listed(is_listed: bool) -> None:
    """And the endpoint's headers are not sent there even then."""
    with agent_server(Reply.json({"status": "done", "answer": "x"})) as other:
        begun = Reply.json({"at": f"{other.url}/7"}, status=202)
        hosts = [other.url.removeprefix("http://")] if is_listed else ["127.0.0.1:1"]
        poll = {"location": "at", "hosts": hosts, "every_seconds": 0.05}
        settings: dict[str, Any] = {"poll": poll, "headers": BEARER}
        if is_listed:
            assert (await asked(begun, **settings)).answer == "x"
            assert "authorization" not in other.calls[0].request.headers
        else:
            fault = await refused(begun, **settings)
            assert (fault.kind, fault.is_transient) == ("redirect", False)
            assert "poll.hosts" in str(fault)
            assert other.calls == []


async def test_a_job_without_an_id_or_a_status_is_a_fault() -> None:
    """What was agreed is not there, and asking again brings nothing."""
    fault = await refused(Reply.json({"status": "queued"}), poll=POLL)
    assert "no job at 'id'" in str(fault)
    fault = await refused(Reply.json({"id": "1"}), poll=POLL)
    assert "no status at 'status'" in str(fault)
    assert not fault.is_transient


async def test_what_the_agent_reports_of_itself_is_a_failed_trial() -> None:
    """In the format, or where ``agent_error`` says."""
    step = await asked(report(error="I ran in circles", rounds=[{"text": "hm"}]))
    assert (step.end, step.error, len(step.rounds)) == ("agent_error", "I ran in circles", 1)
    step = await asked(
        report(out="", why=["loop"]), response={"answer": "out", "agent_error": "why"}
    )
    assert (step.end, step.error) == ("agent_error", '["loop"]')
    step = await asked(report(answer=""))
    assert (step.end, step.answer) == ("answered", "")


async def test_results_are_nothing_for_an_agent_that_owns_its_loop() -> None:
    """It is asked by turns of the user alone."""
    async with agent(report(answer="x")) as (adapter, _):
        session = await adapter.open(brief())
        with pytest.raises(TypeError):
            await session.step(ToolResults(()))


async def test_the_version_url_says_what_is_served() -> None:
    """As a text, or where the JSON names it; the account is the address without its query."""

    def script(call: Call) -> Reply:
        if call.request.path == "/text":
            return Reply(200, b"m-3\n", {"content-type": "text/plain"})
        return Reply.json({"now": {"model": "m-4"}})

    for version, expected in (
        ({"url": "URL/text"}, "m-3"),
        ({"url": "URL/json", "model": "now.model"}, "m-4"),
    ):
        async with agent(script, "/ask?v=2", version=version, model="big") as (adapter, server):
            identity = await adapter.resolve()
            assert adapter.account == f"{server.url}/ask big"
        assert (identity.requested_model, identity.resolved_model) == ("big", expected)
        assert identity.note is None


async def test_an_identity_that_nobody_tells_is_unverifiable() -> None:
    """Said in words; a version URL that does not answer is a fault."""
    async with agent(Reply.json({}), version={"url": "URL", "model": "m"}) as (adapter, _):
        identity = await adapter.resolve()
    assert identity.resolved_model is None
    assert identity.note == "identity unverifiable: the version URL names no model"
    one = replace(endpoint("http://127.0.0.1:1/"), harness=Harness(version="r7"))
    adapter = connect(one, {}, Path(), SystemClock())
    identity = await adapter.resolve()
    await adapter.close()
    assert identity.note == "identity unverifiable: no version.url is configured"
    assert identity.harness_revision == "r7"
    async with agent(Reply(500), version={"url": "URL"}) as (adapter, _):
        with pytest.raises(EndpointFault, match="500"):
            await adapter.resolve()


def test_what_the_agent_offers_is_known_where_it_is_listed() -> None:
    """A grader that names another tool is refused then."""
    assert Settings(url="http://a/").offered_tools(Path()) is None
    assert Settings(url="http://a/", tools=["look"]).offered_tools(Path()) == frozenset({"look"})
