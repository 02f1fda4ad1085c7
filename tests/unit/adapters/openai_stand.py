"""An endpoint of the kind ``openai`` at the scripted server, for the tests beside it."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.servers import openai_replies as api
from tests.servers.loopback import LoopbackServer, Reply, Request
from tests.servers.openai_replies import Answer
from tests.servers.openai_server import openai_server
from watchkeeper.adapters.openai import Settings, connect
from watchkeeper.clock import SimulatedClock
from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Endpoint, Harness
from watchkeeper.domain.ports import Adapter, Session, Step, ToolSpec, TrialBrief
from watchkeeper.domain.trajectory import ToolCall, call_status
from watchkeeper.errors import EndpointFault

KEY = "sk-proj-0123456789abcdefghijkl"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FIND = ToolSpec("find", "Finds files.", {"type": "object", "properties": {"q": {}}})
NOTE = ToolSpec("note", "", {"type": "object"}, is_silent=True)
APIS = ("chat", "responses")
BARE = Harness()


def endpoint(url: str | None, harness: Harness = BARE, **settings: Any) -> Endpoint:
    """An endpoint as the loader makes it."""
    model = settings.pop("model", api.DEFAULT_MODEL)
    return Endpoint(
        name="support",
        kind="openai",
        owner="support",
        env="production",
        requested_model=model,
        suites=(),
        settings=Settings(model=model, api_key="env:SOME_KEY", base_url=url, **settings),
        config_hash="",
        harness=harness,
        location="config/endpoints.yaml:7",
    )


@asynccontextmanager
async def connected(url: str, harness: Harness = BARE, **settings: Any) -> AsyncIterator[Adapter]:
    """The adapter of an endpoint at ``url``, closed at the end."""
    given = endpoint(f"{url}/v1", harness, **settings)
    adapter = connect(given, {"SOME_KEY": KEY}, Path("/"), SimulatedClock(NOW))
    try:
        yield adapter
    finally:
        await adapter.close()


def brief(*tools: ToolSpec, turn: UserTurn | None = None) -> TrialBrief:
    """A trial that offers some tools."""
    case = Case("case", "category", (turn or UserTurn("hello"),), ())
    return TrialBrief(case, TrialLimits(), tools, seed=1, trial_id="t1")


async def converse(server: LoopbackServer, *observations: Any, **settings: Any) -> list[Step]:
    """The steps of one conversation about some observations."""
    async with connected(server.url, **settings) as adapter:
        session: Session = await adapter.open(brief(FIND, NOTE))
        return [await session.step(observation) for observation in observations]


async def first_fault(reply: Reply | Answer, **settings: Any) -> EndpointFault:
    """What the first step raises; checks that it can be given again and no key is shown."""
    with openai_server([reply, Answer("recovered")]) as server:
        async with connected(server.url, **settings) as adapter:
            session = await adapter.open(brief())
            with pytest.raises(EndpointFault) as caught:
                await session.step(UserTurn("hello"))
            assert len(server.answer_calls) == 1
            step = await session.step(UserTurn("hello"))
        assert step.answer == "recovered"
        assert server.answer_calls[-1].said == [{"role": "user", "content": "hello"}]
    fault = caught.value
    assert KEY not in "".join(traceback.format_exception(fault))
    assert len(str(fault)) <= 500
    assert str(fault).isprintable()
    assert "endpoint 'support'" in str(fault)
    return fault


def answered(call: ToolCall, result: str, *, is_error: bool = False) -> ToolCall:
    """The call with its result, as the toolbox gives it."""
    status = call_status(result, is_error=is_error)
    return replace(call, result=result, status=status, is_error=is_error)


def verbatim(body: bytes) -> Reply:
    """A body as it stands, which is said to be JSON."""
    return Reply(body=body, headers={"content-type": "application/json"})


class Always(LoopbackServer):
    """A server that knows one reply, and what it was asked."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply
        self.requests: list[Request] = []

    def answer(self, request: Request) -> Reply:
        """The reply, whatever is asked."""
        with self.lock:
            self.requests.append(request)
        return self.reply
