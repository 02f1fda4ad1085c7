"""Every reference vector (statsmodels, scipy, scikit-learn, R) is reproduced by a function here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.stats import agreement, bootstrap, intervals, multiplicity, paired, planning, power
from watchkeeper.stats import summaries as summary
from watchkeeper.stats.exact import rank_permutation_greater
from watchkeeper.stats.samples import Sample
from watchkeeper.stats.tests import stratified_exact, stratified_rank_sum

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "stats_vectors.json").read_text())[
    "vectors"
]
NOT_YET: dict[str, str] = {}  # function name -> why no function answers its vectors

Input = dict[str, Any]


def stratified_exact_lower(given: Input) -> dict[str, float | None]:
    """P and mid-p of a fall, from rows of counts."""
    rows = given["rows_baseline_pass_n_candidate_pass_n"]
    before = Sample.from_counts([row[0] for row in rows], [row[1] for row in rows])
    after = Sample.from_counts([row[2] for row in rows], [row[3] for row in rows])
    result = stratified_exact(before, after)
    assert result is not None
    return {"lower_p": result.exact_p, "lower_mid_p": result.p_worse}


def stratified_rank_sum_greater(given: Input) -> dict[str, float | None]:
    """Z and p of a rise, from strata of values."""
    result = stratified_rank_sum(
        Sample.from_rows([stratum["baseline"] for stratum in given["strata"]]),
        Sample.from_rows([stratum["candidate"] for stratum in given["strata"]]),
    )
    assert result is not None
    if not result.informative_case_count:  # the vectors call this undefined; the test says z = 0
        assert (result.z, result.p_worse) == (0.0, 0.5)
        return {"z": None, "p_greater": None}
    return {"z": result.z, "p_greater": result.p_worse}


def paired_t(given: Input) -> dict[str, Any]:
    """The paired t under the names of the vector."""
    result = paired.paired_t(**given)
    assert result is not None
    return {
        "mean": result.mean,
        "t": result.t,
        "p_two_sided": result.p_two_sided,
        "ci95": [result.low, result.high],
    }


def paired_log_ratio(given: Input) -> dict[str, Any]:
    """The geometric mean ratio under the names of the vector."""
    result = paired.paired_log_ratio(**given)
    assert result is not None
    return {
        "geo_mean_ratio": result.geometric_mean_ratio,
        "ci95": [result.low, result.high],
        "p_two_sided": result.p_two_sided,
        "ratio_of_means": result.ratio_of_means,
    }


def mcnemar_exact(given: Input) -> dict[str, float]:
    """McNemar's p values under the names of the vector."""
    result = paired.mcnemar_exact(**given)
    return {
        "two_sided": result.two_sided,
        "one_sided_regression": result.one_sided_regression,
        "mid_p_two_sided": result.mid_p_two_sided,
    }


def suite_cost(given: Input) -> dict[str, float]:
    """Tokens and dollars under the names of the vector."""
    cost = planning.suite_cost(
        cases=given["cases"],
        input_tokens=given["in_tokens"],
        output_tokens=given["out_tokens"],
        orders=given["orders"],
        usd_per_input_mtok=given["usd_in"],
        usd_per_output_mtok=given["usd_out"],
        votes=given["votes"],
        runs_per_month=given["prs"],
    )
    names = ("mtok_in", "mtok_out", "usd_run", "usd_run_votes", "usd_month")
    return dict(zip(names, astuple(cost), strict=True))


def slice_means(given: Input) -> dict[str, float | None]:
    """Slice means of named slices."""
    means = summary.slice_means([(s, n) for _, s, n in given["slices"]], given["weights"])
    return {"pooled": means.pooled, "equal_slice": means.equal_slice, "weighted": means.weighted}


def pass_hat_k_mean(given: Input) -> float | None:
    """The mean of pass^k over cases of which some passed every trial."""
    all_pass, cases, k = given["cases_all_three_pass"], given["cases"], given["k"]
    return summary.pass_hat_k_mean(
        [k] * all_pass + [k - 1] * (cases - all_pass), [k] * cases, given["k"]
    )


