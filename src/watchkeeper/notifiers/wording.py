"""Numbers as people read them: never without a denominator, never 0 for what is not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from watchkeeper.domain.run import OutcomeCounts
from watchkeeper.domain.verdict import Finding, Measured, Metric

UNKNOWN = "unknown"
UNDEFINED = "undefined"

METRIC_NAMES: dict[Metric, str] = {"pass_rate": "pass rate", "rounds": "rounds", "cost_usd": "cost"}


def is_known(value: float | None) -> bool:
    """Whether there is a finite number to show."""
    return value is not None and math.isfinite(value)


def percent(rate: float | None, apart_from: float | None = None) -> str:
    """A rate in [0, 1] as ``85 %``.

    Nothing but 1 is shown as 100 % and nothing but 0 as 0 %; with ``apart_from``, decimals are
    added until a rate below a threshold no longer reads like the threshold.
    """
    if rate is None or not math.isfinite(rate * 100):
        return UNKNOWN
    for decimals in range(4):
        text = f"{rate * 100:.{decimals}f}"
        is_honest = float(text) not in (0.0, 100.0) or rate in (0.0, 1.0)
        is_apart = apart_from in (None, rate) or text != f"{(apart_from or 0) * 100:.{decimals}f}"
        if is_honest and is_apart:
            break
    return f"{text} %"


def fraction(passed: int, graded: int, apart_from: float | None = None) -> str:
    """``17/20 = 85 %``; a zero denominator has no rate."""
    if not graded:
        return f"{passed}/{graded} = {UNDEFINED}"
    return f"{passed}/{graded} = {percent(passed / graded, apart_from)}"


def percent_interval(low: float | None, high: float | None) -> str:
    """The bounds of a rate as ``64–95``, in percent."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return UNKNOWN
    return f"{percent(low).removesuffix(' %')}–{percent(high).removesuffix(' %')}"


def points(change: float | None) -> str:
    """A change of a rate as ``−10 points``; the sign is always shown."""
    if change is None or not math.isfinite(change * 100):
        return UNKNOWN
    shown = _signed(change, _point_decimals(change))
    return f"{shown} point" if shown in {"+1", "−1"} else f"{shown} points"


def ratio(value: float | None) -> str:
    """A ratio as ``3.9×``; near 1 with two decimals."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.{_ratio_decimals(value)}f}×"


def effect(metric: Metric, measured: Measured) -> str:
    """How much a metric moved, with its 95 % interval.

    ``−10 points (−16 to −4)`` for the pass rate, ``3.9× (3.2–4.8)`` for rounds and cost.
    """
    low, high = measured.low, measured.high
    shown = points(measured.estimate) if metric == "pass_rate" else ratio(measured.estimate)
    if not (math.isfinite(low * 100) and math.isfinite(high * 100)):
        return f"{shown} (interval {UNKNOWN})"
    if metric == "pass_rate":
        decimals = _point_decimals(measured.estimate)
        return f"{shown} ({_signed(low, decimals)} to {_signed(high, decimals)})"
    decimals = _ratio_decimals(measured.estimate)
    if any(value != 1 and float(f"{value:.{decimals}f}") == 1 for value in (low, high)):
        decimals = 2
    return f"{shown} ({low:,.{decimals}f}–{high:,.{decimals}f})"


def probability(p: float | None) -> str:
    """``0.012``, or ``below 0.0001``."""
    if p is None or not math.isfinite(p):
        return UNKNOWN
    return "below 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def level_of(metric: Metric, value: float | None) -> str:
    """A mean of a metric in its own unit: ``86 %``, ``12.8``, ``$0.075``."""
    if metric == "pass_rate":
        return percent(value)
    return dollars(value) if metric == "cost_usd" else number(value)


def before_after(metric: Metric, measured: Measured) -> str:
    """``4.2 → 12.9``: the means on both sides; a side that is not known says so."""
    before, after = measured.baseline_mean, measured.candidate_mean
    return f"{level_of(metric, before)} → {level_of(metric, after)}"


def sample(measured: Measured, *, is_fresh: bool) -> str:
    """What a comparison rests on: ``12 cases, 36 fresh trials against 168``."""
    trials = count(measured.candidate_trial_count, "fresh trial" if is_fresh else "trial")
    return (
        f"{count(measured.case_count, 'case')}, {trials} against {measured.baseline_trial_count:,}"
    )


def detectable(metric: Metric, change: float | None) -> str:
    """The smallest loss that a comparison sees: ``8 points``, or ``16 %`` more of rounds or cost.

    Args:
        metric: What is compared.
        change: Rate points for the pass rate, a share of the baseline for rounds and cost.
    """
    if change is None or not math.isfinite(change):
        return UNKNOWN
    if metric == "pass_rate":
        return points(abs(change)).removeprefix("+")
    return f"+{percent(abs(change))}".replace(f"+{UNKNOWN}", UNKNOWN)


def margin(finding: Finding) -> str:
    """The loss that ``no_worse`` excludes: ``5 points`` or ``+10 %``."""
    if finding.metric == "pass_rate":
        return points(abs(finding.margin)).removeprefix("+")
    return f"+{percent(abs(finding.margin))}"


def dollars(amount: float | None) -> str:
    """``$3.10``; below ten cents with the digits that matter."""
    if amount is None or not math.isfinite(amount):
        return UNKNOWN
    if amount == 0 or abs(amount) >= 0.1:
        return f"${amount:,.2f}"
    decimals = 1 - math.floor(math.log10(abs(amount)))
    return f"${amount:.{min(decimals, 8)}f}"


def number(value: float | None) -> str:
    """A count or a mean of counts: ``8``, ``2.3``, ``1,204``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """``1 case``, ``12 cases``."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def listed(items: Sequence[str], limit: int) -> str:
    """``a, b, c and 4 more``: at most ``limit`` of the items, the rest counted."""
    shown = ", ".join(items[:limit])
    left_out = len(items) - limit
    return f"{shown} and {left_out:,} more" if left_out > 0 else shown


def when(at: datetime | None) -> str:
    """``2026-05-22 02:30 UTC``; a time without a zone is taken as UTC."""
    if at is None:
        return UNKNOWN
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return f"{aware.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def missing_kinds(counts: OutcomeCounts) -> str:
    """Where the trials without a grade went: ``20 harness errors, 9 never recorded``."""
    kinds = (
        (counts.harness_error, count(counts.harness_error, "harness error")),
        (counts.grader_error, count(counts.grader_error, "grader error")),
        (counts.skipped, f"{counts.skipped:,} skipped"),
        (counts.missing, f"{counts.missing:,} never recorded"),
    )
    return ", ".join(text for amount, text in kinds if amount)


def _signed(change: float, decimals: int) -> str:
    """Rate points with their sign and without the word: ``−10``, ``+2.5``, ``0``."""
    scaled = change * 100
    text = f"{abs(scaled):,.{decimals}f}"
    if float(text.replace(",", "")) == 0 and scaled:
        text = f"{abs(scaled):.1f}"
    if float(text.replace(",", "")) == 0:
        return "0"
    return f"{'−' if scaled < 0 else '+'}{text}"


def _point_decimals(change: float) -> int:
    scaled = change * 100
    if not math.isfinite(scaled):
        return 0
    return 0 if abs(scaled) >= 10 or abs(scaled - round(scaled)) < 0.05 else 1


def _ratio_decimals(value: float) -> int:
    if abs(value) < 2:
        return 2
    return 1 if abs(value) < 10 else 0
