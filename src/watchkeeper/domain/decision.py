"""Constants of the decision procedure; docs/statistics.md says where each comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecisionConstants:
    """Levels are probabilities, floors are rate points or shares; the defaults were simulated."""

    suite_screen: float = 0.03
    group_screen: float = 0.01
    case_screen: float = 0.003
    night_alpha: float = 0.004
    futility_p: float = 0.25
    batch_count: int = 4
    case_rerun_trials: int = 5
    group_rerun_trials: int = 3
    pass_floor: float = 0.03
    suite_pass_floor: float = 0.02
    case_pass_floor: float = 0.30
    rounds_floor: float = 0.10
    suite_rounds_floor: float = 0.05
    case_rounds_floor: float = 0.30
    cost_floor: float = 0.05
    rerun_share: float = 0.5
    rerun_extra: int = 60
    minimum_coverage: float = 0.90
    minimum_matched: float = 0.80
    history_nights: int = 21
    first_verdict_history: int = 2
    recovery_nights: int = 3