def cluster_bootstrap_enumerated(given: Input) -> dict[str, float]:
    """The spread over all resamples under the names of the vector."""
    spread = bootstrap.cluster_bootstrap_enumerated(given["clusters"])
    return {
        "mean": spread.mean,
        "boot_sd": spread.standard_deviation,
        "distinct": spread.resample_count,
    }


def adjusted(result: multiplicity.Adjusted) -> dict[str, list[Any]]:
    """Arrays as lists."""
    return {"reject": result.reject.tolist(), "adjusted": result.adjusted.tolist()}


FUNCTIONS: dict[str, Callable[[Input], Any]] = {
    "benjamini_hochberg": lambda g: adjusted(multiplicity.benjamini_hochberg(g["p"], g["alpha"])),
    "bootstrap_bca_ratio_of_means": lambda g: bootstrap.bootstrap_bca_ratio_of_means(
        g["baseline"], g["candidate"], 1, g["confidence"], draws=20_000
    ),
    "bootstrap_percentile_mean": lambda g: bootstrap.bootstrap_percentile_mean(
        g["d"], 1, g["confidence"], draws=20_000
    ),
    "brier_binary": lambda g: agreement.brier_binary(g["p"], g["y"]),
    "clopper_pearson_upper95": lambda g: intervals.clopper_pearson_upper(**g),
    "cluster_bootstrap_enumerated": cluster_bootstrap_enumerated,
    "cohen_kappa": lambda g: agreement.cohen_kappa(**g),
    "cohen_kappa_table": lambda g: agreement.cohen_kappa_table(**g),
    "cost_per_completed_valid": lambda g: summary.cost_per_completed(
        g["total_cost"], g["completed_valid"]
    ),
    "holm": lambda g: adjusted(multiplicity.holm(g["p"], g["alpha"])),
    "hours": lambda g: [
        planning.labelling_hours(cases, g["minutes_per_case"]) for cases in g["cases"]
    ],
    "majority_of_3_error": lambda g: agreement.majority_of_3_error(**g),
    "mcnemar_exact": mcnemar_exact,
    "n_per_arm_two_proportions": lambda g: power.n_per_arm_two_proportions(**g),
    "paired_log_ratio": paired_log_ratio,
    "paired_t": paired_t,
    "pass_at_k": lambda g: summary.pass_at_k(**g),
    "pass_hat_k": lambda g: summary.pass_hat_k(**g),
    "pass_hat_k_mean": pass_hat_k_mean,
    "rank_permutation_greater": lambda g: rank_permutation_greater(**g),
    "sign_flip_permutation_lower": lambda g: paired.sign_flip_permutation_lower(g["d"]),
    "slice_means": slice_means,
    "stratified_exact_lower": stratified_exact_lower,
    "stratified_rank_sum_greater": stratified_rank_sum_greater,
    "suite_cost": suite_cost,
    "wilson_interval": lambda g: intervals.wilson_interval(**g),
    "zero_failure_mde80": lambda g: power.zero_failure_mde80(**g),
    "zero_failure_upper95": lambda g: intervals.zero_failure_upper(g["n"], g["confidence"]),
}


def agrees(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether both have the same shape, the same truths and numbers within the tolerance."""
    if isinstance(expected, dict):
        return set(got) == set(expected) and all(
            agrees(got[key], expected[key], tolerance) for key in expected
        )
    if isinstance(expected, list):
        return len(got) == len(expected) and all(
            agrees(one, other, tolerance) for one, other in zip(got, expected, strict=True)
        )
    if expected is None or isinstance(expected, bool):
        return got is expected
    return got is not None and abs(got - expected) <= tolerance


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_vector(vector: dict[str, Any]) -> None:
    """A named tool's answer to a given input is ours, within the vector's tolerance."""
    if reason := NOT_YET.get(vector["function"]):
        pytest.skip(reason)
    got = FUNCTIONS[vector["function"]](vector["input"])
    assert agrees(got, vector["expected"], vector["tolerance"]), got


def test_every_function_of_the_vectors_is_answered_or_excused() -> None:
    """No vector is passed over in silence, and no excuse outlives its reason."""
    named = {vector["function"] for vector in VECTORS}
    assert len(VECTORS) == 127
    assert named == set(FUNCTIONS) | set(NOT_YET)
    assert not set(FUNCTIONS) & set(NOT_YET)
