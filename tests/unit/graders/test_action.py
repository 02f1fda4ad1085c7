"""action: the agent did one named thing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watchkeeper.domain.grade import Grade


@pytest.mark.parametrize(
    ("action", "calls", "outcome", "reason"),
    [
        ("ask_clarification", [], "passed", "the agent reported ask_clarification"),
        (None, ["ask_clarification"], "passed", "the agent called ask_clarification"),
        (
            "transfer",
            ["execute_transfer"],
            "failed",
            "the agent reported transfer, expected ask_clarification; "
            "called were execute_transfer once",
        ),
        (
            None,
            [],
            "failed",
            "the agent reported no action, expected ask_clarification; no tool was called",
        ),
        (
            "Ask_Clarification",
            [],
            "failed",
            "the agent reported Ask_Clarification, expected ask_clarification; no tool was called",
        ),
    ],
)
def test_the_action_is_reported_or_is_a_tool(
    grade: Callable[..., Grade],
    action: str | None,
    calls: list[str],
    outcome: str,
    reason: str,
) -> None:
    """'pasale unos mangos a mi hermana' has one right action: to ask."""
    found = grade(
        "action", "ask_clarification", answer="¿Cuánto?", calls=list(calls), action=action
    )
    assert (found.outcome, found.reason) == (outcome, reason)


def test_an_action_is_enough_to_have_done_something(grade: Callable[..., Grade]) -> None:
    """An agent that reports an action and says nothing is not silent."""
    assert grade("action", "escalate", action="escalate").outcome == "passed"
