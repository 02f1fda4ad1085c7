"""Which trials another model answered than was expected, in words."""

from __future__ import annotations

from watchkeeper.domain.verdict import Verdict
from watchkeeper.notifiers import wording


def served_lines(verdict: Verdict) -> list[str]:
    """Which trials another model answered, with the answers of each model; empty for none."""
    if not verdict.served:
        return []
    total = sum(one.trial_count for one in verdict.served)
    expected = [one.model for one in verdict.served if one.is_expected]
    instead = f" instead of {wording.listed(expected, 3)}" if expected else ""
    lines = [
        f"{one.trial_count:,} of {total:,} trials were answered by {one.model}{instead}"
        for one in verdict.served
        if not one.is_expected
    ]
    rates = [
        f"{one.model} {wording.fraction(one.passed, one.graded)}"
        for one in verdict.served
        if one.trial_count
    ]
    return [*lines, f"passed by model: {', '.join(rates)}"]
