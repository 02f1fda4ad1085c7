"""The tests' own servers speak the real protocols, fail as told, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anthropic
import boto3
import pytest
from anthropic.types import MessageParam
from botocore.config import Config
from botocore.exceptions import ClientError
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from tests.servers import process
from tests.servers.anthropic_replies import (
    cut_off,
    dropped,
    fallback,
    html_page,
    junk,
    lost,
    message,
    model_card,
    overloaded,
    paused,
    rate_limited,
    refusal,
    tool_use,
    unauthorized,
    without_usage,
)
from tests.servers.anthropic_server import (
    AnthropicServer,
    Call,
    anthropic_program,
    anthropic_server,
    read_log,
)
from tests.servers.loopback import Reply
from tests.servers.questions import MAX_TOKENS, QUESTIONS, SYSTEM
from tests.servers.s3 import S3Server, lenient_s3_server, s3_server
from tests.servers.slack_replies import dropped as hung_up
from tests.servers.slack_replies import hang, refused
from tests.servers.slack_replies import rate_limited as slow_down
from tests.servers.slack_replies import server_error as slack_broken
from tests.servers.slack_server import SlackServer, slack_server

HELLO: list[MessageParam] = [{"role": "user", "content": "hello"}]


def _anthropic(url: str, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="x", **{"max_retries": 0, **options})


def _ask(url: str, **options: Any) -> anthropic.types.Message:
    with _anthropic(url, **options) as client:
        return client.messages.create(model="claude-haiku-5-5", max_tokens=16, messages=HELLO)


# The scripted Messages API


def test_replies_come_in_order_and_every_call_is_recorded() -> None:
    """A script's replies are given in order; the request's model is echoed."""
    with anthropic_server([message("one"), message("two", model="other")]) as api:
        first, second = _ask(api.url), _ask(api.url)
    assert [block.text for block in first.content if block.type == "text"] == ["one"]
    assert (first.model, second.model) == ("claude-haiku-5-5", "other")
    assert [call.number for call in api.message_calls] == [1, 2]
    assert api.calls[0].last_text == "hello"


def test_same_request_paid_twice_is_seen() -> None:
    """Two equal requests share a fingerprint, and only answered ones count as paid."""
    with anthropic_server([overloaded(), message(), message()]) as api:
        with pytest.raises(anthropic.APIStatusError):
            _ask(api.url)
        _ask(api.url)
        _ask(api.url)
        assert len(api.calls) == 3
        assert list(api.paid().values()) == [2]


def test_lost_answer_is_paid() -> None:
    """An answer that never arrives was paid for all the same; a dropped call was not."""
    with anthropic_server([lost(), dropped(), message()]) as api:
        _ask(api.url, max_retries=2)
        assert len(api.calls) == 3
        assert list(api.paid().values()) == [2]


def test_used_up_script_says_so_and_is_not_retried() -> None:
    """A call beyond the script is a 400 that names the count."""
    with anthropic_server([message()]) as api:
        _ask(api.url)
        with pytest.raises(anthropic.BadRequestError, match="has 1 replies; this is call 2"):
            _ask(api.url, max_retries=2)
        assert len(api.calls) == 2


def test_script_may_be_a_function_and_rules_come_first() -> None:
    """Rules answer by the last message's text, then the function of the call."""

    def script(call: Call) -> Reply:
        return message(f"call {call.number}")

    with anthropic_server(script) as api:
        assert '"call 1"' in _ask(api.url).to_json(indent=None)
        api.rules["hell"] = message("ruled")
        assert '"ruled"' in _ask(api.url).to_json(indent=None)


