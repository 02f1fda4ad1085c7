"""The nightly job on real input: a real small model, a real S3 server, Slack's own client."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.buckets import Bucket
from tests.e2e.gateway import Gateway
from tests.e2e.slot_clock import SlotClock
from tests.projects import FIRST_SLOT, Bench, bench, write_project
from tests.servers.questions import MAX_TOKENS, QUESTIONS, SYSTEM
from tests.servers.slack_server import SlackServer, slack_server
from tests.servers.small_model import shipped_weights, small_model, worse_weights
from watchkeeper.domain.verdict import Verdict
from watchkeeper.pipeline.nightly import NightResult, nightly
from watchkeeper.store.questions import ask

pytestmark = [
    pytest.mark.small_model,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None,
        reason="the small model is not installed: tests/requirements-small-model.txt",
    ),
]

ALIAS = "small-model"
TOKEN = "xoxb-111111111111-222222222222-testtesttest"
OWNERS = {
    "knowledge": {"slack_channel": "C0KNOWLEDGE", "mention": "<@U0OWNER77>"},
    "agents": {"slack_channel": "C0AGENTS", "mention": "<@U0AGENTS>"},
    "platform": {"slack_channel": "C0PLATFORM"},
}
TRIALS = 3
BATCHES = 2
"""Of fresh trials, one for each question; fewer than usual, because every call takes 0.2 s."""


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    """A workspace with a channel for each owner."""
    channels = {owner["slack_channel"]: name for name, owner in OWNERS.items()}
    with slack_server(token=TOKEN, channels=channels) as server:
        yield server


@dataclass(frozen=True, slots=True)
class Nights:
    """One project night after night; what stands behind its model's name is exchanged."""

    root: Path
    model_address: Gateway
    variables: dict[str, str]

    def parts(self, number: int) -> Bench:
        """Fresh parts, as a new process would have them, at the time of a night."""
        at = FIRST_SLOT + timedelta(days=number)
        return bench(self.root, clock=SlotClock(at), variables=self.variables)

    async def night(self, number: int, weights: Path) -> NightResult:
        """One night against these weights; each night has seeds of its own."""
        at = FIRST_SLOT + timedelta(days=number)
        # An answer for every asking of a question, the fresh trials' too: none is repeated.
        replicas = TRIALS + BATCHES
        with small_model(weights, alias=ALIAS, seed=100 * (number + 1), replicas=replicas) as model:
            self.model_address.target = model.base_url
            result = await nightly(at, self.parts(number).steps())
            self.model_address.target = None
        return result

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What `watchkeeper sql` answers."""
        history = self.parts(0).services.history()
        return [tuple(row) for row in ask(history, statement, {}).rows]


def _write(folder: Path, model_url: str, store: str) -> Path:
    (folder / "prompts").mkdir(parents=True)
    (folder / "prompts/system.md").write_text(SYSTEM)
    return write_project(
        folder,
        watchkeeper={
            "store": store,
            "slack": {"token": "env:SLACK_BOT_TOKEN"},
            "statistics": {"batch_count": BATCHES},
        },
        owners=OWNERS,
        endpoints={
            "answers": {
                "kind": "anthropic",
                "model": ALIAS,
                "api_key": "env:SMALL_MODEL_KEY",
                "base_url": model_url,
                "max_tokens": MAX_TOKENS,
                "harness": {"system": "prompts/system.md", "revision": {"version": "1"}},
                "owner": "agents",
                "suites": ["questions"],
                "concurrency": 2,
            }
        },
        suites={
            "questions": {
                "suite": "questions",
                "claim": "Knows what everybody knows.",
                "owner": "knowledge",
                "trials": TRIALS,
                # Low and only reported, so that what pages is the comparison.
                "categories": {"facts": {"gate": 0.05, "action": "report"}},
                "cases": [question.as_case("facts") for question in QUESTIONS],
            }
        },
    )


def _verdict(result: NightResult) -> Verdict:
    (pair,) = result.pairs
    assert pair.error is None
    assert pair.verdict is not None
    return pair.verdict


async def test_worse_weights_behind_the_same_name_page_their_owner_once(
    tmp_path: Path, bucket: Bucket, slack: SlackServer
) -> None:
    """Two nights of a real model page nobody; worse weights under its name page once, for good.

    All trials of all nights are in the store, and what could not be verified is said.
    """
    variables = {
        **bucket.variables,
        "SLACK_BOT_TOKEN": TOKEN,
        "SMALL_MODEL_KEY": "any-key-will-do",
        "WATCHKEEPER_SLACK_URL": slack.base_url,
    }
    worse = worse_weights(tmp_path / "worse.gguf")
    with Gateway().running() as address:
        root = _write(tmp_path / "project", address.url, bucket.url())
        nights = Nights(root, address, variables)
        good = [await nights.night(number, shipped_weights()) for number in range(2)]
        told_by_then = len(slack.calls)
        third = await nights.night(2, worse)
        pages = slack.messages["C0KNOWLEDGE"].copy()
        fourth = await nights.night(3, worse)

    assert [(one.exit_code, _verdict(one).reason) for one in good] == [(0, "no_history")] * 2
    assert told_by_then == 0

    verdict = _verdict(third)
    assert (third.exit_code, verdict.state) == (1, "regressed")
    (fall,) = verdict.regressions
    assert (fall.metric, fall.level) == ("pass_rate", "suite")
    measured = fall.confirmed
    assert measured is not None
    assert -1 <= measured.low < measured.estimate < measured.high < -0.2
    assert measured.candidate_trial_count == BATCHES * len(QUESTIONS)

    (page,) = pages
    assert page["text"].startswith("<@U0OWNER77> ")
    shown = json.dumps(page["blocks"], ensure_ascii=False)
    points = [
        f"{'−' if value < 0 else '+'}{abs(round(100 * value))}"
        for value in (measured.estimate, measured.low, measured.high)
    ]
    assert "<@U0OWNER77>" in shown
    assert f"pass rate {points[0]} points ({points[1]} to {points[2]})" in shown
    assert "provider that changed what it serves under the same name" in shown

    assert (fourth.exit_code, _verdict(fourth).state) == (1, "regressed")
    assert slack.messages == {"C0KNOWLEDGE": pages}
    assert len(slack.calls_of("chat.postMessage")) == 1

    counts = "slot_at::date::varchar, count(*), count(distinct trial_id)"
    assert nights.rows(
        f"select {counts} from trials where purpose = 'nightly' group by 1 order by 1"
    ) == [(f"2026-03-0{day}", 60, 60) for day in (2, 3, 4, 5)]
    assert nights.rows(
        f"select {counts} from trials where purpose = 'confirm' group by 1 order by 1"
    ) == [(f"2026-03-0{day}", 40, 40) for day in (4, 5)]
    rates = nights.rows("select pass_rate from runs where purpose = 'nightly' order by slot_at")
    assert min(rates[:2]) > (0.8,)
    assert max(rates[2:]) < (0.5,)
    assert nights.rows(
        "select distinct requested_model, served_model, status, round_count from trials"
    ) == [(ALIAS, ALIAS, "completed", 1)]
    ((quickest_ms, timed_count),) = nights.rows(
        "select min(latency_ms), count(latency_ms) from trials"
    )
    assert quickest_ms > 5
    assert timed_count == 4 * 60 + 2 * 40
    assert nights.rows("select distinct resolved_model from runs") == [(None,)]
    assert nights.rows("select state, night_count, page_count from incidents") == [("open", 2, 1)]
    unverified = (
        f"served model seen only in responses ({ALIAS}): "
        "identity unverifiable: the server does not list the model"
    )
    for night in (*good, third, fourth):
        assert unverified in _verdict(night).notes
    assert [change.what for change in verdict.changes] == []
