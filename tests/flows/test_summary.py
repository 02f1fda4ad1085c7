"""The summary on Prefect's pages: hostile text stays text."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt

from watchkeeper.domain.incident import Incident
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.run import RunRequest
from watchkeeper.errors import BrokenEvaluation, UsageError
from watchkeeper.flows.states import night_state
from watchkeeper.flows.summary import escaped, night_summary
from watchkeeper.pipeline.nightly import NightResult, PairResult

SLOT = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ACTING = {"html_inline", "html_block", "link_open", "image", "code_inline", "em_open", "s_open"}
HOSTILE = [
    "a | b | c",
    "![x](http://evil.example/pixel.png)",
    "<img src=x onerror=alert(1)>",
    "[log in](javascript:alert(1))",
    "see https://evil.example or www.evil.example, mail me@evil.example",
    "`code` **bold** _it_ ~~gone~~ &amp; # title",
    "first\n\n## second\n| x |",
    "\x1b[31mred\x1b[0m \u202egnp.exe",
    "back\\slash \\| pipe",
    "$x^2$ {{ template }}",
]


def _night(*errors: Exception) -> NightResult:
    pairs = []
    for number, error in enumerate(errors):
        request = RunRequest(
            run_id=f"run-{number}",
            endpoint=f"agent_{number}",
            suite="basic",
            purpose="nightly",
            trigger="test",
            seed=1,
        )
        pairs.append(PairResult(request, None, error))  # type: ignore[arg-type]
    return NightResult(SLOT, tuple(pairs), 0)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_has_no_effect(text: str) -> None:
    """Nothing in an error makes a tag, a link, an image, a heading or another column."""
    shown = night_summary(_night(BrokenEvaluation(text)), [], Redactor({}))
    tokens = [token for one in MARKDOWN.parse(shown) for token in (one, *(one.children or ()))]
    kinds = {token.type for token in tokens}
    assert not kinds & {
        "html_inline",
        "html_block",
        "link_open",
        "image",
        "code_inline",
        "em_open",
        "s_open",
    }
    assert sum(token.type == "heading_open" for token in tokens) == 1
    assert sum(token.type == "th_open" for token in tokens) == 8
    assert sum(token.type == "td_open" for token in tokens) == 8
    assert not re.search(r"https?:|www\.|\w@", shown)  # what pages link without being asked
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("text", ["plain", "a_b*c", "a|b", "https://x.example", "1.5 % (−2)"])
def test_escaped_text_reads_as_it_was(text: str) -> None:
    """Escapes are for the parser, not for people."""
    (paragraph,) = (one for one in MARKDOWN.parse(escaped(text)) if one.children)
    assert "".join(token.content for token in paragraph.children or ()) == text


def test_secret_in_an_error_is_not_shown() -> None:
    """Errors quote what a provider said, and a provider may quote a key."""
    redactor = Redactor({"AGENT_TOKEN": "sesame-open-0815"})
    night = _night(BrokenEvaluation("refused key sesame-open-0815"))
    for text in (night_summary(night, [], redactor), night_state(night, redactor).message or ""):
        assert "sesame" not in text
        assert "AGENT" in text


def test_state_names_the_pairs_behind_the_exit_code() -> None:
    """At most three of them, the rest counted; a bad configuration among others is broken."""
    errors = [BrokenEvaluation(f"fault {number}") for number in range(4)]
    state = night_state(_night(*errors, UsageError("no such suite")), Redactor({}))
    assert state.name == "Broken"
    message = state.message or ""
    assert re.findall(r"agent_\d × basic: no verdict: fault \d", message) == [
        f"agent_{number} × basic: no verdict: fault {number}" for number in range(3)
    ]
    assert message.endswith("; and 2 more")


def test_night_without_pairs_is_broken() -> None:
    """A night in which nothing was asked says so, in no state that could pass for good."""
    night = NightResult(SLOT, (), 0)
    incidents: list[Incident] = []
    assert night_state(night, Redactor({})).name == "Broken"
    assert "nothing to run" in night_summary(night, incidents, Redactor({}))
