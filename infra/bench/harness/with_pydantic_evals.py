"""pydantic-evals: a dataset, a task function, its own concurrency, repeats and evaluator."""

from __future__ import annotations

import asyncio

from agent import JOB, QUESTIONS, ask
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains


async def main() -> None:
    """Every case as often as the job says; a failed one ends this with 1."""
    dataset = Dataset(
        name="bench",
        cases=[Case(name=question, inputs=question) for question in QUESTIONS],
        evaluators=[Contains(JOB["answer"])],
    )
    report = await dataset.evaluate(
        ask, max_concurrency=JOB["concurrency"], repeat=JOB["repeats"], progress=False
    )
    passed = sum(all(one.value for one in case.assertions.values()) for case in report.cases)
    if passed != len(QUESTIONS) * JOB["repeats"]:
        raise SystemExit(f"only {passed} passed")


asyncio.run(main())
