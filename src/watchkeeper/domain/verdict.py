"""What was concluded about a run. One object drives text, JSON, Slack, exit code and SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from watchkeeper.domain.run import OutcomeCounts, Purpose
from watchkeeper.domain.suite import GateAction

VerdictState = Literal["regressed", "improved", "no_worse", "inconclusive", "not_comparable"]
Metric = Literal["pass_rate", "rounds", "cost_usd"]
Level = Literal["suite", "category", "tool", "case"]
RootKind = Literal["gate", "tool", "category", "suite", "case", "harness"]
GateState = Literal[
    "passed",
    "passed_not_proven",
    "failed",
    "failed_marginal",
    "failed_unreproduced",
    "no_verdict",
]
VERDICT_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """One comparison of two samples, in the metric's own unit.

    ``estimate``, ``low`` and ``high`` (95 %) are rate points for the pass rate (-0.10 is ten
    points worse) and ratios for rounds and cost (3.9 is 3.9 times as much). ``z`` is positive for
    worse and taken before over-dispersion is allowed for; ``p_worse`` and ``p_better`` are
    one-sided and taken after it. ``smallest_detectable`` is the change that this comparison sees
    with a probability of 80 %: rate points, or a share (0.16 is 16 % more).
    """

    estimate: float
    low: float
    high: float
    z: float
    p_worse: float
    p_better: float
    case_count: int
    baseline_trial_count: int
    candidate_trial_count: int
    baseline_mean: float | None
    candidate_mean: float | None
    smallest_detectable: float | None
    total_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One hypothesis: a metric over a group of cases, and what became of it.

    ``reason`` explains ``inconclusive`` and ``not_comparable``: suspect, not_confirmed, budget,
    unresolved, served_changed, totals_disagree, within_noise, coverage, served_split, unmatched.
    ``screened`` compares the night with the screening baseline, ``confirmed`` fresh trials alone
    with the confirmation baseline. ``margin`` is the loss that ``no_worse`` excludes.
    """

    metric: Metric
    level: Level
    group: str
    state: VerdictState
    reason: str
    margin: float
    screened: Measured | None = None
    confirmed: Measured | None = None

    @property
    def measured(self) -> Measured | None:
        """The comparison that speaks: fresh trials where there are any, else the night's."""
        return self.confirmed or self.screened


@dataclass(frozen=True, slots=True)
class GateResult:
    """A declared category held against its threshold; rates are over graded trials.

    ``fresh_graded`` and ``fresh_passed`` count the rerun that examined a failure. ``acts`` says
    whether the failure leads to the gate's action in a run of this purpose.
    """

    category: str
    threshold: float
    action: GateAction
    owner: str
    state: GateState
    acts: bool
    counts: OutcomeCounts
    low: float | None
    high: float | None
    failing_cases: tuple[str, ...] = ()
    fresh_graded: int = 0
    fresh_passed: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """Something that differs between the baselines and the run; values are for people."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ServedShare:
    """The trials of a run that one model answered; ``is_expected``: those that are compared."""

    model: str
    trial_count: int
    graded: int
    passed: int
    is_expected: bool


@dataclass(frozen=True, slots=True)
class ToolShift:
    """How the use of one tool moved, in calls per trial over the same cases."""

    tool: str
    case_count: int
    calls_before: float
    calls_after: float
    fruitless_before: float
    fruitless_after: float


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One case that shows the change, with medians before and after."""

    case_id: str
    passed_before: int
    graded_before: int
    passed_after: int
    graded_after: int
    rounds_before: float | None
    rounds_after: float | None
    barren_before: float | None
    barren_after: float | None
    trial_id: str | None
    note: str


@dataclass(frozen=True, slots=True)
class CriticalFailure:
    """A critical assertion that failed: the trace is the evidence, no rerun is needed."""

    case_id: str
    trial_id: str
    category: str
    assertion: str
    reason: str


@dataclass(frozen=True, slots=True)
class RegressionRoot:
    """What is behind one or more confirmed regressions: a tool, category, suite, case or gate.

    ``members`` name the findings that it explains, as ``metric/level/group``, its own first.
    """

    kind: RootKind
    name: str
    owner: str
    severity: Literal["page", "critical", "broken"]
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was concluded about one run.

    ``broken`` is why there is no verdict at all (``None``: there is one). ``barren_before`` and
    ``barren_after`` are barren rounds per round. ``unchanged`` names what was compared with the
    baselines and is the same. ``roots`` say who is told of what. ``served`` is empty where the
    expected model answered every trial.
    """

    run_id: str
    endpoint: str
    suite: str
    purpose: Purpose
    slot_at: datetime | None
    decided_at: datetime
    state: VerdictState
    reason: str
    broken: str | None
    counts: OutcomeCounts
    gates: tuple[GateResult, ...]
    findings: tuple[Finding, ...]
    critical: tuple[CriticalFailure, ...] = ()
    changes: tuple[Change, ...] = ()
    unchanged: tuple[str, ...] = ()
    screen_runs: tuple[str, ...] = ()
    confirm_runs: tuple[str, ...] = ()
    fresh_runs: tuple[str, ...] = ()
    compared_case_count: int = 0
    added_cases: tuple[str, ...] = ()
    removed_cases: tuple[str, ...] = ()
    changed_cases: tuple[str, ...] = ()
    tool_shifts: tuple[ToolShift, ...] = ()
    exemplars: tuple[Exemplar, ...] = ()
    barren_before: float | None = None
    barren_after: float | None = None
    overdispersion: dict[str, float] | None = None
    roots: tuple[RegressionRoot, ...] = ()
    notes: tuple[str, ...] = ()
    served: tuple[ServedShare, ...] = ()
    schema_version: int = VERDICT_SCHEMA_VERSION

    @property
    def regressions(self) -> tuple[Finding, ...]:
        """The confirmed findings that are worse."""
        return tuple(one for one in self.findings if one.state == "regressed")

    @property
    def acting_gates(self) -> tuple[GateResult, ...]:
        """The failed gates whose action is due."""
        return tuple(gate for gate in self.gates if gate.acts)

    @property
    def suspected_cause(self) -> Change | None:
        """The only thing that changed, or ``None`` where nothing or several things did."""
        return self.changes[0] if len(self.changes) == 1 else None

    @property
    def exit_code(self) -> int:
        """1 regressed or an acting gate, 3 no verdict, 4 nothing comparable, else 0.

        A first record (no history at all) is not a failure: 0.
        """
        if self.regressions or self.acting_gates or self.critical:
            return 1
        if self.broken is not None or any(gate.state == "no_verdict" for gate in self.gates):
            return 3
        if self.state == "not_comparable":
            return 4
        return 0
