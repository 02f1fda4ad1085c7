"""One small file of every format: the same trial, which looks, guesses a path, and answers.

Three rounds, two calls: ``look`` brings something, ``read`` a path that does not exist.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

MISSING = "Error: file b.txt not found"


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call as OpenAI's interface writes it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def asks(*calls: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """An assistant's message that calls."""
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


def result(call_id: str, text: Any, **more: Any) -> dict[str, Any]:
    """A tool's message."""
    return {"role": "tool", "tool_call_id": call_id, "content": text, **more}


USER = {"role": "user", "content": "find it"}
OPENAI = [
    USER,
    asks(call("c1", "look")),
    result("c1", "a.txt"),
    asks(call("c2", "read", path="b.txt")),
    result("c2", MISSING),
    {"role": "assistant", "content": "yes"},
]


def used(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A response of Anthropic's interface that calls."""
    block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    return {"role": "assistant", "content": [block]}


def gave(*results: tuple[str, Any, bool]) -> dict[str, Any]:
    """The user's turn that tells of results."""
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
        for call_id, content, is_error in results
    ]
    return {"role": "user", "content": blocks}


ANTHROPIC = [
    USER,
    used("t1", "look"),
    gave(("t1", [{"type": "text", "text": "a.txt"}], False)),
    used("t2", "read", path="b.txt"),
    gave(("t2", "File does not exist.", True)),
    {"role": "assistant", "content": [{"type": "text", "text": "yes"}]},
]
TAU_BENCH = [
    {
        "task_id": 7,
        "trial": 1,
        "reward": 1.0,
        "info": {"user_cost": 0.01, "reward_info": {"reward": 1.0}},
        "traj": OPENAI,
    }
]
SWE_AGENT = {
    "environment": "swe_main",
    "trajectory": [
        {"action": "look .", "observation": "a.txt", "response": "I look."},
        {"action": "read b.txt\n", "observation": "File b.txt not found", "response": "I read."},
        {"action": "", "observation": "", "response": "yes"},
    ],
    "history": [],
    "info": {
        "exit_status": "submitted",
        "submission": "yes",
        "model_stats": {
            "instance_cost": 0.5,
            "tokens_sent": 100,
            "tokens_received": 10,
            "api_calls": 3,
        },
    },
}


def answered(
    *calls: dict[str, Any], text: str = "", stop: str = "tool_calls", **usage: Any
) -> dict[str, Any]:
    """A model event of Inspect."""
    message = {"role": "assistant", "content": text, "source": "generate", "tool_calls": [*calls]}
    return {
        "event": "model",
        "model": "openai/alias",
        "timestamp": "2026-03-01T10:00:00+00:00",
        "working_time": 0.5,
        "output": {
            "model": "model-v1",
            "choices": [{"message": message, "stop_reason": stop}],
            "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12, **usage},
        },
    }


def inspect_call(call_id: str, name: str) -> dict[str, Any]:
    """A tool call as Inspect writes it."""
    return {"id": call_id, "function": name, "arguments": {}}


def tool_event(call_id: str, name: str, text: Any, **more: Any) -> dict[str, Any]:
    """A tool event of Inspect."""
    return {"event": "tool", "id": call_id, "function": name, "result": text, **more}


def sample(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A sample of Inspect with these events."""
    return {
        "id": "s1",
        "epoch": 2,
        "input": "find it",
        "target": "",
        "messages": [],
        "output": {"choices": [{"message": {"role": "assistant", "content": "yes"}}]},
        "scores": {"match": {"value": "C"}},
        "events": list(events),
        "attachments": {},
        **more,
    }


SAMPLE = sample(
    answered(inspect_call("c1", "look")),
    tool_event("c1", "look", "a.txt"),
    answered(inspect_call("c2", "read")),
    tool_event("c2", "read", "", error={"type": "file_not_found", "message": "b.txt"}),
    answered(text="yes", stop="stop"),
)
SPEC = {"model": "openai/alias", "created": "2026-03-01T09:00:00+00:00", "task": "t"}


def log(*samples: dict[str, Any]) -> dict[str, Any]:
    """A log of Inspect as one JSON object."""
    return {"version": 2, "status": "success", "eval": SPEC, "samples": list(samples)}


def write(path: Path, value: Any) -> Path:
    """A file with one JSON value."""
    path.write_text(json.dumps(value))
    return path


def write_lines(path: Path, *values: Any) -> Path:
    """A file with a JSON value a line."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def write_eval(path: Path, *samples: dict[str, Any]) -> Path:
    """A log of Inspect as a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "eval": SPEC}))
        for one in samples:
            name = f"samples/{one['id']}_epoch_{one['epoch']}.json"
            archive.writestr(name, json.dumps(one))
    return path


def small_files(folder: Path) -> dict[str, list[Path]]:
    """Every form of every format, by kind."""
    return {
        "inspect": [
            write(folder / "inspect.json", log(SAMPLE)),
            write_eval(folder / "inspect.eval", SAMPLE),
        ],
        "messages": [
            write(folder / "openai.json", OPENAI),
            write(folder / "anthropic.json", {"messages": ANTHROPIC}),
            write(folder / "several.json", [{"id": "a", "messages": OPENAI}]),
            write(folder / "lists.json", [ANTHROPIC]),
            write_lines(folder / "talk.jsonl", *OPENAI),
            write_lines(folder / "talks.jsonl", {"messages": ANTHROPIC}),
        ],
        "swe_agent": [write(folder / "one.traj", SWE_AGENT)],
        "tau_bench": [write(folder / "tau.json", TAU_BENCH)],
    }
