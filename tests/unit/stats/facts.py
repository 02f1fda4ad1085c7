"""Nights made of numbers: manifests, trials and histories without a store, for the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.endpoint import ServedIdentity
from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.run import CaseStamp, GateStamp, Manifest, OutcomeCounts, Purpose
from watchkeeper.domain.suite import GateAction
from watchkeeper.domain.verdict import CriticalFailure, Finding, Verdict
from watchkeeper.stats.baselines import PastNight
from watchkeeper.stats.decide import Baseline, Decision, Night

FIRST_NIGHT = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
CONSTANTS = DecisionConstants()

Behaviour = Callable[[str, int], Mapping[str, Any]]
Rerun = Callable[[int, Mapping[str, int]], Sequence[TrialFact]]


def steady(case_id: str, index: int) -> Mapping[str, Any]:
    """Every trial passes with three to five rounds at a cent a round."""
    rounds = 3 + (sum(case_id.encode()) + index) % 3
    return {"round_count": rounds, "cost_usd": 0.01 * rounds}


def stamps(
    categories: Mapping[str, int], trials: int = 3, **changed: Mapping[str, str]
) -> tuple[CaseStamp, ...]:
    """So many cases a category, named ``<category>-<number>``.

    ``changed`` maps a field (``execution_hash``, ``grading_hash``) to other values by case.
    """
    found = []
    for category, count in categories.items():
        for number in range(count):
            name = f"{category}-{number:02}"
            others = {field: values[name] for field, values in changed.items() if name in values}
            found.append(
                CaseStamp(
                    **{
                        "case_id": name,
                        "category": category,
                        "cluster_id": name,
                        "execution_hash": "asks",
                        "grading_hash": "demands",
                        "trials": trials,
                        **others,  # type: ignore[arg-type]
                    }
                )
            )
    return tuple(found)


def gate(
    category: str, threshold: float, action: GateAction = "page", owner: str = "owner"
) -> GateStamp:
    """A category's gate."""
    return GateStamp(category, threshold, action, owner)


def manifest(
    number: int,
    cases: Sequence[CaseStamp],
    gates: Sequence[GateStamp] = (),
    purpose: Purpose = "nightly",
    **given: Any,
) -> Manifest:
    """The manifest of night ``number``, counting from 1; any field can be given."""
    at = FIRST_NIGHT + timedelta(days=number - 1)
    fields: dict[str, Any] = {
        "run_id": f"night-{number:03}",
        "endpoint": "agent",
        "suite": "basic",
        "purpose": purpose,
        "trigger": "test",
        "seed": number,
        "slot_at": at if purpose == "nightly" else None,
        "planned_at": at,
        "confirms": None,
        "suite_hash": "suite",
        "cases": tuple(cases),
        "gates": tuple(gates),
        "graders": {"must_mention": 1},
        "endpoint_kind": "scripted",
        "endpoint_owner": "endpoint-owner",
        "suite_owner": "suite-owner",
        "env": "production",
        "endpoint_config_hash": "settings",
        "identity": ServedIdentity("alias", "model-v1", harness_revision="abc"),
        "limits": {},
        "attempt_policy": {},
        "price_table_version": "prices",
        "engine_version": "0.1.0",
        "planned_count": sum(stamp.trials for stamp in cases),
    }
    return Manifest(**{**fields, **given})


def trials(
    of: Manifest,
    behaviour: Behaviour = steady,
    counts: Mapping[str, int] | None = None,
    run_id: str | None = None,
) -> list[TrialFact]:
    """One fact for every promised trial of a run, or as many as ``counts`` says by case."""
    run = run_id or of.run_id
    facts = []
    for stamp in of.cases:
        for index in range(stamp.trials if counts is None else counts.get(stamp.case_id, 0)):
            fields: dict[str, Any] = {
                "run_id": run,
                "trial_id": f"{run}/{stamp.case_id}/{index}",
                "case_id": stamp.case_id,
                "trial_index": index,
                "category": stamp.category,
                "cluster_id": stamp.cluster_id,
                "outcome": "passed",
                "execution_hash": stamp.execution_hash,
                "grading_hash": stamp.grading_hash,
                "round_count": 4,
                "barren_round_count": 0,
                "cost_usd": 0.04,
                "served_model": "model-v1",
            }
            facts.append(TrialFact(**{**fields, **behaviour(stamp.case_id, index)}))
    return facts


