"""An adapter of kind http on a running agent, for the tests of it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers.agent_server import (
    AgentServer,
    Script,
    agent_server,
)
from tests.servers.loopback import Reply
from watchkeeper.adapters.http import Settings, connect
from watchkeeper.clock import SystemClock
from watchkeeper.domain.case import Case, ScriptedResult, ScriptedTool, TrialLimits
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Adapter, Step, ToolSpec, TrialBrief
from watchkeeper.errors import EndpointFault

TOKEN = "agent-token-0123456789"
BEARER = {"Authorization": "Bearer env:AGENT_TOKEN"}
ASK = UserTurn("find it")
LOOK = ScriptedTool("look", (ScriptedResult("a.txt"), ScriptedResult("gone", is_error=True)))


def endpoint(url: str, **settings: Any) -> Endpoint:
    """An endpoint as the loader makes it."""
    given = Settings.model_validate({"url": url, **settings})
    return Endpoint("support", "http", "team", "test", given.model, (), given, "hash")


@asynccontextmanager
async def agent(
    script: Script | Reply, path: str = "/ask", **settings: Any
) -> AsyncIterator[tuple[Adapter, AgentServer]]:
    """The adapter on a running agent; ``URL`` in a setting is the agent's address."""
    with agent_server(script) as server:
        given = json.loads(json.dumps(settings).replace("URL", server.url))
        one = endpoint(f"{server.url}{path}", **given)
        adapter = connect(one, {"AGENT_TOKEN": TOKEN}, Path(), SystemClock())
        try:
            yield adapter, server
        finally:
            await adapter.close()


def brief(**changes: Any) -> TrialBrief:
    """A trial."""
    case = Case("late-07", "facts", (ASK,), (), tools=(LOOK,))
    tools = (ToolSpec("look", "Looks.", {"type": "object"}),)
    return replace(TrialBrief(case, TrialLimits(), tools, 11, "run.late-07.0"), **changes)


async def asked(script: Script | Reply, turn: UserTurn = ASK, **settings: Any) -> Step:
    """The step that one answer leads to."""
    async with agent(script, **settings) as (adapter, _):
        session = await adapter.open(brief())
        return await session.step(turn)


async def refused(script: Script | Reply, **settings: Any) -> EndpointFault:
    """The fault that one answer leads to."""
    with pytest.raises(EndpointFault) as caught:
        await asked(script, **settings)
    return caught.value
