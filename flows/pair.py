"""One endpoint × suite of a night as a flow run of its own."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from watchkeeper.domain.run import RunRequest
from watchkeeper.domain.verdict import Verdict
from watchkeeper.flows.progress import shown_progress
from watchkeeper.flows.runs import FLOW, plain
from watchkeeper.flows.states import error_state, verdict_state
from watchkeeper.pipeline.nightly import evaluate_and_compare
from watchkeeper.pipeline.steps.bundle import Steps


@dataclass(slots=True)
class _Outcome:
    """What became of a pair, kept outside of Prefect's states."""

    verdict: Verdict | None = None
    error: Exception | None = None


class PairFlows:
    """Works out the pairs of one night, each in a subflow of its own.

    The subflows begin one after another and then run at the same time: SQLite takes one write at a
    time, and flow runs that begin together find it locked and wait for seconds.
    """

    def __init__(self) -> None:
        self._gate = asyncio.Lock()

    async def __call__(self, request: RunRequest, steps: Steps) -> Verdict:
        """The verdict of one endpoint × suite, from a subflow of that name.

        Prefect's trouble costs no verdict: one that was reached counts although its state could
        not be recorded, and where the subflow could not begin the pair runs without it.

        Raises:
            WatchkeeperError: What ended the pair.
        """
        outcome = _Outcome()
        services = steps.workshop.services
        with contextlib.ExitStack() as beginning:
            await self._gate.acquire()
            beginning.callback(self._gate.release)

            @flow(name="watchkeeper-pair", flow_run_name="{endpoint} × {suite}", **FLOW)
            async def pair(endpoint: str, suite: str, run_id: str) -> State[Any]:  # noqa: ARG001
                beginning.close()  # the next one may begin
                try:
                    async with shown_progress(services, endpoint, suite):
                        outcome.verdict = await evaluate_and_compare(request, steps)
                except Exception as error:  # noqa: BLE001 - raised again below, as it is
                    outcome.error = error
                    return error_state(error, services.redactor)
                return verdict_state(outcome.verdict)

            try:
                await pair(request.endpoint, request.suite, request.run_id, return_state=True)
            except Exception as trouble:  # noqa: BLE001 - bookkeeping never decides about a pair
                name = f"{request.endpoint} × {request.suite}"
                services.tell(f"{name}: Prefect: {plain(trouble, services)}")
        if outcome.error is not None:
            raise outcome.error
        if outcome.verdict is not None:
            return outcome.verdict
        return await evaluate_and_compare(request, steps)
