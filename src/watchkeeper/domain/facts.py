"""What a comparison needs to know of a trial, and sets of such facts by case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from watchkeeper.domain.grade import RESOLVED_OUTCOMES, Outcome
from watchkeeper.domain.run import OutcomeCounts


@dataclass(frozen=True, slots=True)
class TrialFact:
    """One trial, by its counting attempt, as numbers."""

    run_id: str
    trial_id: str
    case_id: str
    trial_index: int
    category: str
    cluster_id: str
    outcome: Outcome
    execution_hash: str
    grading_hash: str
    round_count: int
    barren_round_count: int
    cost_usd: float | None
    served_model: str | None = None
    stop_reason: str = "answered"
    error_kind: str | None = None
    critical_failure_count: int = 0
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    fruitless_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_resolved(self) -> bool:
        """Whether the trial has a score."""
        return self.outcome in RESOLVED_OUTCOMES


class FactTable:
    """The facts of one side of a comparison, by case."""

    def __init__(self, facts: Iterable[TrialFact]) -> None:
        self.by_case: dict[str, list[TrialFact]] = {}
        for fact in facts:
            self.by_case.setdefault(fact.case_id, []).append(fact)

    def __iter__(self) -> Iterator[TrialFact]:
        """Every fact, case by case."""
        return (fact for facts in self.by_case.values() for fact in facts)

    @property
    def case_ids(self) -> tuple[str, ...]:
        """The cases in a fixed order."""
        return tuple(sorted(self.by_case))

    def of(self, case_id: str) -> list[TrialFact]:
        """The facts of one case, none where it was not run."""
        return self.by_case.get(case_id, [])


def outcome_counts(facts: Iterable[TrialFact], planned: int) -> OutcomeCounts:
    """How the planned trials ended."""
    tally = dict.fromkeys(("passed", "failed", "harness_error", "grader_error", "skipped"), 0)
    for fact in facts:
        tally[fact.outcome] += 1
    return OutcomeCounts(planned=planned, **tally)
