"""Leases what several workers share: a global concurrency limit of Prefect's, by the shard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime

from prefect.concurrency.asyncio import (
    AcquireConcurrencySlotTimeoutError,
    ConcurrencySlotAcquisitionError,
    concurrency,
)

from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Clock
from watchkeeper.errors import BrokenEvaluation

LONGEST_WAIT_S = 4 * 3600.0


@contextlib.asynccontextmanager
async def shared_limit(
    endpoint: Endpoint, trial_count: int, finish_by: datetime | None, clock: Clock
) -> AsyncIterator[None]:
    """Around a shard: as many slots as it can use, where the endpoint names a limit.

    A shard that has waited until ``finish_by`` goes on without slots: none of its trials begins.
    A lease that cannot be renewed ends no trial that is paid for.

    Raises:
        BrokenEvaluation: The limit is missing, too small, or was not free in four hours.
    """
    name = endpoint.shared_limit
    if name is None:
        yield
        return
    slots = min(endpoint.concurrency, trial_count)
    left = LONGEST_WAIT_S
    if finish_by is not None:
        left = max((finish_by - clock.now()).total_seconds(), 0.0) + 1.0
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(
                concurrency(
                    name,
                    occupy=slots,
                    timeout_seconds=left,
                    strict=True,
                    raise_on_lease_renewal_failure=False,
                )
            )
        except AcquireConcurrencySlotTimeoutError as error:
            if finish_by is None:
                raise BrokenEvaluation(
                    f"endpoint '{endpoint.name}': {slots} slots of Prefect's limit '{name}' "
                    f"(shared_limit) were not free in {left / 3600:g} hours; raise the limit, or "
                    "look at who holds it: prefect gcl inspect " + name
                ) from error
        except ConcurrencySlotAcquisitionError as error:
            raise BrokenEvaluation(
                f"endpoint '{endpoint.name}': {slots} slots of Prefect's limit '{name}' "
                f"(shared_limit) cannot be had: {error}; create it, at least as large as the "
                f"endpoint's concurrency: prefect gcl create {name} --limit {endpoint.concurrency}"
            ) from error
        yield
