"""A verdict as the one JSON object that ``--json`` prints; docs/json.md describes every key."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from watchkeeper.domain.run import OutcomeCounts
from watchkeeper.domain.verdict import Finding, GateResult, Measured, Verdict
from watchkeeper.notifiers import headline

UNITS = {"pass_rate": "rate_points", "rounds": "ratio", "cost_usd": "ratio"}


def verdict_json(verdict: Verdict) -> dict[str, object]:
    """A verdict as JSON can hold it: a number that is not known or not finite is ``None``."""
    suspected = verdict.suspected_cause
    shown: dict[str, object] = {
        "kind": "verdict",
        "schema_version": verdict.schema_version,
        "run_id": verdict.run_id,
        "endpoint": verdict.endpoint,
        "suite": verdict.suite,
        "purpose": verdict.purpose,
        "slot_at": _time(verdict.slot_at),
        "decided_at": _time(verdict.decided_at),
        "state": verdict.state,
        "reason": verdict.reason,
        "broken": verdict.broken,
        "status": headline.status(verdict),
        "headline": headline.headline(verdict),
        "exit_code": verdict.exit_code,
        "exit_meaning": headline.exit_meaning(verdict),
        "counts": _counts(verdict.counts),
        "gates": [_gate(gate) for gate in verdict.gates],
        "findings": [_finding(one) for one in verdict.findings],
        "critical": [
            {
                "case_id": one.case_id,
                "trial_id": one.trial_id,
                "category": one.category,
                "assertion": one.assertion,
                "reason": one.reason,
            }
            for one in verdict.critical
        ],
        "unchanged": list(verdict.unchanged),
        "changes": [
            {"what": one.what, "before": one.before, "after": one.after} for one in verdict.changes
        ],
        "suspected_cause": suspected.what if suspected else None,
        "baselines": {
            "screen_runs": list(verdict.screen_runs),
            "confirm_runs": list(verdict.confirm_runs),
            "fresh_runs": list(verdict.fresh_runs),
        },
        "cases": {
            "compared_count": verdict.compared_case_count,
            "added": list(verdict.added_cases),
            "removed": list(verdict.removed_cases),
            "changed": list(verdict.changed_cases),
        },
        "tools": [
            {
                "tool": one.tool,
                "case_count": one.case_count,
                "calls_per_trial": {"before": one.calls_before, "after": one.calls_after},
                "fruitless_per_trial": {
                    "before": one.fruitless_before,
                    "after": one.fruitless_after,
                },
            }
            for one in verdict.tool_shifts
        ],
        "barren_share": {"before": verdict.barren_before, "after": verdict.barren_after},
        "exemplars": [
            {
                "case_id": one.case_id,
                "passed": {"before": one.passed_before, "after": one.passed_after},
                "graded": {"before": one.graded_before, "after": one.graded_after},
                "rounds": {"before": one.rounds_before, "after": one.rounds_after},
                "barren_rounds": {"before": one.barren_before, "after": one.barren_after},
                "trial_id": one.trial_id,
                "note": one.note,
            }
            for one in verdict.exemplars
        ],
        "roots": [
            {
                "kind": one.kind,
                "name": one.name,
                "owner": one.owner,
                "severity": one.severity,
                "members": list(one.members),
            }
            for one in verdict.roots
        ],
        "overdispersion": verdict.overdispersion,
        "notes": list(verdict.notes),
        "served": [
            {
                "model": one.model,
                "trial_count": one.trial_count,
                "graded": one.graded,
                "passed": one.passed,
                "is_expected": one.is_expected,
            }
            for one in verdict.served
        ],
    }
    return {key: _storable(value) for key, value in shown.items()}


def _counts(counts: OutcomeCounts) -> dict[str, object]:
    return {
        "planned": counts.planned,
        "passed": counts.passed,
        "failed": counts.failed,
        "harness_error": counts.harness_error,
        "grader_error": counts.grader_error,
        "skipped": counts.skipped,
        "missing": counts.missing,
        "graded": counts.graded,
        "coverage": counts.coverage,
        "pass_rate": counts.pass_rate,
        "worst_pass_rate": counts.worst_pass_rate,
    }


def _gate(gate: GateResult) -> dict[str, object]:
    return {
        "category": gate.category,
        "threshold": gate.threshold,
        "action": gate.action,
        "owner": gate.owner,
        "state": gate.state,
        "acts": gate.acts,
        "counts": _counts(gate.counts),
        "low": gate.low,
        "high": gate.high,
        "failing_cases": list(gate.failing_cases),
        "rerun": {"graded": gate.fresh_graded, "passed": gate.fresh_passed},
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "metric": finding.metric,
        "unit": UNITS[finding.metric],
        "level": finding.level,
        "group": finding.group,
        "state": finding.state,
        "reason": finding.reason,
        "margin": finding.margin,
        "screened": _measured(finding.screened),
        "confirmed": _measured(finding.confirmed),
    }


def _measured(measured: Measured | None) -> dict[str, object] | None:
    if measured is None:
        return None
    return {
        "estimate": measured.estimate,
        "low": measured.low,
        "high": measured.high,
        "z": measured.z,
        "p_worse": measured.p_worse,
        "p_better": measured.p_better,
        "case_count": measured.case_count,
        "baseline_trial_count": measured.baseline_trial_count,
        "candidate_trial_count": measured.candidate_trial_count,
        "baseline_mean": measured.baseline_mean,
        "candidate_mean": measured.candidate_mean,
        "smallest_detectable": measured.smallest_detectable,
        "total_ratio": measured.total_ratio,
    }


def _time(at: datetime | None) -> str | None:
    if at is None:
        return None
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _storable(value: object) -> object:
    """``value`` without what strict JSON parsers refuse: NaN, infinities and lone surrogates."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_storable(key): _storable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_storable(one) for one in value]
    return value