def test_calls_are_answered_side_by_side() -> None:
    """Three clients are served at once, and the server tells how many there were."""
    together = threading.Barrier(3, timeout=10.0)

    def script(call: Call) -> Reply:
        together.wait()
        return message()

    with anthropic_server(script) as api:
        threads = [threading.Thread(target=_ask, args=(api.url,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert api.most_at_once == 3
        assert list(api.paid().values()) == [3]


def test_tool_round_then_answer() -> None:
    """A tool round carries id, name and input; the result sent back is recorded."""
    with anthropic_server([tool_use("find", {"q": "x"}, text="Let me look."), message()]) as api:
        answer = _ask(api.url)
        assert answer.stop_reason == "tool_use"
        assert [block.type for block in answer.content] == ["text", "tool_use"]
        with _anthropic(api.url) as client:
            client.messages.create(
                model="m",
                max_tokens=16,
                messages=[
                    *HELLO,
                    answer.to_param(),
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}
                        ],
                    },
                ],
            )
        assert "found" in api.calls[1].last_text


@pytest.mark.parametrize(
    ("reply", "raised"),
    [
        (rate_limited(), anthropic.RateLimitError),
        (overloaded(), anthropic.InternalServerError),
        (unauthorized(), anthropic.AuthenticationError),
        (html_page(502), anthropic.InternalServerError),
        (dropped(), anthropic.APIConnectionError),
        (message().after(5.0), anthropic.APITimeoutError),
    ],
)
def test_failures_are_what_the_sdk_knows(reply: Reply, raised: type[Exception]) -> None:
    """Each scripted failure raises the SDK's own exception."""
    with anthropic_server([reply]) as api, pytest.raises(raised):
        _ask(api.url, timeout=0.3)


def test_rate_limit_carries_its_seconds() -> None:
    """The header says how long; the SDK obeys it and counts its retry."""
    with anthropic_server([rate_limited(0.01), message()]) as api:
        _ask(api.url, max_retries=1)
        assert [call.retry_number for call in api.calls] == [0, 1]


@pytest.mark.parametrize(
    ("reply", "stop_reason"),
    [(refusal("bio"), "refusal"), (paused(), "pause_turn"), (cut_off(), "max_tokens")],
)
def test_stop_reasons_arrive(reply: Reply, stop_reason: str) -> None:
    """Every stop reason arrives as it is; a refusal may have no content."""
    with anthropic_server([reply]) as api:
        answer = _ask(api.url)
    assert answer.stop_reason == stop_reason
    assert bool(answer.content) == (stop_reason != "refusal")


def test_junk_passes_the_sdk() -> None:
    """The SDK does not check a 200: HTML is a str, JSON of another shape lacks every field."""
    with anthropic_server([html_page(), without_usage(), junk()]) as api:
        assert isinstance(_ask(api.url), str)
        assert getattr(_ask(api.url), "usage", None) is None
        assert getattr(_ask(api.url), "content", None) is None


