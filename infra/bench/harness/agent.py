"""The agent that every Python peer is given: the SDK's calls in a loop, and one tool.

It is told what to do by the job file that BENCH_JOB names.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic

JOB: dict[str, Any] = json.loads(Path(os.environ["BENCH_JOB"]).read_text())
QUESTIONS: list[str] = JOB["questions"]
TOOLS: list[Any] = [
    {
        "name": "lookup",
        "description": "Looks something up.",
        "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}},
    }
]
_OFFERED: dict[str, Any] = {"tools": TOOLS} if JOB["rounds"] > 1 else {}

client = AsyncAnthropic(api_key="bench", base_url=JOB["url"])


async def lookup(id: int) -> str:  # noqa: A002 - the model's word for it
    """What the tool finds."""
    return f"found {id}"


async def ask(question: str) -> str:
    """The agent's answer, after as many rounds of tool calls as the model wants."""
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        reply = await client.messages.create(
            model=JOB["model"], max_tokens=1024, messages=messages, **_OFFERED
        )
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": await lookup(**call.input)}
            for call in calls
        ]
        messages += [
            {"role": "assistant", "content": reply.content},
            {"role": "user", "content": results},
        ]
