"""Loads what a decision needs from the store, and stores what was decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.incident import Incident, fold
from watchkeeper.domain.run import Manifest
from watchkeeper.domain.verdict import CriticalFailure, Verdict
from watchkeeper.errors import BrokenEvaluation
from watchkeeper.stats.baselines import PastNight, accepted_nights, past_z_values, split_history
from watchkeeper.stats.decide import Baseline, Decision, Night
from watchkeeper.store.history import History
from watchkeeper.store.payloads import (
    event_from_json,
    manifest_from_json,
    verdict_from_json,
    verdict_to_json,
)
from watchkeeper.wiring import Services


def stored_verdict(services: Services, run_id: str) -> Verdict | None:
    """The verdict of a run, where it was concluded before."""
    found = services.records.verdict(run_id)
    return None if found is None else verdict_from_json(found)


def open_decision(
    services: Services, run_id: str, baseline_runs: Iterable[str] | None = None
) -> Decision:
    """A decision on a committed run, ready for its fresh trials.

    Args:
        services: The parts to work with.
        run_id: The run.
        baseline_runs: Runs to hold it against in place of the accepted nights.

    Raises:
        BrokenEvaluation: The run is not committed.
    """
    history = services.history()
    commits = {commit.run_id: commit for commit in history.commits}
    if run_id not in commits:
        raise BrokenEvaluation(f"run {run_id} is not in the store; its trials were never committed")
    manifest = manifest_from_json(commits[run_id].manifest)
    nights = past_nights(services, manifest.endpoint, manifest.suite, history)
    constants = services.project.constants
    incidents = open_and_past_incidents(services)
    if baseline_runs is None:
        accepted = accepted_nights(manifest, nights, incidents, constants)
        split = split_history(accepted, constants)
        screening, confirming = split.screening, split.confirming
        past_z = past_z_values(split.accepted)
    else:
        wanted = set(baseline_runs)
        screening = tuple(night for night in nights if night.manifest.run_id in wanted)
        confirming, past_z = screening, {}
    wanted_runs = [run_id, *(one.manifest.run_id for one in (*screening, *confirming))]
    facts = load_facts(history, wanted_runs)
    return Decision(
        Night(
            manifest=manifest,
            facts=tuple(fact for fact in facts if fact.run_id == run_id),
            screening=_baseline(screening, facts),
            confirming=_baseline(confirming, facts),
            critical=_critical(history, run_id),
            past_z=past_z,
            constants=constants,
            unsound=history.unsound_rows(run_id),
            allowed_fresh=_allowed_fresh(services, manifest, facts),
        )
    )


def past_nights(
    services: Services, endpoint: str, suite: str, history: History | None = None
) -> list[PastNight]:
    """Every committed run of an endpoint and suite with its verdict, oldest first.

    Reruns that confirmed something are left out.
    """
    commits = history.commits if history is not None else services.records.commits()
    verdicts = {verdict["run_id"]: verdict for verdict in services.records.verdicts()}
    nights = [
        PastNight(
            manifest_from_json(commit.manifest),
            verdict_from_json(verdicts[commit.run_id]) if commit.run_id in verdicts else None,
        )
        for commit in commits
        if commit.manifest.get("endpoint") == endpoint
        and commit.manifest.get("suite") == suite
        and commit.manifest.get("purpose") != "confirm"
    ]
    return sorted(nights, key=lambda night: night.manifest.planned_at)


def run_facts(services: Services, run_id: str) -> list[TrialFact]:
    """The facts of one committed run."""
    return load_facts(services.history(), [run_id])


def load_facts(history: History, run_ids: Iterable[str]) -> list[TrialFact]:
    """The facts of some committed runs."""
    ids = list(dict.fromkeys(run_ids))
    rows = history.rows("trial_facts", {"run_ids": ids}, ids)
    return [_fact(row) for row in rows]


def critical_failures(services: Services, run_id: str) -> tuple[CriticalFailure, ...]:
    """The critical assertions that failed in one committed run."""
    return _critical(services.history(), run_id)


def store_verdict(services: Services, verdict: Verdict) -> Verdict:
    """The verdict that holds: this one, or the one that was stored before."""
    cleaned = services.redactor.value(verdict_to_json(verdict))
    if isinstance(cleaned, dict) and services.records.put_verdict(verdict.run_id, cleaned):
        return verdict_from_json(cleaned)
    held = stored_verdict(services, verdict.run_id)
    return held if held is not None else verdict


def open_and_past_incidents(services: Services) -> list[Incident]:
    """Every incident of the store."""
    return list(fold(event_from_json(event) for event in services.records.events()).values())


def month_spending(services: Services) -> float:
    """Dollars paid for all runs of this calendar month (UTC); unpriced trials count as nothing."""
    month = f"{services.clock.now():%Y-%m}"
    rows = services.history().rows("spending_of_month", {"month": month})
    return float(rows[0]["cost_usd"] or 0.0) if rows else 0.0


def slot_spending(services: Services, run_ids: Iterable[str]) -> float:
    """Dollars paid for some committed runs and their confirmations."""
    return runs_spending(services, run_ids)[0]


def runs_spending(services: Services, run_ids: Iterable[str]) -> tuple[float, int]:
    """Dollars and tokens that some committed runs and their confirmations took.

    Unpriced trials, and those whose tokens nobody counted, count as nothing.
    """
    wanted = set(run_ids)
    history = services.history()
    chosen = [
        commit.run_id
        for commit in history.commits
        if commit.run_id in wanted or commit.manifest.get("confirms") in wanted
    ]
    if not chosen:
        return 0.0, 0
    rows = history.rows("spending_of_runs", {"run_ids": chosen}, chosen)
    return (float(rows[0]["cost_usd"] or 0.0), int(rows[0]["token_count"] or 0))


def _allowed_fresh(
    services: Services, manifest: Manifest, facts: Iterable[TrialFact]
) -> int | None:
    """Fresh trials that the run's own budget leaves room for; ``None``: it has no budget."""
    endpoint = services.project.endpoints.get(manifest.endpoint)
    if endpoint is None or endpoint.run_budget_usd is None:
        return None
    costs = [fact.cost_usd for fact in facts if fact.run_id == manifest.run_id]
    known = [cost for cost in costs if cost is not None]
    if not known or max(known) <= 0:
        return None
    left = endpoint.run_budget_usd - sum(known)
    return max(0, int(left / (sum(known) / len(known))))


