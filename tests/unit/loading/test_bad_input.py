"""Every fault of a project's files is found at once: where, what stands there, what should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.loading.example import (
    ENDPOINTS,
    FILES,
    OWNERS,
    PRICES,
    SCRIPT,
    SUITE,
    WATCHKEEPER,
    faults_of,
    write,
)
from watchkeeper.errors import Fault
from watchkeeper.loading.project import load_project


@dataclass(frozen=True)
class Bad:
    """One edit of the example, and the one fault that it makes.

    The fault stands on the line that holds ``at``: by default the first line of what is new.
    ``told_in`` is the file that the fault is in, where it is not the edited one.
    """

    file: str
    old: str
    new: str
    says: tuple[str, ...]
    at: str | None = None
    told_in: str | None = None


def edited(files: Mapping[str, str], bad: Bad) -> dict[str, str]:
    """The files after the edit; what is replaced stands there once."""
    text = files[bad.file]
    assert text.count(bad.old) == 1, f"{text.count(bad.old)} times: {bad.old}"
    return {**files, bad.file: text.replace(bad.old, bad.new)}


def is_said(bad: Bad, fault: Fault, files: Mapping[str, str]) -> bool:
    """Whether a fault is the one that an edit makes, on the line where it was made."""
    wanted = bad.new.splitlines()[0].strip() if bad.at is None else bad.at
    file = bad.told_in or bad.file
    lines = [number for number, one in enumerate(files[file].split("\n"), 1) if wanted in one]
    assert len(lines) == 1, f"'{wanted}' stands on the lines {lines} of {file}"
    is_there = (fault.file, fault.line) == (file, lines[0])
    return is_there and all(text in fault.message for text in bad.says)


def typo(file: str, right: str, wrong: str, hint: str | None = None) -> Bad:
    """A key that is mistyped: the fault names it, and the key that was probably meant."""
    known = right.strip("- \n").split(":")[0]
    found = wrong.strip("- \n").split(":")[0]
    meant = f"did you mean '{hint or known}'?"
    return Bad(file, right, wrong, (f"unknown key '{found}'", meant), at=wrong.strip("\n"))


UNKNOWN_KEYS = {
    "project": typo(WATCHKEEPER, "budget_usd:", "budget_us:"),
    "schedule": typo(WATCHKEEPER, "  finish_by:", "  finsh_by:"),
    "budget": typo(WATCHKEEPER, "  month:", "  mnth:"),
    "limits": typo(WATCHKEEPER, "  shard_trials:", "  shard_trial:"),
    "statistics": typo(WATCHKEEPER, "  batch_count:", "  batch_cuont:"),
    "owner": typo(OWNERS, "  slack_channel: C0123", "  slack_chanel: C0123"),
    "price": typo(PRICES, "      cache_read_factor:", "      cache_red_factor:"),
    "band": typo(PRICES, "          up_to_input_tokens:", "          upto_input_tokens:"),
    "endpoints": typo(ENDPOINTS, "sources:", "source:"),
    "endpoint": typo(ENDPOINTS, "    concurrency:", "    concurency:"),
    "endpoint of a kind": typo(ENDPOINTS, "    max_tokens:", "    max_token:"),
    "harness": typo(ENDPOINTS, "      tools: example", "      tool: example"),
    "revision": typo(ENDPOINTS, "        version:", "        versoin:"),
    "suite": typo(SUITE, "trial_limits:", "trail_limits:"),
    "trial limits": typo(SUITE, "  rounds: 10", "  round: 10"),
    "category": typo(SUITE, "    owner: platform", "    onwer: platform"),
    "case": typo(SUITE, "    cluster: c1", "    clustre: c1"),
    "scripted tool": typo(SUITE, "        silent:", "        slient:"),
    "script": typo(SCRIPT, "known:", "knwon:"),
    "match": typo(SCRIPT, "      served: [model-v1]", "      srved: [model-v1]"),
    "scripted round": typo(SCRIPT, "        times:", "        time:"),
    "scripted call": typo(SCRIPT, "            result:", "            results:"),
    "scripted ending": typo(SCRIPT, "        weight:", "        wieght:"),
    "scripted fault": typo(SCRIPT, "        chance:", "        chanec:"),
    "scripted usage": typo(SCRIPT, "      spread:", "      spraed:"),
    "behaviour": typo(SCRIPT, "    latency_ms:", "    latencyms:"),
}

UNKNOWN_NAMES = {
    "grader": Bad(
        SUITE,
        "must_mention:",
        "must_mentoin:",
        ("case 'one' asks for grader 'must_mentoin'", "did you mean 'must_mention'?", "known: "),
    ),
    "key of a grader": Bad(
        SUITE,
        "          severity: critical",
        "          severty: critical",
        ("case 'two'", "avoids", "severty"),
    ),
    "tool of a grader": Bad(
        SUITE,
        "calls: [lookup]",
        "calls: [lokup]",
        ("case 'two': calls: unknown tool 'lokup'", "did you mean 'lookup'?", "offers it"),
    ),
    "category": Bad(
        SUITE,
        "    category: facts\n    side_effects",
        "    category: fatcs\n    side_effects",
        ("case 'two': unknown category 'fatcs'", "did you mean 'facts'?"),
    ),
    "owner of a suite": Bad(
        SUITE, "owner: team", "owner: taem", ("unknown owner 'taem'", "did you mean 'team'?")
    ),
    "owner of a category": Bad(
        SUITE,
        "    owner: platform",
        "    owner: platfrom",
        ("categories.facts.owner: unknown owner 'platfrom'", "did you mean 'platform'?"),
    ),
    "owner of an endpoint": Bad(
        ENDPOINTS,
        "    owner: team\n    env",
        "    owner: tema\n    env",
        ("endpoint 'agent': unknown owner 'tema'", "did you mean 'team'?"),
    ),
    "platform owner": Bad(
        WATCHKEEPER,
        "platform_owner: platform",
        "platform_owner: plattform",
        ("platform_owner: 'plattform' is not in config/owners.yaml", "did you mean 'platform'?"),
    ),
    "suite of an endpoint": Bad(
        ENDPOINTS,
        "suites: [basic]",
        "suites: [basics]",
        ("endpoint 'agent' names suite 'basics'", "did you mean 'basic'?"),
    ),
    "kind": Bad(
        ENDPOINTS,
        "kind: anthropic",
        "kind: antropic",
        ("endpoint 'support': unknown kind 'antropic'", "did you mean 'anthropic'?"),
    ),
    "time zone": Bad(
        WATCHKEEPER,
        "timezone: Europe/Berlin",
        "timezone: Europe/Berlim",
        ("timezone: found the text 'Europe/Berlim'", "did you mean 'Europe/Berlin'?"),
    ),
    "time zone that is a folder": Bad(
        WATCHKEEPER,
        "timezone: Europe/Berlin",
        "timezone: Europe",
        ("timezone: found the text 'Europe'", "expected the name of a time zone"),
    ),
    "time zone that is a path": Bad(
        WATCHKEEPER, "timezone: Europe/Berlin", "timezone: /etc/passwd", ("found the text '/etc/",)
    ),
    "action": Bad(
        SUITE,
        "    action: page",
        "    action: shout",
        ("categories.facts.action: found the text 'shout'", "'block', 'page' or 'report'"),
    ),
    "dimension": Bad(
        SUITE, "    dimension: process", "    dimension: proces", ("'proces'", "'process'")
    ),
    "fault of a script": Bad(
        SCRIPT, "      - kind: overloaded", "      - kind: overload", ("'overload'", "'overloaded'")
    ),
}

TWICE = {
    "case": Bad(
        SUITE,
        "  - id: two",
        "  - id: one # again",
        ("case 'one' stands also at config/suites/basic.yaml:16", "unique"),
    ),
    "key": Bad(
        SUITE, "trials: 2", "trials: 2\ntrials: 3", ("key 'trials' stands twice", "line 4"), "s: 3"
    ),
    "category": Bad(
        SUITE,
        "cases:\n  - id: one",
        "  facts: {gate: 1, action: page}\ncases:\n  - id: one",
        ("key 'facts' stands twice; the first is on line 11",),
    ),
    "endpoint": Bad(
        ENDPOINTS, "  support:", "  agent: # again", ("key 'agent' stands twice", "is on line 3")
    ),
    "suite of an endpoint": Bad(
        ENDPOINTS, "suites: [basic]", "suites: [basic, basic]", ("a suite is named twice",)
    ),
    "assertion": Bad(
        SUITE,
        "calls: [lookup]",
        "calls: [lookup, lookup]",
        ("case 'two': calls: calls lookup stands here twice",),
    ),
    "price of a day": Bad(
        PRICES,
        '"2026-02-01"',
        '"2026-01-01" # again',
        ("model-v1 has two prices from 2026-01-01 on",),
        at="# again",
    ),
}

GATES = {
    "above one": ("1.2", "found 1.2; expected", "1"),
    "a percentage in quotes": ('"85"', "found the text '85'; expected a number"),
    "negative": ("-0.1", "found -0.1; expected at least 0"),
    "true": ("true", "found true; expected a number"),
    "nothing": ("null", "found nothing; expected a number"),
    "not a number": (".nan", "found the text '.nan'; expected a number"),
    "infinite": (".inf", "found the text '.inf'; expected a number"),
    "too large for a float": ("1e999", "found inf; expected"),
    "a list": ("[0.85]", "found a list of 1; expected a number"),
    "a mapping": ("{min: 0.85}", "found a mapping with 1 keys; expected a number"),
}
BAD_GATES = {
    name: Bad(SUITE, "    gate: 0.85", f"    gate: {value}", ("categories.facts.gate: ", *says))
    for name, (value, *says) in GATES.items()
}

CASE_IDS = {
    "slash": ("a/b", "found the text 'a/b'"),
    "line break": ('"a\\nb"', r"found the text 'a\nb'"),
    "too long": ("x" * 81, "at most 80 characters"),
    "umlaut": ("größe", "found the text 'größe'"),
    "another alphabet": ("случай", "letters, digits"),
    "hidden": ('"a\\u200bb"', r"a\u200bb"),
    "leading dot": (".hidden", "beginning with a letter or a digit"),
    "empty": ('""', "found the text ''"),
    "a number": ("7", "found 7; expected text (put it in quotes)"),
    "a boolean": ("true", "found true; expected text"),
}
BAD_IDS = {
    name: Bad(SUITE, "- id: two", f"- id: {value}", ("id: ", says), at=f"- id: {value}")
    for name, (value, says) in CASE_IDS.items()
}

SHAPES = {
    "negative trials": Bad(SUITE, "trials: 2", "trials: -2", ("trials: found -2", "at least 1")),
    "no trials": Bad(SUITE, "trials: 2", "trials: 0", ("trials: found 0", "at least 1")),
    "half a trial": Bad(SUITE, "trials: 2", "trials: 2.5", ("found 2.5; expected a whole number",)),
    "trials as text": Bad(SUITE, "trials: 2", 'trials: "2"', ("'2'; expected a whole number",)),
    "no rounds": Bad(SUITE, "  rounds: 10", "  rounds: 0", ("trial_limits.rounds: found 0",)),
    "no time": Bad(SUITE, "  seconds: 60", "  seconds: 0", ("seconds: found 0", "more than 0")),
    "no weight": Bad(SUITE, "    weight: 2", "    weight: 0", ("weight: found 0", "more than 0")),
    "a tag that is no text": Bad(
        SUITE, "language: es-AR", "language: 7", ("tags.language: found 7; expected text",)
    ),
    "no categories": Bad(
        SUITE,
        "categories:\n  facts:\n    gate: 0.85\n    owner: platform\n    action: page",
        "categories: []",
        ("categories: found a list of 0; expected a mapping of keys",),
    ),
    "a case that is text": Bad(
        SUITE, "cases:\n", "cases:\n  - just ask\n", ("found the text 'just ask'",), "- just ask"
    ),
    "a claim that is missing": Bad(
        SUITE,
        "claim: Answers yes.\n",
        "",
        ("key 'claim' is missing", "what a pass is evidence for"),
        at="suite: basic",
    ),
    "a case without input": Bad(
        SUITE,
        "    input: first question\n",
        "",
        ("case 'one': expected either 'input' or 'turns'",),
        at="- id: one",
    ),
    "a case with input and turns": Bad(
        SUITE,
        "    input: first question\n",
        "    input: first question\n    turns: [again]\n",
        ("case 'one': expected either 'input' or 'turns'",),
        at="- id: one",
    ),
    "a case that expects nothing": Bad(
        SUITE,
        "    expect:\n      calls: [lookup]\n      avoids:\n        - tool: edit_file\n"
        "          severity: critical\n",
        "    expect: {}\n",
        ("case 'two' expects nothing", "always pass", "must_mention"),
    ),
    "an expectation that is text": Bad(
        SUITE,
        "    expect:\n      calls: [lookup]\n      avoids:\n        - tool: edit_file\n"
        "          severity: critical\n",
        "    expect: be nice\n",
        ("expect: found the text 'be nice'; expected a mapping of keys",),
    ),
    "a category without cases": Bad(
        SUITE,
        "cases:\n  - id: one",
        "  tone: {gate: 1, action: page}\ncases:\n  - id: one",
        ("category 'tone' has a gate but no case", "Add a case or remove"),
    ),
    "a scripted tool with two answers": Bad(
        SUITE,
        "        returns: {ok: true}",
        "        returns: {ok: true}\n        raises: boom",
        ("tool 'lookup': expected exactly one of 'returns' and 'raises'",),
        at="      lookup:",
    ),
    "a scripted tool with no answer": Bad(
        SUITE,
        "          - raises: boom",
        "          - {}",
        ("tool 'flaky': expected exactly one of 'returns' and 'raises'",),
    ),
    "a scripted tool with an answer and a sequence": Bad(
        SUITE,
        "        sequence:",
        "        returns: x\n        sequence:",
        ("tool 'flaky': expected either 'sequence' or one of",),
        at="      flaky:",
    ),
    "a channel's name": Bad(
        OWNERS, "slack_channel: C0123", "slack_channel: '#payments'", ("'#payments'", "channel id")
    ),
    "a channel in lower case": Bad(
        OWNERS, "slack_channel: C0123", "slack_channel: c0123", ("slack_channel", "'c0123'")
    ),
    "a mention that is a name": Bad(
        OWNERS, 'mention: "<@U77>"', 'mention: "@team"', ("found the text '@team'", "<@U…>")
    ),
    "a mention of everybody": Bad(
        OWNERS, 'mention: "<@U77>"', 'mention: "<!channel>"', ("'<!channel>'", "<!subteam^S…>")
    ),
    "no channel though Slack is set up": Bad(
        OWNERS,
        "  slack_channel: C0456\n",
        "",
        ("slack is configured, but owner 'platform' has no slack_channel",),
        at="slack:",
        told_in=WATCHKEEPER,
    ),
    "an owner's name with a space": Bad(
        OWNERS,
        "team:\n",
        "te am: {slack_channel: C0789}\nteam:\n",
        ("owner 'te am'", "letters, digits"),
    ),
    "six fields of cron": Bad(
        WATCHKEEPER,
        'nightly: "30 2 * * *"',
        'nightly: "0 30 2 * * *"',
        ("schedule.nightly: found the text '0 30 2 * * *'", "five fields of cron"),
    ),
    "an hour that is none": Bad(
        WATCHKEEPER, 'finish_by: "06:30"', 'finish_by: "24:30"', ("finish_by: found the text '24:",)
    ),
    "a time that is no text": Bad(
        WATCHKEEPER,
        'finish_by: "06:30"',
        "finish_by: 630",
        ("finish_by: found 630; expected text",),
    ),
    "a negative budget": Bad(
        WATCHKEEPER, "  night: 40", "  night: -1", ("budget_usd.night: found -1", "at least 0")
    ),
    "a budget without end": Bad(
        WATCHKEEPER, "  night: 40", "  night: 1e999", ("budget_usd.night: found inf",)
    ),
    "a section that is a list": Bad(
        WATCHKEEPER,
        "limits:\n  confirm_delay_minutes: 30\n  shard_trials: 50",
        "limits: [30, 50]",
        ("limits: found a list of 2; expected a mapping of keys",),
    ),
    "a day that is none": Bad(
        PRICES, '"2026-02-01"', '"2026-02-31"', ("valid_from: '2026-02-31' is no date",)
    ),
    "a day written otherwise": Bad(
        PRICES, '"2026-02-01"', '"1.2.2026"', ("valid_from: found the text '1.2.2026'",)
    ),
    "a price that says both": Bad(
        PRICES,
        '    - valid_from: "2026-02-01"\n',
        '    - valid_from: "2026-02-01"\n      input: 1\n      output: 2\n',
        ("expected either input and output, or bands; not both",),
    ),
    "a price that says a part of both": Bad(
        PRICES,
        '    - valid_from: "2026-02-01"\n',
        '    - valid_from: "2026-02-01"\n      input: 1\n',
        ("expected either input and output, or bands; not both",),
    ),
    "half a price": Bad(
        PRICES,
        "      output: 15\n      cache",
        "      cache",
        ("expected either input and output, or bands",),
        at='- valid_from: "2026-01-01"',
    ),
    "a negative price": Bad(
        PRICES,
        "      input: 3\n      output: 15\n",
        "      input: -3\n      output: 15\n",
        ("input: found -3", "at least 0"),
    ),
    "no price at all": Bad(
        PRICES,
        "  model-v1:\n",
        "  model-v0: []\n  model-v1:\n",
        ("model-v0: expected at least one",),
    ),
    "an open band before the last": Bad(
        PRICES,
        "          up_to_input_tokens: 200000\n",
        "",
        ("every band but the last needs up_to_input_tokens",),
        at='- valid_from: "2026-02-01"',
    ),
    "bands that fall": Bad(
        PRICES,
        "          up_to_input_tokens: 200000\n",
        "          up_to_input_tokens: 200000\n        - input: 4\n          output: 5\n"
        "          up_to_input_tokens: 100000\n",
        ("bands: found up to [200000, 100000]; expected rising limits",),
        at="      bands:",
    ),
    "endpoints that are a list": Bad(
        ENDPOINTS,
        "    owner: team\n    env",
        "    owner: [team]\n    env",
        ("owner: found a list of 1; expected text",),
    ),
    "no callers at once": Bad(
        ENDPOINTS, "concurrency: 4", "concurrency: 0", ("concurrency: found 0", "at least 1")
    ),
    "a key of another kind": Bad(
        ENDPOINTS,
        "    concurrency: 4",
        "    concurrency: 4\n    max_tokens: 5",
        ("unknown key 'max_tokens'", "known:"),
        at="max_tokens: 5",
    ),
    "a kind that is missing": Bad(
        ENDPOINTS, "    kind: anthropic\n", "", ("key 'kind' is missing",), at="  support:"
    ),
    "a script's key that is missing": Bad(
        ENDPOINTS,
        "    script: config/scripts/agent.yaml\n",
        "",
        ("key 'script' is missing",),
        at="  agent:",
    ),
    "an address with a password": Bad(
        ENDPOINTS,
        "base_url: http://127.0.0.1:1",
        "base_url: http://me:hunter2hunter2@127.0.0.1:1",
        ("base_url: ", "without a user, a key or a query"),
    ),
    "a revision that is told twice": Bad(
        ENDPOINTS,
        '        version: "1.0"',
        '        version: "1.0"\n        git: .',
        ("revision: found git, version; expected one of them",),
        at="      revision:",
    ),
    "a pointer without a url": Bad(
        ENDPOINTS,
        '        version: "1.0"',
        '        version: "1.0"\n        pointer: /sha',
        ("revision: pointer and headers belong to url",),
        at="      revision:",
    ),
    "a revision from another machine without encryption": Bad(
        ENDPOINTS,
        '        version: "1.0"',
        '        url: "http://registry.internal/sha"',
        ("revision.url: found the text 'http://registry.internal/sha'", "https://host"),
    ),
    "a watch that is no cron": Bad(
        WATCHKEEPER,
        "schedule:\n",
        'schedule:\n  watch: "often"\n',
        ("schedule.watch: found the text 'often'", "five fields of cron"),
        at="watch: ",
    ),
    "a registry without encryption": Bad(
        ENDPOINTS,
        "sources: [file]",
        'sources: [file, "http://registry.internal/agents.json"]',
        ("sources: expected https://host",),
    ),
    "a registry of another kind": Bad(
        ENDPOINTS,
        "sources: [file]",
        "sources: [file, {git: agents}]",
        ("sources: expected 'file', 'https://…'",),
    ),
    "a key in the header of a registry": Bad(
        ENDPOINTS,
        "sources: [file]",
        "sources: [file, {url: 'https://r.internal/a', headers: {X-Key: canary-123}}]",
        ("headers.X-Key: ", "'Bearer env:NAME'"),
    ),
    "a bucket without a key": Bad(
        ENDPOINTS,
        "sources: [file]",
        'sources: [file, "s3://agents"]',
        ("sources: the URL names no object",),
    ),
    "models of a kind that lists none": Bad(
        ENDPOINTS,
        "sources: [file]",
        "sources: [file, {models: {kind: scripted, script: a.yaml, match: 'm*', template: {}}}]",
        ("no list of models can be asked for of the kind 'scripted'",),
    ),
    "a source twice": Bad(
        ENDPOINTS,
        "sources: [file]",
        "sources: [file, file]",
        ("sources: a source is named twice",),
    ),
    "a prompt that is missing": Bad(
        ENDPOINTS,
        "system: prompts/agent.md",
        "system: prompts/absent.md",
        ("harness.system: the file cannot be read: No such file", "prompts/absent.md"),
    ),
    "a prompt that is a folder": Bad(
        ENDPOINTS, "system: prompts/agent.md", "system: prompts", ("it is a folder or a device",)
    ),
    "a prompt that no file can be": Bad(
        ENDPOINTS, "system: prompts/agent.md", 'system: "a\\0b"', ("no file can have this name",)
    ),
    "tools that are missing": Bad(
        ENDPOINTS,
        "example_tools:TOOLS",
        "absent_tools:TOOLS",
        ("harness.tools: module 'absent_tools' does not import", "No module named"),
        at="tools: absent",
    ),
    "tools that are no list": Bad(
        ENDPOINTS,
        "example_tools:TOOLS",
        "example_tools:ping",
        ("'example_tools:ping' is not a list of tools",),
        at="tools: example",
    ),
    "tools that nobody names": Bad(
        ENDPOINTS,
        "example_tools:TOOLS",
        "example_tools:TOOL",
        ("'example_tools:TOOL' is not a list of tools",),
        at="tools: example",
    ),
    "tools without a name": Bad(
        ENDPOINTS,
        "example_tools:TOOLS",
        "example_tools",
        ("package.module:NAME",),
        "tools: example",
    ),
    "a script that is missing": Bad(
        ENDPOINTS,
        "config/scripts/agent.yaml",
        "config/scripts/absent.yaml",
        ("script: the file cannot be read: No such file", "config/scripts/absent.yaml"),
        at="script: config",
    ),
    "a weight below zero": Bad(
        SCRIPT, "        weight: 1", "        weight: -1", ("weight: found -1", "at least 0")
    ),
    "a weight without end": Bad(
        SCRIPT, "        weight: 1", "        weight: 1e999", ("weight: found inf", "at most")
    ),
    "no weight above zero": Bad(
        SCRIPT,
        '    endings:\n      - text: "yes"\n        weight: 1\n',
        '    endings: # none\n      - text: "yes"\n        weight: 0\n',
        ("endings: all weights are 0",),
    ),
    "a model that never answers": Bad(
        SCRIPT,
        '    since: "2026-03-01T00:00:00Z"\n',
        "",
        ("'model-v2' would never answer; give its 'since'",),
        at="- model: model-v2",
    ),
    "a first model that is late": Bad(
        SCRIPT,
        "  - model: model-v1\n",
        '  - model: model-v1\n    since: "2026-01-01T00:00:00Z"\n',
        ("the first model answers from the beginning",),
        at='since: "2026-01',
    ),
    "a model before its time": Bad(
        SCRIPT,
        "tools: [edit_file]",
        '  - model: model-v3\n    since: "2026-02-01T00:00:00Z"\ntools: [edit_file]',
        ("expected a time after that of the model before",),
        at='since: "2026-02',
    ),
    "a time without a zone": Bad(
        SCRIPT,
        'since: "2026-03-01T00:00:00Z"',
        'since: "2026-03-01T00:00:00"',
        ("since: found the text '2026-03-01T00:00:00'", "a time with its zone"),
    ),
    "a time that is none": Bad(
        SCRIPT,
        'since: "2026-03-01T00:00:00Z"',
        'since: "next week"',
        ("since: found the text 'next week'",),
    ),
    "a round that happens half a time": Bad(
        SCRIPT, '          "1": 0.5\n', '          "1.5": 0.5\n', ("times: found '1.5'", "whole")
    ),
    "a round that happens too often": Bad(
        SCRIPT,
        '          "1": 0.5\n',
        '          "100000": 1\n',
        ("times: found '100000'", "1,000"),
    ),
    "a round in other digits": Bad(
        SCRIPT, '          "1": 0.5\n', '          "²": 0.5\n', ("times: found '²'",)
    ),
    "a chance below zero": Bad(
        SCRIPT,
        '          "1": 0.5\n',
        '          "1": -0.5\n',
        ("times", "found -0.5", "at least 0"),
    ),
    "no chance at all": Bad(
        SCRIPT,
        '          "1": 0.5\n          "2": 0.5\n',
        '          "1": 0\n',
        ("times: expected at least one chance above 0",),
        at="        times:",
    ),
    "a chance above one": Bad(
        SCRIPT, "        chance: 0.1", "        chance: 1.5", ("chance: found 1.5", "at most 1")
    ),
    "a behaviour without endings": Bad(
        SCRIPT,
        '    endings:\n      - text: "yes"\n        weight: 1\n',
        "    endings: []\n",
        ("endings: found a list of 0; expected at least 1 entries",),
    ),
}

SURROUNDINGS = {
    "a folder that is not there": Bad(
        SUITE,
        "    cluster: c1\n",
        "    cluster: c1\n    files: fixtures/repo-a\n",
        ("case 'one': files: no such folder: fixtures/repo-a", "from the project folder"),
        at="files: fixtures",
    ),
    "a folder outside the project": Bad(
        SUITE,
        "    cluster: c1\n",
        "    cluster: c1\n    files: ../../etc\n",
        ("case 'one': files: ../../etc lies outside the project folder", "copy it"),
        at="files: ..",
    ),
    "a script that is not there": Bad(
        SUITE,
        "    cluster: c1\n",
        "    cluster: c1\n    setup: [./seed.sh]\n",
        ("case 'one': setup: no such file: ./seed.sh",),
        at="setup: [",
    ),
    "a script that may not be executed": Bad(
        SUITE,
        "    cluster: c1\n",
        "    cluster: c1\n    reset: [./prompts/agent.md]\n",
        ("case 'one': reset: ./prompts/agent.md may not be executed; run 'chmod +x",),
        at="reset: [",
    ),
    "a command with an open quotation": Bad(
        SUITE,
        "    cluster: c1\n",
        '    cluster: c1\n    setup: ["echo \'a"]\n',
        ("case 'one': setup: ", "cannot be split into words: No closing quotation"),
        at="setup: [",
    ),
    "a picture that is not there": Bad(
        SUITE,
        "      - and then",
        "      - [what is it?, {image: a.png}]",
        ("case 'two': image: no such file: a.png",),
        at="{image: a.png}",
    ),
    "a picture that is a text": Bad(
        SUITE,
        "      - and then",
        "      - [what is it?, {image: example_tools.py}]",
        ("case 'two': image: example_tools.py is text/x-python, not an image",),
        at="{image: example_tools.py}",
    ),
    "a file without a media type": Bad(
        SUITE,
        "      - and then",
        "      - [what is it?, {file: config/owners.yaml, media_type: yes}]",
        ("turns.1.1.media_type", "found the text 'yes'"),
        at="media_type: yes",
    ),
    "a part of two kinds": Bad(
        SUITE,
        "      - and then",
        "      - [what is it?, {image: a.png, file: a.png}]",
        ("case 'two': expected either 'image' or 'file'",),
        at="{image: a.png, file",
    ),
    "a simulator that nobody declared": Bad(
        SUITE,
        "    cluster: c1\n",
        "    cluster: c1\n    user: {simulator: grumpy, goal: a refund}\n",
        ("case 'one': unknown simulator 'grumpy'", "config/simulators.yaml"),
        at="user: {simulator",
    ),
}
NOT_YET = {
    "work pools": Bad(
        ENDPOINTS,
        "work_pool: default",
        "work_pool: vpn",
        ("work_pool: found the text 'vpn'", "not supported by"),
    ),
    "working hours": Bad(
        OWNERS,
        "team:\n",
        "team:\n  hours: Mon-Fri 09:00-18:00 UTC\n",
        ("team.hours", "not supported by this version"),
        at="hours: Mon",
    ),
    "the next owner": Bad(
        OWNERS,
        "team:\n",
        "team:\n  then: platform\n",
        ("team.then", "not supported by this version"),
        at="then: platform",
    ),
}

ALL = {
    f"{group}: {name}": bad
    for group, table in {
        "unknown key": UNKNOWN_KEYS,
        "unknown name": UNKNOWN_NAMES,
        "twice": TWICE,
        "gate": BAD_GATES,
        "case id": BAD_IDS,
        "shape": SHAPES,
        "not yet": NOT_YET,
        "surroundings": SURROUNDINGS,
    }.items()
    for name, bad in table.items()
}


def test_the_example_is_sound(tmp_path: Path) -> None:
    """Every fault below comes from its edit, and from nothing else."""
    project = load_project(write(tmp_path))
    assert [case.id for case in project.suites["basic"].cases] == ["one", "two"]
    assert set(project.endpoints) == {"agent", "support"}


@pytest.mark.parametrize("name", ALL)
def test_a_fault_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    """One edit, one fault: file, line, what stands there, what was expected, the nearest name."""
    bad = ALL[name]
    files = edited(FILES, bad)
    faults = faults_of(write(tmp_path, files))
    assert [is_said(bad, fault, files) for fault in faults] == [True], faults


TOGETHER = (
    "unknown key: budget",
    "unknown name: time zone",
    "unknown name: platform owner",
    "shape: six fields of cron",
    "shape: an hour that is none",
    "shape: a section that is a list",
    "unknown key: owner",
    "shape: a mention that is a name",
    "unknown key: price",
    "shape: a day written otherwise",
    "unknown key: band",
    "unknown name: kind",
    "unknown name: suite of an endpoint",
    "unknown key: suite",
    "unknown key: category",
    "gate: a percentage in quotes",
    "unknown name: owner of a suite",
    "unknown name: grader",
    "shape: negative trials",
    "shape: no weight",
    "unknown name: category",
    "surroundings: a picture that is not there",
    "unknown key: scripted ending",
    "shape: a time without a zone",
    "shape: a chance below zero",
    "unknown name: fault of a script",
)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """Whoever made many mistakes sees every one of them the first time, in every file."""
    files: Mapping[str, str] = FILES
    for name in TOGETHER:
        files = edited(files, ALL[name])
    faults = faults_of(write(tmp_path, files))
    untold = [
        name for name in TOGETHER if not any(is_said(ALL[name], one, files) for one in faults)
    ]
    assert untold == []
    assert {fault.file for fault in faults} == set(FILES)
