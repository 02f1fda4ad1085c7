"""Which models answered a run: the expected ones, and trials that another one answered.

Another model is another agent: its trials are counted and shown beside the others, and never
compared with the baselines under the same name.
Source: docs/statistics.md#comparability
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.verdict import ServedShare
from watchkeeper.stats.changes import served_models
from watchkeeper.stats.night import Baseline, Night

USUAL_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class ServedSplit:
    """How a run falls apart by the models that answered.

    ``expected`` are the answers' labels that are compared, ``shares`` all labels with their
    trials; both are empty where nothing is to be told: one model answered, the one that was
    expected, or a mix that is usual for the endpoint.
    """

    expected: frozenset[str] = frozenset()
    shares: tuple[ServedShare, ...] = ()

    def compared(self, facts: Iterable[TrialFact]) -> tuple[TrialFact, ...]:
        """The trials that are held against the baselines; one without an answer stays."""
        if not self.expected:
            return tuple(facts)
        return tuple(
            fact
            for fact in facts
            if fact.served_model is None or fact.served_model in self.expected
        )


def split_by_served(night: Night) -> ServedSplit:
    """How a run falls apart, with the baselines as the measure of what is usual.

    Without baselines it is what the provider said before the run, then what most trials name.
    """
    labels = Counter(fact.served_model for fact in night.facts if fact.served_model)
    if not labels:
        return ServedSplit()
    usual = usual_models((*night.screening.facts, *night.confirming.facts))
    named = night.manifest.identity.resolved_model
    if usual:
        if labels.keys() <= usual or len(labels) == 1:
            return ServedSplit()
        expected = frozenset(labels.keys() & usual)
    else:
        is_named = {label: named is None or _is_same(label, named) for label in labels}
        if len(labels) == 1 and all(is_named.values()):
            return ServedSplit()
        expected = frozenset(label for label in labels if named and is_named[label])
    if usual or len(labels) > 1:
        # Where the others are more, the endpoint has moved: what it is now is what most trials saw.
        first = max(labels, key=lambda label: (labels[label], label in expected, label))
        rest = sum(count for label, count in labels.items() if label not in expected)
        if rest > sum(labels.values()) - rest:
            expected = frozenset({first})
    return ServedSplit(expected, _shares(night.facts, labels, expected, named))


def usual_models(facts: Iterable[TrialFact]) -> frozenset[str]:
    """The labels that at least half of some runs saw."""
    by_run: dict[str, set[str]] = {}
    for fact in facts:
        if fact.served_model:
            by_run.setdefault(fact.run_id, set()).add(fact.served_model)
    seen = Counter(label for labels in by_run.values() for label in labels)
    return frozenset(label for label, count in seen.items() if count >= USUAL_SHARE * len(by_run))


def without_strays(baseline: Baseline, usual: frozenset[str]) -> Baseline:
    """A baseline without trials that another model answered than most of their run."""
    by_run: dict[str, Counter[str]] = {}
    for fact in baseline.facts:
        if fact.served_model:
            by_run.setdefault(fact.run_id, Counter())[fact.served_model] += 1
    if all(len(labels) == 1 for labels in by_run.values()):
        return baseline
    main = {run: max(labels, key=lambda one: (labels[one], one)) for run, labels in by_run.items()}
    kept = [
        fact
        for fact in baseline.facts
        if fact.served_model is None
        or fact.served_model in usual
        or fact.served_model == main[fact.run_id]
    ]
    return replace(baseline, facts=FactTable(kept))


def alike_served(
    fresh: Sequence[TrialFact], compared: Iterable[TrialFact]
) -> tuple[list[TrialFact], str | None]:
    """The fresh trials that may confirm the night's, and what is said of the others.

    Trials that another model answered than the ``compared`` ones of the night confirm nothing.
    Where they are most of the answered ones, the endpoint has moved on since, and none is left.
    A fresh trial without an answer stays, and so do all where no trial of the night was answered.
    """
    night = served_models(compared)
    others = [fact for fact in fresh if fact.served_model and fact.served_model not in night]
    if not night or not others:
        return list(fresh), None
    answered = sum(fact.served_model is not None for fact in fresh)
    if 2 * len(others) > answered:
        return [], (
            f"the fresh trials were answered by {', '.join(served_models(fresh))}, the night's by "
            f"{', '.join(night)}; they confirm nothing and were set aside"
        )
    kept = [fact for fact in fresh if fact.served_model is None or fact.served_model in night]
    return kept, (
        f"{len(others)} of {answered} fresh trials were answered by "
        f"{', '.join(served_models(others))}, not by {', '.join(night)}; they were set aside"
    )


def _is_same(label: str, named: str) -> bool:
    """Whether an answer's label is the named model, or a dated version of it."""
    return label == named or label.startswith(f"{named}-")


def _shares(
    facts: Iterable[TrialFact],
    labels: Counter[str],
    expected: frozenset[str],
    named: str | None,
) -> tuple[ServedShare, ...]:
    passed = Counter(fact.served_model for fact in facts if fact.outcome == "passed")
    graded = Counter(fact.served_model for fact in facts if fact.is_resolved)
    shares = [
        ServedShare(label, count, graded[label], passed[label], is_expected=label in expected)
        for label, count in labels.most_common()
    ]
    if not expected and named is not None:
        shares.append(ServedShare(named, 0, 0, 0, is_expected=True))
    return tuple(sorted(shares, key=lambda one: (not one.is_expected, -one.trial_count, one.model)))
