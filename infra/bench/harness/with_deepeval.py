"""deepeval: it runs no agents, so outputs are collected first, as its guide does, then evaluated.

The semaphore is the harness's, because the program's own bound is on metrics.
"""

from __future__ import annotations

import asyncio

from agent import JOB, QUESTIONS, ask
from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase


async def main() -> list[LLMTestCase]:
    """A test case for every answer."""
    slots = asyncio.Semaphore(JOB["concurrency"])

    async def tried(question: str) -> LLMTestCase:
        async with slots:
            answer = await ask(question)
        return LLMTestCase(input=question, actual_output=answer, expected_output=JOB["answer"])

    return list(await asyncio.gather(*(tried(one) for one in QUESTIONS * JOB["repeats"])))


result = evaluate(
    test_cases=asyncio.run(main()),
    metrics=[ExactMatchMetric()],
    async_config=AsyncConfig(max_concurrent=JOB["concurrency"]),
    cache_config=CacheConfig(write_cache=False),
    display_config=DisplayConfig(
        show_indicator=False, print_results=False, inspect_after_run=False
    ),
)
passed_count = sum(bool(one.success) for one in result.test_results)
if passed_count != len(QUESTIONS) * JOB["repeats"]:
    raise SystemExit(f"only {passed_count} passed")
