"""No peer but a yardstick: the SDK's calls and nothing else, neither cases nor records."""

from __future__ import annotations

import asyncio

from agent import JOB, QUESTIONS, ask


async def main() -> None:
    """Every question as often as the job says."""
    slots = asyncio.Semaphore(JOB["concurrency"])

    async def tried(question: str) -> bool:
        async with slots:
            return JOB["answer"] in await ask(question)

    if not all(await asyncio.gather(*(tried(one) for one in QUESTIONS * JOB["repeats"]))):
        raise SystemExit("a wrong answer")


asyncio.run(main())
