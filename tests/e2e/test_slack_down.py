"""Slack may be down for nights: pages wait, are sent once and in order, and decide nothing."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.packed import texts_below
from tests.e2e.programs import NIGHT, WATCHKEEPER, Ended, finished
from tests.projects import FIRST_SLOT, bench, case, script, scripted_endpoint, suite, write_project
from tests.servers.anthropic_replies import message
from tests.servers.anthropic_server import anthropic_server
from tests.servers.loopback import Reply
from tests.servers.slack_replies import rate_limited, refused
from tests.servers.slack_server import SlackServer, slack_server
from watchkeeper.pipeline.nightly import nightly

TOKEN = "an-opaque-word-that-no-shape-betrays"
TOKEN_VARIABLE = "PAGER"
"""Nothing in the name or the value says that this is a secret; the configuration does."""

OWNERS = {
    "team": {"slack_channel": "C0TEAM", "mention": "<@U77>"},
    "platform": {"slack_channel": "C0PLATFORM"},
}
SLACK = {"slack": {"token": f"env:{TOKEN_VARIABLE}"}}
CASES = 8
GOOD_NIGHTS = 2
WORSE, WORST, UP_AGAIN, LAST = range(GOOD_NIGHTS, GOOD_NIGHTS + 4)
"""The suite ``first`` is worse from WORSE on, ``second`` from WORST on."""


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    """A workspace with a channel for each owner."""
    channels = {"C0TEAM": "team", "C0PLATFORM": "platform"}
    with slack_server(token=TOKEN, channels=channels) as server:
        yield server


def _write(folder: Path) -> None:
    """An agent that quotes the token of whoever watches it, in every answer."""
    served = [{"model": "v1"}]
    for number, night in ((2, WORSE), (3, WORST)):
        since = FIRST_SLOT + timedelta(days=night) - timedelta(hours=1)
        served.append({"model": f"v{number}", "since": since.isoformat()})
    wrong = {"endings": [{"text": f"no, says {TOKEN}"}]}
    agent = script(
        {"match": {"cases": ["first-*"], "served": ["v2", "v3"]}, **wrong},
        {"match": {"cases": ["second-*"], "served": ["v3"]}, **wrong},
        {"endings": [{"text": f"yes, says {TOKEN}"}]},
        served=served,
    )
    suites = {
        name: suite([case(f"{name}-{number}") for number in range(CASES)], suite=name)
        for name in ("first", "second")
    }
    write_project(
        folder,
        watchkeeper=SLACK,
        owners=OWNERS,
        endpoints={"agent": scripted_endpoint(suites=[*suites])},
        suites=suites,
        scripts={"agent": agent},
    )


@pytest.fixture(scope="module")
def good_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose first nights were good and told nobody anything; to be copied."""
    folder = tmp_path_factory.mktemp("good-nights")
    _write(folder)
    with slack_server(token=TOKEN) as unused:
        for number in range(GOOD_NIGHTS):
            at = FIRST_SLOT + timedelta(days=number)
            steps = bench(folder, at=at, variables=_variables(unused.base_url)).steps()
            result = asyncio.run(nightly(at, steps))
            assert (result.exit_code, result.undelivered_count) == (0, 0)
    assert unused.calls == []
    return folder


@pytest.fixture
def project(good_nights: Path, tmp_path: Path) -> Path:
    """A project with its good nights, for one test."""
    return Path(shutil.copytree(good_nights, tmp_path / "project"))


def _variables(slack_url: str) -> dict[str, str]:
    # With a line break, as a secret ends that is mounted as a file.
    return {TOKEN_VARIABLE: f"{TOKEN}\n", "WATCHKEEPER_SLACK_URL": slack_url}


def _night(folder: Path, number: int, slack_url: str) -> Ended:
    slot = (FIRST_SLOT + timedelta(days=number)).isoformat()
    return finished(NIGHT, slot, folder=folder, variables=_variables(slack_url))


