"""The keys of kind http, as the loader reads them: every mistake with its place."""

from pathlib import Path

import pytest

from tests.unit.adapters.http_agents import BEARER
from watchkeeper.adapters.http import Settings
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Recipient
from watchkeeper.errors import Fault
from watchkeeper.loading.endpoints import load_endpoints

KEYS = """\
endpoints:
  support:
    kind: http
    owner: team
    model: big
    url: https://agent.example/ask?v=2
    headers:
      authorization: Bearer env:AGENT_TOKEN
      x-team: blue
    request:
      question: "{{input}}"
      meta: [{case: "for {{case_id}}"}, 3, null, true]
    response:
      answer: output.text
      served_model: header:x-model
    poll:
      job: id
      url: https://agent.example/jobs/{{job}}
      done: [succeeded]
    version: {url: https://agent.example/version, model: model}
    tools: [look]
    request_seconds: 60
"""


def loaded(folder: Path, text: str) -> tuple[dict[str, Endpoint], list[Fault]]:
    """The endpoints of a file, and its faults."""
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "endpoints.yaml").write_text(text)
    faults: list[Fault] = []
    found = load_endpoints(folder, {"team": Recipient("team")}, faults)
    return {name: endpoint for name, (endpoint, _) in found.by_name.items()}, faults


def test_every_key_is_read(tmp_path: Path) -> None:
    """And what can change the agent's behaviour is part of the configuration's hash."""
    endpoints, faults = loaded(tmp_path, KEYS)
    assert faults == []
    support = endpoints["support"]
    assert support.requested_model == "big"
    settings = support.settings
    assert isinstance(settings, Settings)
    assert settings.placeholders == {"input", "case_id"}
    changed, _ = loaded(tmp_path, KEYS.replace("for {{case_id}}", "of {{case_id}}"))
    assert changed["support"].config_hash != support.config_hash


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"{{input}}"', '"{{inptu}}"', 11, ["request.question", "{{inptu}}", "known:", "input"]),
        ("for {{case_id}}", "for {{cases}}", 12, ["request.meta.0.case", "{{cases}}"]),
        ("output.text", "$.output.text", 14, ["response.answer", "a JMESPath, such as"]),
        ("output.text", "nope(output)", 14, ["response.answer", "nope()"]),
        ("output.text", "length(a, b)", 14, ["response.answer", "1 argument"]),
        ("header:x-model", "header:x model", 15, ["response.served_model", "header:NAME"]),
        ("      answer:", "      anwser:", 14, ["unknown key 'anwser'", "did you mean 'answer'"]),
        ("jobs/{{job}}", "jobs", 18, ["poll.url", "{{job}}"]),
        ("https://agent.example/jobs/{{job}}", "https://{{job}}/", 18, ["path or query"]),
        ("      job: id\n", "", 16, ["poll", "either 'job' with 'url', or 'location'"]),
        ("    poll:", "    stream: sse\n    poll:", 17, ["poll", "either 'stream' or 'poll'"]),
        ("Bearer env:AGENT_TOKEN", "Bearer very-secret", 7, ["'authorization' as env:NAME"]),
        ("x-team: blue", "x-api-key: very-secret", 7, ["'x-api-key' as env:NAME"]),
        ("x-team: blue", "Content-Type: text/plain", 7, ["sets itself"]),
        ("x-team: blue", "Authorization: env:X", 7, ["every header once"]),
        ("x-team: blue", "x team: blue", 7, ["'x team'"]),
        ("x-team: blue", "x-team: blaü", 7, ["ASCII"]),
        ("https://agent.example/ask", "https://me:very-secret@agent.example", 6, ["url", "user"]),
        ("https://agent.example/ask", "ftp://agent.example", 6, ["http(s)://host"]),
        ("request_seconds: 60", "request_seconds: 0", 22, ["request_seconds", "more than 0"]),
        ("request_seconds: 60", "method: GET", 22, ["method", "'POST'"]),
        ("request_seconds: 60", "stream: yes", 22, ["stream", "'sse'"]),
        ("request_seconds: 60", "max_response_bytes: 10", 22, ["max_response_bytes", "1000"]),
    ],
)
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, old: str, new: str, line: int, words: list[str]
) -> None:
    """Before any call, and without a secret that stands in the wrong place."""
    assert KEYS.count(old) == 1
    _, faults = loaded(tmp_path, KEYS.replace(old, new))
    found = [fault for fault in faults if all(word in fault.message for word in words)]
    assert [fault.line for fault in found] == [line], faults
    assert "very-secret" not in str(faults)


def test_a_mapping_that_needs_more_than_nothing_is_not_refused() -> None:
    """A function may be applied to what only a real answer holds."""
    for expression in ("length(items)", "join(' ', parts)", "to_string(a || b)"):
        given = {"url": "https://a.example", "headers": BEARER, "response": {"answer": expression}}
        Settings.model_validate(given)
