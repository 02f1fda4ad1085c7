"""One execution of a suite against an endpoint: what was asked, planned, and stored about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.suite import GateAction
from watchkeeper.domain.trial import PlannedTrial

Purpose = Literal["nightly", "version_change", "on_demand", "ci", "migration", "confirm"]
PURPOSES: tuple[Purpose, ...] = (
    "nightly",
    "version_change",
    "on_demand",
    "ci",
    "migration",
    "confirm",
)
MANIFEST_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What somebody asked for: one suite, one endpoint, and why.

    ``trial_counts`` names the cases to run and how often; ``None`` means all cases, as often as
    the suite says. ``slot_at`` is the scheduled time of a nightly run. ``confirms`` is the run
    whose suspects these trials examine. After ``finish_by`` no further trial starts.
    """

    run_id: str
    endpoint: str
    suite: str
    purpose: Purpose
    trigger: str
    seed: int
    slot_at: datetime | None = None
    trial_counts: dict[str, int] | None = None
    confirms: str | None = None
    finish_by: datetime | None = None


@dataclass(frozen=True, slots=True)
class CaseStamp:
    """What a run keeps of a case, enough to pair it with the same case of another run."""

    case_id: str
    category: str
    cluster_id: str
    execution_hash: str
    grading_hash: str
    trials: int
    dimension: str | None = None
    source: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class GateStamp:
    """A gate as it stood when the run was made."""

    category: str
    threshold: float
    action: GateAction
    owner: str


@dataclass(frozen=True, slots=True)
class SimulatorStamp:
    """A model that played the user in a run, and what was served for it then.

    ``identity`` is the hash of its prompt, settings and bounds; ``resolved_model`` is ``None``
    where it cannot be told, and ``note`` says why.
    """

    name: str
    identity: str
    requested_model: str | None
    resolved_model: str | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything a run stores about itself, so that any record can be explained later.

    ``is_partial`` says that cases or numbers of trials were chosen, not the suite's own.
    """

    run_id: str
    endpoint: str
    suite: str
    purpose: Purpose
    trigger: str
    seed: int
    slot_at: datetime | None
    planned_at: datetime
    confirms: str | None
    suite_hash: str
    cases: tuple[CaseStamp, ...]
    gates: tuple[GateStamp, ...]
    graders: dict[str, int]
    endpoint_kind: str
    endpoint_owner: str
    suite_owner: str
    env: str
    endpoint_config_hash: str
    identity: ServedIdentity
    limits: dict[str, float | None]
    attempt_policy: dict[str, int]
    price_table_version: str
    engine_version: str
    planned_count: int
    finish_by: datetime | None = None
    is_partial: bool = False
    simulators: tuple[SimulatorStamp, ...] = ()
    schema_version: int = MANIFEST_SCHEMA_VERSION

    def gate(self, category: str) -> GateStamp | None:
        """The gate of a category as it stood, or ``None`` where none was declared."""
        return next((gate for gate in self.gates if gate.category == category), None)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A manifest with the trials that it promises, written down before the first call."""

    manifest: Manifest
    trials: tuple[PlannedTrial, ...]


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How the planned trials ended; the five outcomes and ``missing`` add up to ``planned``."""

    planned: int
    passed: int = 0
    failed: int = 0
    harness_error: int = 0
    grader_error: int = 0
    skipped: int = 0

    @property
    def graded(self) -> int:
        """Trials with an outcome that is a score."""
        return self.passed + self.failed

    @property
    def missing(self) -> int:
        """Planned trials of which there is no record."""
        recorded = self.graded + self.harness_error + self.grader_error + self.skipped
        return self.planned - recorded

    @property
    def coverage(self) -> float | None:
        """Graded over planned; undefined where nothing was planned."""
        return self.graded / self.planned if self.planned else None

    @property
    def pass_rate(self) -> float | None:
        """Passed over graded; undefined where nothing was graded."""
        return self.passed / self.graded if self.graded else None

    @property
    def worst_pass_rate(self) -> float | None:
        """The pass rate if every trial without a score had failed."""
        return self.passed / self.planned if self.planned else None
