"""A secret that was written into a file is never repeated by what complains about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.loading.example import ENDPOINTS, FILES, SUITE, WATCHKEEPER, faults_of, write

SECRET = "hunter2-hunter2-hunter2"
SHAPED = "sk-ant-api03-0123456789abcdefghij"
BOT = "xoxb-0123456789-abcdefghij"

PLACES = {
    "token": (WATCHKEEPER, "token: env:SLACK_BOT_TOKEN", f"token: {SECRET}"),
    "token as a list": (WATCHKEEPER, "token: env:SLACK_BOT_TOKEN", f"token: [{SECRET}]"),
    "token as a mapping": (WATCHKEEPER, "token: env:SLACK_BOT_TOKEN", f"token: {{is: {SECRET}}}"),
    "token with a wrong prefix": (WATCHKEEPER, "token: env:SLACK", f"token: ENV:{SECRET}/"),
    "token in the wrong place": (WATCHKEEPER, "slack:\n  token: env:", f"slack: {BOT}\n#"),
    "token under another key": (WATCHKEEPER, "token: env:SLACK", f"tokn: {SECRET}\n  token: env:X"),
    "token as a key": (WATCHKEEPER, "  token: env:", f"  {BOT}: x\n  token: env:"),
    "key": (ENDPOINTS, "api_key: env:ANTHROPIC_API_KEY", f"api_key: {SECRET}"),
    "key as a number": (ENDPOINTS, "api_key: env:ANTHROPIC_API_KEY", "api_key: 123456789012345"),
    "key as a list": (ENDPOINTS, "api_key: env:ANTHROPIC_API_KEY", f"api_key: [{SECRET}]"),
    "key with a space": (ENDPOINTS, "api_key: env:ANTHROPIC_API_KEY", f"api_key: 'env:{SECRET} '"),
    "key as the model": (ENDPOINTS, "model: claude-sonnet-5-5", f"model: '{SHAPED} x'"),
    "key as the kind": (ENDPOINTS, "kind: anthropic", f"kind: {SHAPED}"),
    "key as the prompt": (ENDPOINTS, "system: prompts/agent.md", f"system: {SHAPED}"),
    "password in an address": (
        ENDPOINTS,
        "base_url: http://127.0.0.1:1",
        f"base_url: http://me:{SECRET}@127.0.0.1:1",
    ),
    "key in an address": (
        ENDPOINTS,
        "base_url: http://127.0.0.1:1",
        f"base_url: http://127.0.0.1:1/?key={SHAPED}",
    ),
    "key as a case's id": (SUITE, "- id: two", f"- id: /{SHAPED}"),
    "key as an owner": (SUITE, "owner: team", f"owner: {SHAPED}"),
    "key in a tag of YAML": (SUITE, "claim: Answers yes.", f"claim: !{SHAPED} x"),
    "key as an alias": (SUITE, "claim: Answers yes.", f"claim: *{SHAPED}"),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_fault_repeats_a_secret(place: str, tmp_path: Path) -> None:
    """Neither what stands under the key of a secret, nor what has the shape of one elsewhere."""
    file, old, new = PLACES[place]
    assert FILES[file].count(old) == 1
    faults = faults_of(write(tmp_path, {**FILES, file: FILES[file].replace(old, new)}))
    told = "\n".join(map(str, faults))
    assert told
    for secret in (SECRET, SHAPED, BOT, "123456789012345"):
        assert secret not in told
        assert secret[4:] not in told


def test_no_command_repeats_a_secret(tmp_path: Path) -> None:
    """Also where the error is printed by a whole program."""
    settings = FILES[WATCHKEEPER].replace("env:SLACK_BOT_TOKEN", SECRET)
    endpoints = FILES[ENDPOINTS].replace("env:ANTHROPIC_API_KEY", SHAPED)
    root = write(tmp_path, {**FILES, WATCHKEEPER: settings, ENDPOINTS: endpoints})
    done = subprocess.run(
        [sys.executable, "-m", "watchkeeper", "--project", str(root), "validate"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 2
    assert "config/watchkeeper.yaml:11: slack.token: a secret is given as the name" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert SHAPED not in done.stdout + done.stderr