OUTAGES: Mapping[str, Reply | None] = {
    "revoked": refused("token_revoked"),
    "rate limited": rate_limited(retry_after=120),
    "unreachable": None,
    "quoting the token": refused(f"invalid {TOKEN}"),
}
"""What Slack answers; ``None``: nothing, there is only a gateway that hangs up."""


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES.keys())
def test_pages_wait_out_an_outage_and_come_once_in_order(
    project: Path, slack: SlackServer, outage: Reply | None
) -> None:
    """Pages of two nights without Slack wait, one for each root, and come once and in order.

    Exit codes are those of the verdicts all the while, and the token is nowhere to be found.
    """
    with Gateway(slack.url).running() as gateway:
        url = f"{gateway.url}/api/"
        if outage is None:
            gateway.target = None
        else:
            slack.fail_always("chat.postMessage", outage)
        down = [_night(project, number, url) for number in (WORSE, WORST)]
        told_meanwhile = slack.messages["C0TEAM"].copy()
        gateway.target = slack.url
        slack.fail_always("chat.postMessage", None)
        up = [_night(project, number, url) for number in (UP_AGAIN, LAST)]

    nights = [*down, *up]
    assert [night.exit_code for night in nights] == [1, 1, 1, 1], nights[-1].err
    assert told_meanwhile == []
    assert [night.json()["undelivered_count"] for night in nights] == [1, 2, 0, 0]
    assert ["not delivered" in night.err for night in nights] == [True, True, False, False]
    pages = slack.messages["C0TEAM"]
    assert [_suite_of(page) for page in pages] == ["first", "second"]
    assert all(page["text"].startswith("<@U77>") for page in pages)
    assert slack.messages["C0PLATFORM"] == []

    said = [night.out + night.err for night in nights]
    stored = texts_below(project / "store")
    assert [where for where, text in stored.items() if TOKEN in text] == []
    assert [text for text in (*said, json.dumps(pages)) if TOKEN in text] == []
    transcripts = "".join(text for where, text in stored.items() if where.startswith("transcripts"))
    trial_count = (GOOD_NIGHTS + len(nights)) * 2 * CASES * 3
    assert transcripts.count(f"says [secret {TOKEN_VARIABLE}]") >= trial_count


def test_night_without_any_trouble_ends_with_the_same_code(
    project: Path, slack: SlackServer
) -> None:
    """With Slack in order the same night has the same exit code, and its page comes at once."""
    night = _night(project, WORSE, slack.base_url)
    assert (night.exit_code, night.json()["undelivered_count"]) == (1, 0)
    assert [_suite_of(page) for page in slack.messages["C0TEAM"]] == ["first"]


def test_short_rate_limit_is_waited_out(project: Path, slack: SlackServer) -> None:
    """A page that Slack asks to repeat in a second is sent the same night, once."""
    slack.fail("chat.postMessage", rate_limited(retry_after=1))
    night = _night(project, WORSE, slack.base_url)
    assert (night.exit_code, night.json()["undelivered_count"]) == (1, 0)
    assert [call.ok for call in slack.calls_of("chat.postMessage")] == [False, True]
    assert [_suite_of(page) for page in slack.messages["C0TEAM"]] == ["first"]


@pytest.mark.parametrize("token", [{}, {TOKEN_VARIABLE: ""}], ids=["unset", "empty"])
def test_missing_token_is_found_before_the_first_call(
    tmp_path: Path, slack: SlackServer, token: dict[str, str]
) -> None:
    """Without the token's variable a night ends with 2, names it, and has called nobody."""
    with anthropic_server(then=message("yes")) as api:
        variables = _write_with_model(tmp_path, api.url, slack.base_url) | token
        ended = [
            finished(WATCHKEEPER, "nightly", "--json", folder=tmp_path, variables=variables),
            finished(NIGHT, FIRST_SLOT.isoformat(), folder=tmp_path, variables=variables),
        ]
        assert api.calls == []
    assert [one.exit_code for one in ended] == [2, 2], ended
    assert all(TOKEN_VARIABLE in one.err and one.out == "" for one in ended)
    assert slack.calls == []
    assert not (tmp_path / "store").exists()


def test_run_that_tells_nobody_needs_no_token(tmp_path: Path, slack: SlackServer) -> None:
    """A run on demand sends nothing to Slack, so it works where the token is not known."""
    with anthropic_server(then=message("yes")) as api:
        variables = _write_with_model(tmp_path, api.url, slack.base_url)
        run = ("run", "basic", "-e", "agent", "--json")
        ended = finished(WATCHKEEPER, *run, folder=tmp_path, variables=variables)
        assert len(api.message_calls) == 12
    assert (ended.exit_code, ended.json()["counts"]["passed"]) == (0, 12), ended
    assert slack.calls == []


def _write_with_model(folder: Path, model_url: str, slack_url: str) -> dict[str, str]:
    """A project behind the Messages API; its variables without Slack's token."""
    endpoint = {
        "kind": "anthropic",
        "model": "claude-sonnet-5-5",
        "api_key": "env:MODEL_KEY",
        "base_url": model_url,
        "owner": "team",
        "suites": ["basic"],
    }
    write_project(folder, watchkeeper=SLACK, owners=OWNERS, endpoints={"agent": endpoint})
    return {"MODEL_KEY": "a-key", "WATCHKEEPER_SLACK_URL": slack_url}


def _suite_of(page: Mapping[str, Any]) -> str:
    found = re.search(r"agent got worse on (\w+): pass rate −", page["text"])
    assert found is not None, page["text"]
    return found.group(1)
