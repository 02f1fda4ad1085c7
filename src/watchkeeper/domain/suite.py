"""A named set of cases with the gates of their categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.identity import content_hash

GateAction = Literal["block", "page", "report"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A category's threshold, what happens below it, and who hears of it.

    ``threshold`` is a pass rate in [0, 1]; 1.0 is a hard gate.
    """

    category: str
    threshold: float
    action: GateAction
    owner: str

    @property
    def is_hard(self) -> bool:
        """Whether a single failure makes the gate red."""
        return self.threshold >= 1.0


@dataclass(frozen=True, slots=True)
class Suite:
    """A named set of cases, how often each is tried, and within which bounds."""

    name: str
    claim: str
    owner: str
    trials: int
    limits: TrialLimits
    gates: Mapping[str, Gate]
    cases: tuple[Case, ...]
    location: str = ""

    @property
    def suite_hash(self) -> str:
        """Equal for two versions of the suite that ask and demand the same of every case."""
        return content_hash(
            {
                "cases": [
                    [case.id, case.category, case.execution_hash(self.limits), case.grading_hash]
                    for case in sorted(self.cases, key=lambda case: case.id)
                ],
                "gates": [
                    [gate.category, gate.threshold, gate.action]
                    for gate in sorted(self.gates.values(), key=lambda gate: gate.category)
                ],
            }
        )

    def case(self, case_id: str) -> Case:
        """The case with this id.

        Raises:
            KeyError: The suite has no such case.
        """
        for case in self.cases:
            if case.id == case_id:
                return case
        raise KeyError(case_id)
