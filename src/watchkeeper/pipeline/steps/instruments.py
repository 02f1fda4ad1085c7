"""The models that play users in a run: connected, and asked what is served for them now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from watchkeeper.domain.run import SimulatorStamp
from watchkeeper.domain.suite import Suite
from watchkeeper.errors import EndpointFault
from watchkeeper.rollout.simulated_user import OpenSimulator
from watchkeeper.wiring import Services

if TYPE_CHECKING:
    from watchkeeper.pipeline.steps.work import Workshop


def connect_simulators(
    workshop: Workshop, suite: Suite, case_ids: Collection[str]
) -> dict[str, OpenSimulator]:
    """The simulated users of some cases, by name; no call is made yet.

    Raises:
        UsageError: A secret that one of them needs is not set.
    """
    names = {case.user.simulator for case in suite.cases if case.user and case.id in case_ids}
    services, opened = workshop.services, {}
    for name in sorted(names):
        simulator = services.project.simulators[name]
        adapter = services.connect(simulator.endpoint)
        account = workshop.account(simulator.endpoint, adapter)
        opened[name] = OpenSimulator(simulator, adapter, account)
    return opened


async def simulator_stamps(
    services: Services, opened: Mapping[str, OpenSimulator]
) -> tuple[SimulatorStamp, ...]:
    """What a run keeps of its simulated users; one that cannot be asked says why."""
    stamps: list[SimulatorStamp] = []
    for name, one in opened.items():
        resolved, note = None, None
        try:
            found = await one.adapter.resolve()
            resolved, note = found.resolved_model, found.note
        except EndpointFault as fault:
            note = services.redactor.text(f"not resolved: {fault}")[:500]
            services.tell(f"simulated user {name}: {note}")
        stamps.append(
            SimulatorStamp(
                name,
                one.simulator.identity,
                one.simulator.endpoint.requested_model,
                resolved,
                note,
            )
        )
    return tuple(stamps)


async def close_simulators(opened: Mapping[str, OpenSimulator]) -> None:
    """Frees their connections; never raises."""
    for one in opened.values():
        await one.adapter.close()
