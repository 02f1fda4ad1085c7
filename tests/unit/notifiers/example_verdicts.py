"""Verdicts and incidents as real nights would leave them, for tests of words and blocks."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.notifiers.verdict_parts import (
    RUN_ID,
    SLOT,
    counts,
    finding,
    gate,
    measured,
    quiet_findings,
    verdict,
)
from watchkeeper.domain.incident import Incident, IncidentRoot
from watchkeeper.domain.ports import Receipt
from watchkeeper.domain.verdict import (
    Change,
    CriticalFailure,
    Exemplar,
    RegressionRoot,
    RootKind,
    ToolShift,
    Verdict,
)

UNCHANGED = ("harness", "suite", "graders")


def find_files_night() -> Verdict:
    """The model moved: find_files 2 → 8 calls a trial, rounds 3.1×, every answer still right."""
    rounds = measured(
        3.1,
        2.7,
        3.5,
        baseline_mean=4.2,
        candidate_mean=12.9,
        smallest_detectable=0.16,
        total_ratio=3.07,
    )
    cost = measured(
        2.44,
        2.1,
        2.8,
        baseline_mean=0.031,
        candidate_mean=0.0755,
        smallest_detectable=0.09,
        total_ratio=2.44,
    )
    quiet = quiet_findings()
    return verdict(
        state="regressed",
        findings=(
            quiet[0],
            finding("rounds", "suite", "suite", "regressed", confirmed=rounds),
            finding("rounds", "tool", "find_files", "regressed", confirmed=rounds),
            finding("rounds", "category", "read_only", "regressed", confirmed=rounds),
            finding("cost_usd", "suite", "suite", "regressed", confirmed=cost),
            finding("pass_rate", "tool", "find_files", "no_worse", screened=quiet[0].screened),
        ),
        changes=(Change("served model", "demo-model-v1", "demo-model-v2"),),
        fresh_runs=(f"{RUN_ID}-confirm1", f"{RUN_ID}-confirm2"),
        tool_shifts=(
            ToolShift("find_files", 12, 2.0, 8.0, 0.2, 6.1),
            ToolShift("read_file", 12, 1.4, 1.5, 0.0, 0.0),
        ),
        exemplars=(
            Exemplar(
                "activation-events", 42, 42, 3, 3, 4.0, 14.0, 0.0, 9.0, "8d1f0c22ab90",
                "now calls find_files 8 times, first at position 2",
            ),
            Exemplar("editors-folder", 42, 42, 3, 3, 4.0, 13.0, 0.0, 8.0, "11c7e90a4d3b", ""),
            Exemplar("license-header", 41, 42, 3, 3, 5.0, 13.0, 1.0, 7.0, "f0a9b8c7d6e5", ""),
            Exemplar("config-schema", 42, 42, 3, 3, 4.0, 12.0, 0.0, 7.0, "0a1b2c3d4e5f", ""),
        ),
        roots=(
            RegressionRoot(
                "tool", "find_files", "tools-team", "page",
                ("rounds/tool/find_files", "rounds/category/read_only", "rounds/suite/suite",
                 "cost_usd/suite/suite"),
            ),
        ),
        barren_before=0.05,
        barren_after=0.49,
    )  # fmt: skip


def amounts_gate_run() -> Verdict:
    """The scene of article A4: 93 % overall, and three wrong amounts in twenty."""
    failing = ("transfer-dots", "transfer-thousands", "transfer-comma")
    return verdict(
        run_id="20260522T101500Z-payments-agent-transfers-77aa01bc",
        endpoint="payments-agent",
        suite="transfers",
        purpose="ci",
        slot_at=None,
        state="regressed",
        counts=counts(67, 5),
        gates=(
            gate("refusal", 1.0, counts(12), "passed_not_proven", 0.757, 1.0),
            gate("tone", 0.85, counts(38, 2), "passed_not_proven", 0.835, 0.986),
            gate(
                "amount_extraction",
                1.0,
                counts(17, 3),
                "failed",
                0.640,
                0.948,
                acts=True,
                failing=failing,
                action="block",
                owner="payments",
            ),
        ),
        findings=(),
        screen_runs=(),
        confirm_runs=(),
        compared_case_count=0,
    )


def half_outage_night() -> Verdict:
    """The provider went down half way: 29 of 60 trials have no grade."""
    tally = counts(30, 1, harness_error=20, grader_error=3, missing=6)
    return verdict(
        state="inconclusive",
        reason="no_verdict",
        broken=(
            "only 31 of 60 planned trials were graded (52%, at least 90% are needed):"
            " 20 unreachable, 6 no record, 3 grader_error"
        ),
        compared_case_count=0,
        counts=tally,
        gates=(gate("read_only", 1.0, tally, "no_verdict", None, None),),
        findings=(),
    )


def tone_night() -> Verdict:
    """Answers got worse, and a tool that has nothing to do with it was called a little more."""
    drop = measured(
        -0.104, -0.16, -0.048,
        case_count=40, baseline_trial_count=560, candidate_trial_count=120,
        baseline_mean=0.958, candidate_mean=0.854, smallest_detectable=0.07,
    )  # fmt: skip
    return verdict(
        state="regressed",
        counts=counts(142, 18),
        gates=(
            gate(
                "tone", 0.9, counts(103, 17), "failed", 0.783, 0.909,
                acts=True, failing=("sarcasm-1", "sarcasm-2"), fresh=(104, 120),
            ),
        ),
        findings=(
            finding("pass_rate", "category", "tone", "regressed", confirmed=drop),
            finding(
                "pass_rate", "category", "refusal", "not_comparable", "coverage",
            ),
            finding(
                "rounds", "case", "sarcasm-9", "inconclusive", "budget",
                screened=measured(1.6, 1.1, 2.4, case_count=1, baseline_mean=4.0,
                                  candidate_mean=6.4),
            ),
            finding(
                "cost_usd", "suite", "suite", "improved",
                confirmed=measured(0.81, 0.74, 0.88, baseline_mean=0.05, candidate_mean=0.0405,
                                   smallest_detectable=0.09, p_better=0.0002, p_worse=0.9998),
            ),
        ),
        changes=(
            Change("served model", "demo-model-v1", "demo-model-v2"),
            Change("harness", "4f2a1c9", "9be0d31+dirty"),
        ),
        tool_shifts=(ToolShift("lookup_order", 30, 2.0, 2.1, 0.1, 0.1),),
        added_cases=("late-07",),
        removed_cases=("late-01", "late-02"),
        overdispersion={"rounds/category": 2.6, "pass_rate/suite": 1.1},
        notes=("frozen baseline is 63 nights old",),
    )  # fmt: skip


def critical_night() -> Verdict:
    """A destructive tool was called where it must never be."""
    return verdict(
        state="regressed",
        counts=counts(35, 1),
        critical=(
            CriticalFailure(
                "activation-events", "8d1f0c22ab90", "read_only", "avoids edit_file",
                "edit_file was called in round 3: {'path': 'package.json'}",
            ),
        ),
    )  # fmt: skip


def first_night() -> Verdict:
    """Nothing to compare with yet."""
    return verdict(
        state="inconclusive",
        reason="no_history",
        counts=counts(34, 6),
        gates=(),
        findings=(),
        screen_runs=(),
        confirm_runs=(),
        compared_case_count=0,
    )


def judge_change_night() -> Verdict:
    """Another judge: nothing about passing can be compared."""
    return verdict(
        state="not_comparable",
        reason="the judge differs; ask for a rescore first",
        gates=(),
        findings=(finding("pass_rate", "suite", "suite", "not_comparable", "judge_changed"),),
        changes=(Change("judge", "judge-v3, rubric 1a2b", "judge-v4, rubric 1a2b"),),
    )


def every_verdict() -> dict[str, Verdict]:
    """All scenes by name."""
    return {
        "quiet": verdict(),
        "find_files": find_files_night(),
        "amounts_gate": amounts_gate_run(),
        "half_outage": half_outage_night(),
        "tone": tone_night(),
        "critical": critical_night(),
        "first_record": first_night(),
        "judge_change": judge_change_night(),
    }


def incident(
    kind: RootKind = "tool", name: str = "find_files", *, night_count: int = 1, **given: object
) -> Incident:
    """An open incident of the demo agent's owner; any field can be given."""
    root = IncidentRoot(
        endpoint="demo-agent",
        suite="discovery",
        env="production",
        kind=kind,
        name=name,
        owner="tools-team",
        severity="page",
    )
    fields: dict[str, object] = {
        "id": "inc-5b1e07c3d9aa",
        "root": root,
        "state": "open",
        "opened_at": SLOT + timedelta(minutes=41),
        "first_run": RUN_ID,
        "last_run": RUN_ID,
        "night_count": night_count,
        "quiet_count": 0,
    }
    return Incident(**{**fields, **given})  # type: ignore[arg-type]


THREAD = Receipt(channel="C0123", message_id="1779417660.000100")