def test_usage_shows_cache_and_fallback() -> None:
    """Cached tokens are apart from input tokens, and iterations name the model that served."""
    with anthropic_server([message(cache_creation=7, cache_read=90), fallback()]) as api:
        cached, other = _ask(api.url), _ask(api.url)
    usage = cached.usage
    tokens = (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
    assert tokens == (12, 7, 90)
    iterations = other.usage.to_dict()["iterations"]
    assert isinstance(iterations, list)
    assert [step["type"] for step in iterations] == ["message", "fallback_message"]
    assert [step["model"] for step in iterations] == ["claude-haiku-5-5", "claude-haiku-5-5"]


def test_models_have_a_lifecycle() -> None:
    """An alias answers with the card it is mapped to; an unknown name is a 404."""
    card = model_card("m-2", lifecycle="deprecated", retires_at="2026-12-01T00:00:00Z")
    with anthropic_server(models={"m": card}) as api, _anthropic(api.url) as client:
        found = client.models.retrieve("m")
        assert (found.id, found.lifecycle) == ("m-2", "deprecated")
        assert found.retires_at is not None
        assert found.retires_at.year == 2026
        api.models["m"] = model_card("m-3")
        assert client.models.retrieve("m").id == "m-3"
        with pytest.raises(anthropic.NotFoundError):
            client.models.retrieve("gone")


def test_requests_that_the_api_would_refuse_are_refused() -> None:
    """A wrong key is a 401, a missing field a 400; neither uses up the script."""
    with anthropic_server([message()], api_key="right") as api, _anthropic(api.url) as client:
        with pytest.raises(anthropic.AuthenticationError):
            _ask(api.url)
        right = client.with_options(api_key="right")
        with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
            right.post("/v1/messages", body={"model": "m", "messages": []}, cast_to=object)
        right.messages.create(model="m", max_tokens=1, messages=HELLO)


def test_a_broken_script_fails_the_test() -> None:
    """An exception in the script reaches the test that wrote it."""

    def script(call: Call) -> Reply:
        raise ZeroDivisionError(call.path)

    def use() -> None:
        with anthropic_server(script) as api, pytest.raises(anthropic.APIConnectionError):
            _ask(api.url)

    with pytest.raises(AssertionError, match="test server failed"):
        use()


def test_closing_does_not_wait_for_a_hanging_reply() -> None:
    """A stalled answer ends with the server, and counts as not paid."""
    began = time.monotonic()
    with anthropic_server([message().after(60.0)]) as api:
        with pytest.raises(anthropic.APITimeoutError):
            _ask(api.url, timeout=0.1)
    assert time.monotonic() - began < 5.0
    assert not api.paid()


def test_calls_of_a_killed_client_are_counted(tmp_path: Path) -> None:
    """The server in a process of its own logs what a client had paid for when it was killed."""
    client = """
import sys, anthropic
api = anthropic.Anthropic(base_url=sys.argv[1], api_key="x", max_retries=0)
for number in range(1000):
    text = f"question {number}"
    api.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": text}])
    print(number, flush=True)
"""
    script: Mapping[str, Any] = {
        "rules": [{"when": "question 0", "reply": "message", "text": "first"}],
        "then": {"reply": "message", "delay_s": 0.01},
    }
    with anthropic_program(script, tmp_path) as (url, log):
        with subprocess.Popen([sys.executable, "-c", client, url], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(3):
                child.stdout.readline()
            child.send_signal(signal.SIGKILL)
        seen = read_log(log)
        assert seen.message_count >= 3
        assert set(seen.paid.values()) == {1}
        assert "first" in _ask_text(url, "question 0")
        assert max(read_log(log).paid.values()) == 1


def _ask_text(url: str, text: str) -> str:
    with _anthropic(url) as client:
        ask: MessageParam = {"role": "user", "content": text}
        return client.messages.create(model="other", max_tokens=1, messages=[ask]).to_json()


def test_recorded_calls_survive_the_server() -> None:
    """The record is readable after the server has closed."""
    server = AnthropicServer([message()])
    with server.running() as api:
        _ask(api.url)
    assert [outcome.status for outcome in server.outcomes] == [200]


# Programs


def test_program_that_cannot_start_says_why() -> None:
    """The end of its output is in the exception."""
    start = process.module("tests.servers.anthropic_server", "--script", "/none.json")
    with pytest.raises(process.ProgramNotReady, match=r"FileNotFoundError.*/none\.json"), start:
        pass


def test_program_ends_with_the_block(tmp_path: Path) -> None:
    """Nothing of its process group is left."""
    script = tmp_path / "script.json"
    script.write_text("{}")
    with process.module("tests.servers.anthropic_server", "--script", str(script)) as program:
        os.killpg(program.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.killpg(program.pid, 0)


# Slack


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    """A workspace with one channel."""
    with slack_server(channels={"C0123": "alerts"}) as server:
        yield server


def _slack(server: SlackServer, token: str | None = None, timeout: int = 5) -> WebClient:
    return WebClient(token=token or server.token, base_url=server.base_url, timeout=timeout)


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _header(text: str) -> dict[str, Any]:
    return {"type": "header", "text": {"type": "plain_text", "text": text}}


def test_slack_keeps_a_thread(slack: SlackServer) -> None:
    """A posted message can be answered in its thread, updated and read back."""
    client = _slack(slack)
    assert client.auth_test()["bot_id"]
    first = client.chat_postMessage(channel="#alerts", text="worse", blocks=[_section("worse")])
    client.chat_postMessage(channel="C0123", text="more", thread_ts=first["ts"])
    client.chat_update(channel="C0123", ts=first["ts"], text="recovered")
    replies = client.conversations_replies(channel="C0123", ts=first["ts"])
    assert [m["text"] for m in replies["messages"]] == ["recovered", "more"]
    history = client.conversations_history(channel="C0123")
    assert [m["text"] for m in history["messages"]] == ["recovered"]
    assert first["channel"] == "C0123"
    sent = slack.calls_of("chat.postMessage")
    assert sent[0].token == slack.token
    assert sent[0].body["blocks"] == [_section("worse")]


@pytest.mark.parametrize(
    "blocks",
    [
        [_section("x")] * 51,
        [_section("x" * 3001)],
        [_section("")],
        [_header("x" * 151)],
        [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}],
        [{"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 11}],
        [{"type": "nonsense"}],
    ],
)
def test_slack_refuses_blocks_beyond_its_limits(
    slack: SlackServer, blocks: list[dict[str, Any]]
) -> None:
    """What Slack would not show is refused as Slack refuses it."""
    with pytest.raises(SlackApiError) as caught:
        _slack(slack).chat_postMessage(channel="C0123", text="x", blocks=blocks)
    assert caught.value.response["error"] == "invalid_blocks"
    assert not slack.messages["C0123"]
    assert [call.ok for call in slack.calls] == [False]


def test_slack_takes_blocks_at_its_limits(slack: SlackServer) -> None:
    """50 blocks, 3,000 characters a section and 150 a header go through."""
    blocks = [_header("x" * 150), *[_section("x" * 3000)] * 49]
    assert _slack(slack).chat_postMessage(channel="C0123", text="x", blocks=blocks)["ok"]


@pytest.mark.parametrize(
    ("token", "channel", "error"),
    [("xoxb-wrong", "C0123", "invalid_auth"), (None, "C9999", "channel_not_found")],
)
def test_slack_knows_its_token_and_channels(
    slack: SlackServer, token: str | None, channel: str, error: str
) -> None:
    """A wrong token or an unknown channel is `ok: false` with HTTP 200."""
    with pytest.raises(SlackApiError) as caught:
        _slack(slack, token).chat_postMessage(channel=channel, text="x")
    assert caught.value.response["error"] == error
    assert caught.value.response.status_code == 200


def test_slack_fails_as_told(slack: SlackServer) -> None:
    """Refusals, 429 and 500 come in the scripted order, then it works again."""
    slack.fail("chat.postMessage", refused("token_revoked"), slow_down(3), slack_broken())
    client = _slack(slack)
    seen = []
    for _ in range(3):
        with pytest.raises(SlackApiError) as caught:
            client.chat_postMessage(channel="C0123", text="x")
        seen.append((caught.value.response.status_code, caught.value.response.get("error")))
        headers = {k.lower(): v for k, v in caught.value.response.headers.items()}
        assert headers.get("retry-after") == ("3" if len(seen) == 2 else None)
    assert [status for status, _ in seen] == [200, 429, 500]
    assert seen[0][1] == "token_revoked"
    assert client.chat_postMessage(channel="C0123", text="x")["ok"]


def test_slack_hangs_and_hangs_up(slack: SlackServer) -> None:
    """No answer is a timeout; a closed connection is an error, retried once by the SDK."""
    slack.fail("chat.postMessage", hang(30.0), hung_up(), hung_up())
    with pytest.raises(TimeoutError):
        _slack(slack, timeout=1).chat_postMessage(channel="C0123", text="x")
    with pytest.raises(ConnectionError):
        _slack(slack).chat_postMessage(channel="C0123", text="x")
    assert len(slack.calls) == 3


def test_slack_may_post_and_lose_the_answer(slack: SlackServer) -> None:
    """The SDK's own retry after a lost answer posts the same message twice."""
    slack.lose_answers("chat.postMessage")
    assert _slack(slack).chat_postMessage(channel="C0123", text="x")["ok"]
    assert [m["text"] for m in slack.messages["C0123"]] == ["x", "x"]


def test_slack_rate_limit_is_retried_only_with_the_handler(slack: SlackServer) -> None:
    """With the SDK's handler a 429 costs one more call."""
    slack.fail("chat.postMessage", slow_down(0))
    client = _slack(slack)
    client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=1))
    assert client.chat_postMessage(channel="C0123", text="x")["ok"]
    assert [call.ok for call in slack.calls] == [False, True]


# S3


def _s3(server: S3Server) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=server.endpoint_url,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name=server.region,
        config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
    )


def _put_if_absent(client: Any, key: str, body: bytes) -> bool:
    try:
        client.put_object(Bucket="bucket", Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 412:
            raise
        return False
    return True


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server with one bucket."""
    with s3_server() as server:
        client = _s3(server)
        client.create_bucket(Bucket="bucket")
        client.close()
        yield server


def test_one_of_eight_writers_wins(s3: S3Server) -> None:
    """Of several conditional writes at one key exactly one succeeds, and its bytes are kept."""
    clients = [_s3(s3) for _ in range(8)]
    for number in range(5):
        start = threading.Barrier(len(clients))
        winners: list[int] = []

        def write(
            index: int, key: str, start: threading.Barrier = start, won: list[int] = winners
        ) -> None:
            start.wait()
            if _put_if_absent(clients[index], key, b"%d" % index):
                won.append(index)

        threads = [
            threading.Thread(target=write, args=(index, f"race/{number}"))
            for index in range(len(clients))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        kept = clients[0].get_object(Bucket="bucket", Key=f"race/{number}")["Body"].read()
        assert kept == b"%d" % winners[0]
    for client in clients:
        client.close()


def test_s3_lists_reads_and_removes(s3: S3Server) -> None:
    """What was put is listed under its prefix, read back whole and gone once removed."""
    client = _s3(s3)
    data = bytes(range(256)) * 4096
    client.put_object(Bucket="bucket", Key="a/run_date=2026-01-01/x.parquet", Body=data)
    listed = client.list_objects_v2(Bucket="bucket", Prefix="a/")
    assert [entry["Key"] for entry in listed["Contents"]] == ["a/run_date=2026-01-01/x.parquet"]
    got = client.get_object(Bucket="bucket", Key=listed["Contents"][0]["Key"])["Body"].read()
    assert got == data
    client.delete_object(Bucket="bucket", Key=listed["Contents"][0]["Key"])
    assert client.list_objects_v2(Bucket="bucket", Prefix="a/")["KeyCount"] == 0
    client.close()


def test_lenient_s3_accepts_a_second_write() -> None:
    """The look-alike takes every conditional write, as a store that ignores the header does."""
    with lenient_s3_server() as server:
        client = _s3(server)
        client.create_bucket(Bucket="bucket")
        assert _put_if_absent(client, "probe one", b"first")
        assert _put_if_absent(client, "probe one", b"second")
        assert client.get_object(Bucket="bucket", Key="probe one")["Body"].read() == b"second"
        assert client.head_object(Bucket="bucket", Key="probe one")["ContentLength"] == 6
        client.close()


# The small model


@pytest.mark.small_model
def test_worse_weights_answer_fewer_questions_under_the_same_name(tmp_path: Path) -> None:
    """Weights are exchanged behind an unchanged alias, and the answers get clearly worse."""
    pytest.importorskip("xllamacpp")
    from tests.servers.small_model import shipped_weights, small_model, worse_weights

    rates = []
    for weights in (shipped_weights(), worse_weights(tmp_path / "worse.gguf")):
        with small_model(weights, alias="smol", seed=100) as model:
            with _anthropic(model.base_url) as client:
                answers = [
                    client.messages.create(
                        model="smol",
                        max_tokens=MAX_TOKENS,
                        system=SYSTEM,
                        messages=[{"role": "user", "content": question.text}],
                    )
                    for question in QUESTIONS
                ]
        assert {answer.model for answer in answers} == {"smol"}
        right = [
            question.answered_by("".join(b.text for b in answer.content if b.type == "text"))
            for question, answer in zip(QUESTIONS, answers, strict=True)
        ]
        rates.append(sum(right) / len(right))
    assert rates[0] - rates[1] >= 0.4
