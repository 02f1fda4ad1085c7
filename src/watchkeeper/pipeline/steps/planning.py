"""Plans a run: what is served now, which trials are promised, and everything that explains them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from watchkeeper import __version__
from watchkeeper.domain.endpoint import Endpoint, ServedIdentity
from watchkeeper.domain.identity import trial_id
from watchkeeper.domain.ports import Adapter
from watchkeeper.domain.pricing import price_of
from watchkeeper.domain.run import (
    CaseStamp,
    GateStamp,
    Manifest,
    Purpose,
    RunPlan,
    RunRequest,
    SimulatorStamp,
)
from watchkeeper.domain.suite import Suite
from watchkeeper.domain.trial import PlannedTrial
from watchkeeper.errors import BrokenEvaluation, EndpointFault, UsageError
from watchkeeper.graders import grader_versions
from watchkeeper.loading.refusals import refusals
from watchkeeper.pipeline.steps import comparing, watching
from watchkeeper.pipeline.steps.instruments import (
    close_simulators,
    connect_simulators,
    simulator_stamps,
)
from watchkeeper.pipeline.steps.work import Workshop
from watchkeeper.rollout.mcp_tools import check_mcp
from watchkeeper.rollout.runner import MAX_TRIAL_ATTEMPTS
from watchkeeper.store.payloads import plan_from_json, to_json
from watchkeeper.wiring import Services

RESOLVE_TRIES = 3
RESOLVE_WAIT_S = 2.0
OUTAGE_WAIT_S = 30.0
LONGEST_WAIT_S = 600.0
ATTENDED: frozenset[Purpose] = frozenset({"on_demand", "ci", "migration"})
FREE_KINDS = frozenset({"scripted"})


def is_committed(services: Services, run_id: str) -> bool:
    """Whether the run is part of history already."""
    return services.records.is_committed(run_id)


async def plan_run(workshop: Workshop, request: RunRequest) -> RunPlan:
    """The plan of a run, written down before its first call, and the run opened for work.

    Raises:
        UsageError: What was asked for cannot be run, found before the first call.
        BrokenEvaluation: The run was begun with another version of the suite or endpoint.
    """
    services = workshop.services
    endpoint = services.project.endpoint(request.endpoint)
    suite = services.project.suite(request.suite)
    _check_request(services, endpoint, suite, request)
    config_hash = await check_mcp(endpoint, services.variables, services.project.root)
    endpoint = replace(endpoint, config_hash=config_hash)
    asked = request.trial_counts
    case_ids = {case.id for case in suite.cases if asked is None or asked.get(case.id)}
    simulators = connect_simulators(workshop, suite, case_ids)
    adapter = services.connect(endpoint)
    try:
        identity, fault = await _resolve(services, request, endpoint, adapter)
        if request.purpose == "nightly":
            await asyncio.to_thread(watching.announce_retirement, services, endpoint, identity)
        watching.refuse_retired(endpoint, identity)
        stamps = await simulator_stamps(services, simulators)
        fresh = _plan(services, request, endpoint, suite, identity, stamps)
        stored = plan_from_json(services.records.stage_plan(request.run_id, to_json(fresh)))
        _check_same(fresh, stored)
    except BaseException:
        await adapter.close()
        await close_simulators(simulators)
        raise
    run = await workshop.open(stored, suite, endpoint, adapter, fault, simulators)
    is_bounded = endpoint.run_budget_usd is not None or endpoint.run_token_cap is not None
    if is_bounded and request.confirms is not None:
        # A run and the fresh trials that examine it share the run's budget.
        run.runner.spending.add_spent(*comparing.runs_spending(services, [request.confirms]))
    return stored


def _check_request(
    services: Services, endpoint: Endpoint, suite: Suite, request: RunRequest
) -> None:
    known = {case.id for case in suite.cases}
    for case_id in request.trial_counts or {}:
        if case_id not in known:
            raise UsageError(f"suite '{suite.name}' has no case '{case_id}'")
    counts = request.trial_counts
    case_ids = None if counts is None else {name for name, count in counts.items() if count > 0}
    for reason in refusals(endpoint, suite, case_ids):
        raise UsageError(f"{reason}; nothing was called")
    has_budget = (
        endpoint.run_budget_usd is not None
        or services.project.night_budget_usd is not None
        or services.project.month_budget_usd is not None
    )
    is_bounded = endpoint.run_token_cap is not None or suite.limits.tokens is not None
    price = price_of(services.project.prices, endpoint.requested_model, services.clock.now())
    if has_budget and price is None and not is_bounded and endpoint.kind not in FREE_KINDS:
        raise UsageError(
            f"endpoint '{endpoint.name}': model '{endpoint.requested_model}' has no price in "
            "config/prices.yaml, so a budget in dollars cannot hold; add its price, or set "
            "run_token_cap for the endpoint or trial_limits.tokens for the suite"
        )


async def _resolve(
    services: Services, request: RunRequest, endpoint: Endpoint, adapter: Adapter
) -> tuple[ServedIdentity, EndpointFault | None]:
    """What is served now, or why that cannot be told.

    A run that nobody waits for waits out an outage at its start as it does later on: until its
    ``finish_by``, else for ``provider_wait_minutes``.
    """
    clock = services.clock
    patience = timedelta(minutes=services.project.provider_wait_minutes)
    until = clock.now() if request.purpose in ATTENDED else request.finish_by
    until = until or clock.now() + patience
    fault: EndpointFault | None = None
    for pause in _pauses():
        try:
            return _noted(endpoint, await adapter.resolve()), None
        except EndpointFault as error:
            fault = error
        is_short = pause <= RESOLVE_WAIT_S * RESOLVE_TRIES
        is_within = is_short or clock.now() + timedelta(seconds=pause) < until
        if not fault.is_transient or not is_within:
            break
        if not is_short:
            services.tell(f"{endpoint.name}: {fault}; asked again in {pause:g} s")
        await clock.sleep(pause)
    note = services.redactor.text(f"not resolved: {fault}")[:500]
    services.tell(f"{endpoint.name}: {note}")
    return _noted(endpoint, ServedIdentity(endpoint.requested_model, None, note=note)), fault


def _pauses() -> Iterator[float]:
    """Seconds between two tries: a few short ones, then longer and longer ones without end."""
    yield from (RESOLVE_WAIT_S * number for number in range(1, RESOLVE_TRIES))
    pause = OUTAGE_WAIT_S
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_WAIT_S)


def _noted(endpoint: Endpoint, identity: ServedIdentity) -> ServedIdentity:
    """The identity, and that its configuration is a copy where it is one."""
    if endpoint.source_note is None:
        return identity
    notes = [note for note in (identity.note, endpoint.source_note) if note]
    return replace(identity, note="; ".join(notes))


def _plan(
    services: Services,
    request: RunRequest,
    endpoint: Endpoint,
    suite: Suite,
    identity: ServedIdentity,
    simulators: tuple[SimulatorStamp, ...],
) -> RunPlan:
    counts = request.trial_counts
    if counts is None:
        counts = {case.id: suite.trials for case in suite.cases}
    stamps = tuple(
        CaseStamp(
            case_id=case.id,
            category=case.category,
            cluster_id=case.cluster_id,
            execution_hash=case.execution_hash(suite.limits),
            grading_hash=case.grading_hash,
            trials=counts[case.id],
            dimension=case.dimension,
            source=case.source,
            tags=dict(case.tags),
            weight=case.weight,
        )
        for case in suite.cases
        if counts.get(case.id, 0) > 0
    )
    categories = {stamp.category for stamp in stamps}
    is_whole = request.trial_counts is None
    trials = _ordered(request, stamps)
    manifest = Manifest(
        run_id=request.run_id,
        endpoint=endpoint.name,
        suite=suite.name,
        purpose=request.purpose,
        trigger=request.trigger,
        seed=request.seed,
        slot_at=request.slot_at,
        planned_at=services.clock.now(),
        confirms=request.confirms,
        suite_hash=suite.suite_hash,
        cases=stamps,
        gates=tuple(
            GateStamp(gate.category, gate.threshold, gate.action, gate.owner)
            for gate in suite.gates.values()
            if is_whole or gate.category in categories
        ),
        graders=grader_versions(),
        endpoint_kind=endpoint.kind,
        endpoint_owner=endpoint.owner,
        suite_owner=suite.owner,
        env=endpoint.env,
        endpoint_config_hash=endpoint.config_hash,
        identity=identity,
        limits={
            "rounds": float(suite.limits.rounds),
            "seconds": suite.limits.seconds,
            "tokens": None if suite.limits.tokens is None else float(suite.limits.tokens),
            "cost_usd": suite.limits.cost_usd,
            "run_budget_usd": endpoint.run_budget_usd,
        },
        attempt_policy={
            "call_retries": endpoint.call_retries,
            "trial_attempts": MAX_TRIAL_ATTEMPTS,
        },
        price_table_version=services.project.prices.version,
        engine_version=__version__,
        planned_count=len(trials),
        finish_by=request.finish_by,
        is_partial=not is_whole,
        simulators=simulators,
    )
    return RunPlan(manifest, trials)


def _ordered(request: RunRequest, stamps: tuple[CaseStamp, ...]) -> tuple[PlannedTrial, ...]:
    """The promised trials, shuffled by the seed and interleaved over the cases.

    An outage then hits every category alike.
    """
    rng = random.Random(f"{request.seed}/{request.run_id}/order")
    trials: list[PlannedTrial] = []
    for index in range(max((stamp.trials for stamp in stamps), default=0)):
        cases = [stamp.case_id for stamp in stamps if stamp.trials > index]
        rng.shuffle(cases)
        trials.extend(
            PlannedTrial(trial_id(request.run_id, case, index), case, index) for case in cases
        )
    return tuple(trials)


def _check_same(fresh: RunPlan, stored: RunPlan) -> None:
    """A run that was begun goes on only with the same suite and endpoint."""
    if fresh.manifest.planned_at == stored.manifest.planned_at:
        return
    names = ("suite_hash", "endpoint_config_hash", "engine_version", "purpose", "graders")
    different = [
        name for name in names if getattr(fresh.manifest, name) != getattr(stored.manifest, name)
    ]
    if replace(fresh, manifest=stored.manifest) != stored:
        different.append("trials")
    if different:
        raise BrokenEvaluation(
            f"run {stored.manifest.run_id} was begun at "
            f"{stored.manifest.planned_at:%Y-%m-%d %H:%M} UTC with another "
            f"{', '.join(different)}; a run is finished with what it was begun with. Restore "
            "that version to finish it, or delete the store's "
            f"staging/{stored.manifest.run_id}/ and this machine's copy to begin again"
        )
