"""What is left of a provider's limits is read from its headers, or unknown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from watchkeeper.adapters._model.rate_limits import anthropic_limits, openai_limits
from watchkeeper.domain.ports import RateLimits

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("250ms", 0.25),
        ("1h2m3.5s", 3723.5),
        ("1d", 86_400.0),
        ("12", 12.0),
        ("2.5", 2.5),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("1s soon", None),
        ("1s" * 100, None),
    ],
)
def test_wait_is_a_duration(text: str, expected: float | None) -> None:
    """As OpenAI's headers write it; nonsense is nothing."""
    headers = {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": text}
    assert openai_limits(headers, NOW) == RateLimits(3, None, expected)


@pytest.mark.parametrize("count", ["", "-1", "1.5", "many", "٣", "9" * 19])
def test_count_that_is_none_is_unknown(count: str) -> None:
    """Without any count there are no limits to speak of."""
    assert openai_limits({"x-ratelimit-remaining-requests": count}, NOW) is None
    assert anthropic_limits({"anthropic-ratelimit-requests-remaining": count}, NOW) is None


def test_wait_is_that_of_the_limit_nearest_to_its_end() -> None:
    """Nearest by its share, and at its end wherever nobody says how much there was."""
    headers = {
        "x-ratelimit-remaining-requests": "50",
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-remaining-tokens": "5000",
        "x-ratelimit-limit-tokens": "100000",
        "x-ratelimit-reset-tokens": "40s",
    }
    assert openai_limits(headers, NOW) == RateLimits(50, 5000, 40.0)
    ended = {**headers, "x-ratelimit-remaining-requests": "0", "x-ratelimit-limit-requests": ""}
    assert openai_limits(ended, NOW) == RateLimits(0, 5000, 1.0)


def test_input_and_output_are_counted_apart_where_the_provider_does() -> None:
    """One count for both is that of all tokens."""
    name = "anthropic-ratelimit"
    both = {f"{name}-tokens-remaining": "70", f"{name}-tokens-reset": "2026-03-01T12:00:09Z"}
    assert anthropic_limits(both, NOW) == RateLimits(None, 70, 9.0)
    apart = {
        **both,
        f"{name}-input-tokens-remaining": "30",
        f"{name}-output-tokens-remaining": "0",
        f"{name}-output-tokens-reset": "2026-03-01T11:59:00",
    }
    assert anthropic_limits(apart, NOW) == RateLimits(None, 30, 0.0, 0)
    assert anthropic_limits({**apart, f"{name}-output-tokens-reset": "soon"}, NOW) == RateLimits(
        None, 30, None, 0
    )