def either(*behaviours: Behaviour) -> Behaviour:
    """One behaviour on top of another; the last one wins."""
    return lambda case_id, index: {
        key: value for one in behaviours for key, value in one(case_id, index).items()
    }


def failing(*case_ids: str, indices: Iterable[int] | None = None) -> Behaviour:
    """These cases fail, in every trial or in some; a name that ends in ``*`` means all of it."""
    chosen = None if indices is None else set(indices)

    def behave(case_id: str, index: int) -> Mapping[str, Any]:
        is_meant = any(
            case_id.startswith(name[:-1]) if name.endswith("*") else case_id == name
            for name in case_ids
        )
        is_hit = is_meant and (chosen is None or index in chosen)
        return {"outcome": "failed"} if is_hit else {}

    return either(steady, behave)


@dataclass(frozen=True)
class History:
    """Two disjoint sides of steady nights, and the night that is held against them."""

    cases: tuple[CaseStamp, ...]
    gates: tuple[GateStamp, ...] = ()
    nights: int = 20
    behaviour: Behaviour = steady
    constants: DecisionConstants = CONSTANTS

    @property
    def next_night(self) -> int:
        """The number of the night after the history."""
        return self.nights + 1

    def manifest(self, **given: Any) -> Manifest:
        """The manifest of the night after the history."""
        return manifest(self.next_night, self.cases, self.gates, **given)

    def decision(
        self,
        behaviour: Behaviour = steady,
        *,
        of: Manifest | None = None,
        critical: Sequence[CriticalFailure] = (),
        past_z: Mapping[str, Sequence[Sequence[float]]] | None = None,
        allowed_fresh: int | None = None,
        facts: Sequence[TrialFact] | None = None,
    ) -> Decision:
        """The decision on the night after the history, before any fresh trial."""
        night = of or self.manifest()
        return Decision(
            Night(
                manifest=night,
                facts=tuple(trials(night, behaviour) if facts is None else facts),
                screening=self._side(0),
                confirming=self._side(1),
                critical=tuple(critical),
                past_z=past_z or {},
                constants=self.constants,
                allowed_fresh=allowed_fresh,
            )
        )

    def _side(self, remainder: int) -> Baseline:
        past = [
            manifest(number, self.cases, self.gates)
            for number in range(1, self.nights + 1)
            if number % 2 == remainder
        ]
        return Baseline(
            manifests=tuple(past),
            facts=FactTable(fact for one in past for fact in trials(one, self.behaviour)),
        )


def concluded(decision: Decision, rerun: Behaviour = steady) -> Verdict:
    """The verdict after every batch that is asked for, in which the agent behaves as given."""
    of = decision.night.manifest
    return conclude_with(
        decision, lambda batch, need: trials(of, rerun, need, f"{of.run_id}-confirm{batch}")
    )


def conclude_with(decision: Decision, rerun: Rerun) -> Verdict:
    """The verdict after every batch that is asked for."""
    batches: list[str] = []
    while need := decision.confirmation.next_batch():
        decision.confirmation.add(rerun(len(batches) + 1, need))
        batches.append(f"{decision.night.manifest.run_id}-confirm{len(batches) + 1}")
    at = decision.night.manifest.planned_at + timedelta(hours=1)
    return decision.verdict(at, batches)


def found(verdict: Verdict, metric: str, level: str, group: str | None = None) -> Finding:
    """The one finding of that kind."""
    hits = [
        one
        for one in verdict.findings
        if (one.metric, one.level) == (metric, level) and group in (None, one.group)
    ]
    assert len(hits) == 1, [(one.metric, one.level, one.group) for one in verdict.findings]
    return hits[0]


def past(of: Manifest, **given: Any) -> PastNight:
    """A past night with a quiet verdict an hour after its slot; fields of it can be given."""
    graded = sum(stamp.trials for stamp in of.cases)
    fields: dict[str, Any] = {
        "run_id": of.run_id,
        "endpoint": of.endpoint,
        "suite": of.suite,
        "purpose": of.purpose,
        "slot_at": of.slot_at,
        "decided_at": of.planned_at + timedelta(hours=1),
        "state": "inconclusive",
        "reason": "within_noise",
        "broken": None,
        "counts": OutcomeCounts(planned=graded, passed=graded),
        "gates": (),
        "findings": (),
    }
    return PastNight(of, Verdict(**{**fields, **given}))
