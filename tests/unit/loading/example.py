"""A project that uses nearly every key, as the text of its files, and what is wrong with a copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from watchkeeper.errors import EXIT_USAGE, ConfigError, Fault
from watchkeeper.loading.project import load_project

WATCHKEEPER = "config/watchkeeper.yaml"
OWNERS = "config/owners.yaml"
PRICES = "config/prices.yaml"
ENDPOINTS = "config/endpoints.yaml"
SUITE = "config/suites/basic.yaml"
SCRIPT = "config/scripts/agent.yaml"

FILES: Mapping[str, str] = {
    WATCHKEEPER: """\
store: file:./store
timezone: Europe/Berlin
schedule:
  nightly: "30 2 * * *"
  finish_by: "06:30"
platform_owner: platform
budget_usd:
  night: 40
  month: 800
slack:
  token: env:SLACK_BOT_TOKEN
limits:
  confirm_delay_minutes: 30
  shard_trials: 50
statistics:
  pass_floor: 0.03
  batch_count: 4
""",
    OWNERS: """\
team:
  slack_channel: C0123
  mention: "<@U77>"
platform:
  slack_channel: C0456
  mention: <!subteam^S99>
""",
    PRICES: """\
source: a list, read on 2026-01-01
models:
  model-v1:
    - valid_from: "2026-01-01"
      input: 3
      output: 15
      cache_read_factor: 0.1
    - valid_from: "2026-02-01"
      bands:
        - input: 3
          output: 15
          up_to_input_tokens: 200000
        - input: 6
          output: 22.5
""",
    ENDPOINTS: """\
sources: [file]
endpoints:
  agent:
    kind: scripted
    model: alias
    script: config/scripts/agent.yaml
    owner: team
    env: staging
    harness:
      system: prompts/agent.md
      tools: example_tools:TOOLS
      revision:
        version: "1.0"
    suites: [basic]
    allow_side_effects: sandbox
    concurrency: 4
    call_retries: 2
    work_pool: default
    run_budget_usd: 10
    run_token_cap: 100000
  support:
    kind: anthropic
    model: claude-sonnet-5-5
    api_key: env:ANTHROPIC_API_KEY
    base_url: http://127.0.0.1:1
    max_tokens: 100
    request_seconds: 5
    owner: team
""",
    SUITE: """\
suite: basic
claim: Answers yes.
owner: team
trials: 2
trial_limits:
  rounds: 10
  seconds: 60
  tokens: 5000
  cost_usd: 0.5
categories:
  facts:
    gate: 0.85
    owner: platform
    action: page
cases:
  - id: one
    category: facts
    dimension: process
    source: ticket-1
    cluster: c1
    weight: 2
    tags:
      language: es-AR
    input: first question
    expect:
      must_mention: "yes"
      calls:
        - tool: find_files
          args: {pattern: "*"}
      at_most: {find_files: 5}
  - id: two
    category: facts
    side_effects: sandbox
    turns:
      - second question
      - and then
    tools:
      lookup:
        returns: {ok: true}
        description: Looks up.
        input_schema: {type: object}
        silent: false
      flaky:
        sequence:
          - raises: boom
          - returns: fine
    expect:
      calls: [lookup]
      avoids:
        - tool: edit_file
          severity: critical
""",
    SCRIPT: """\
served:
  - model: model-v1
  - model: model-v2
    since: "2026-03-01T00:00:00Z"
tools: [edit_file]
known:
  one: indeed
behaviours:
  - match:
      cases: [one]
      tags:
        language: es-AR
      served: [model-v1]
    rounds:
      - calls:
          - tool: find_files
            args: {pattern: "*"}
            result: a.txt
        times:
          "1": 0.5
          "2": 0.5
    endings:
      - text: "yes"
        weight: 1
    faults:
      - kind: overloaded
        chance: 0.1
        retry_after_s: 1
    usage:
      input: 10
      output: 5
      spread: 0.2
    latency_ms: 5
  - endings:
      - text: "yes"
""",
}


def write(folder: Path, files: Mapping[str, str | bytes] = FILES) -> Path:
    """The files in a folder, with the prompt and the tools that they name."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "prompts").mkdir(exist_ok=True)
    (folder / "prompts/agent.md").write_text("Be brief.")
    (folder / "example_tools.py").write_text("def ping() -> str:\n    return ''\nTOOLS = [ping]\n")
    return folder


def faults_of(folder: Path) -> tuple[Fault, ...]:
    """What is wrong with a project; every fault names a line that its file has."""
    with pytest.raises(ConfigError) as caught:
        load_project(folder)
    assert caught.value.exit_code == EXIT_USAGE
    assert str(caught.value).splitlines() == [str(fault) for fault in caught.value.faults]
    for fault in caught.value.faults:
        assert_stands_in(folder, fault)
    return caught.value.faults


def assert_stands_in(folder: Path, fault: Fault) -> None:
    """The fault is one printable line about a line that exists."""
    assert fault.message.isprintable(), fault
    path = folder / fault.file
    count = path.read_bytes().count(b"\n") + 1 if path.is_file() else 1
    assert 1 <= fault.line <= count, fault