def _baseline(nights: tuple[PastNight, ...], facts: Iterable[TrialFact]) -> Baseline:
    ids = {night.manifest.run_id for night in nights}
    return Baseline(
        manifests=tuple(night.manifest for night in nights),
        facts=FactTable(fact for fact in facts if fact.run_id in ids),
    )


def _critical(history: History, run_id: str) -> tuple[CriticalFailure, ...]:
    rows = history.rows("failed_assertions", {"run_id": run_id}, [run_id])
    return tuple(
        CriticalFailure(
            case_id=row["case_id"],
            trial_id=row["trial_id"],
            category=row["category"],
            assertion=row["assertion"],
            reason=row["reason"] or "",
        )
        for row in rows
        if row["severity"] == "critical" and row["outcome"] == "failed"
    )


def _fact(row: Mapping[str, Any]) -> TrialFact:
    tools = row["tools"] or []
    fruitless = row["fruitless"] or []
    return TrialFact(
        run_id=row["run_id"],
        trial_id=row["trial_id"],
        case_id=row["case_id"],
        trial_index=row["trial_index"],
        category=row["category"],
        cluster_id=row["cluster_id"],
        outcome=row["outcome"],
        execution_hash=row["execution_hash"],
        grading_hash=row["grading_hash"] or "",
        round_count=row["round_count"],
        barren_round_count=row["barren_round_count"],
        cost_usd=row["cost_usd"],
        served_model=row["served_model"],
        stop_reason=row["stop_reason"],
        error_kind=row["error_kind"],
        critical_failure_count=row["critical_failure_count"],
        tool_calls=dict(Counter(tools)),
        fruitless_calls=dict(
            Counter(tool for tool, is_bare in zip(tools, fruitless, strict=True) if is_bare)
        ),
    )
