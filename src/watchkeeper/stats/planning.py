"""What an evaluation costs people and money, before it is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JudgeCost:
    """What a judge reads and writes over a suite, in millions of tokens, and what it costs.

    Tokens and ``run_usd`` count one vote per question, the other two amounts all votes.
    """

    input_mtok: float
    output_mtok: float
    run_usd: float
    run_with_votes_usd: float
    month_usd: float


def suite_cost(
    cases: int,
    input_tokens: int,
    output_tokens: int,
    orders: int,
    usd_per_input_mtok: float,
    usd_per_output_mtok: float,
    votes: int,
    runs_per_month: int,
) -> JudgeCost:
    """Cost of judging a suite; the agent's own calls are not in it.

    Args:
        cases: Cases of the suite, one trial each.
        input_tokens: Read by the judge per question.
        output_tokens: Written by the judge per question.
        orders: Questions per case: 2 where both orders of a pair are asked, else 1.
        usd_per_input_mtok: Price of a million tokens read.
        usd_per_output_mtok: Price of a million tokens written.
        votes: Answers asked for per question.
        runs_per_month: Runs of the suite, each with all its votes.
    Source: docs/statistics.md#planning
    """
    input_mtok = cases * orders * input_tokens / 1e6
    output_mtok = cases * orders * output_tokens / 1e6
    run_usd = input_mtok * usd_per_input_mtok + output_mtok * usd_per_output_mtok
    run_with_votes_usd = run_usd * votes
    return JudgeCost(
        input_mtok, output_mtok, run_usd, run_with_votes_usd, run_with_votes_usd * runs_per_month
    )


def labelling_hours(case_count: int, minutes_per_case: float = 2.0) -> float:
    """Hours a person needs to label that many cases.

    Source: docs/statistics.md#planning
    """
    return case_count * minutes_per_case / 60
