"""Commands that look and change nothing: plan, diff, doctor, baseline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from watchkeeper.cli.context import run_async
from watchkeeper.errors import EXIT_OK, EXIT_USAGE, UsageError, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context
    from watchkeeper.store.records import Commit


def plan(context: Context, suite_name: str, endpoint_name: str, *, as_json: bool) -> None:
    """Shows what a run will take and what it can see."""
    from watchkeeper.pipeline.forecast import forecast
    from watchkeeper.store.payloads import to_json

    services = context.services()
    endpoint = services.project.endpoint(endpoint_name)
    suite = services.project.suite(suite_name)
    seen = forecast(services, endpoint, suite)
    if as_json:
        print(json.dumps(to_json(seen), ensure_ascii=False))
        return
    print(f"{endpoint.name} × {suite.name}: {suite.claim}")
    print(
        f"trials: {seen.trial_count} ({seen.case_count} cases × {suite.trials}), "
        f"with every rerun at most {seen.worst_trial_count}"
    )
    if seen.cost_usd is None:
        print("cost: unknown, no complete and priced run of it yet")
    else:
        print(
            f"cost: ${seen.cost_usd:.2f}, with every rerun at most ${seen.worst_cost_usd:.2f} "
            f"(from {seen.run_count} runs)"
        )
    time = "unknown"
    if seen.minutes is not None:
        time = "under a minute" if seen.minutes < 1 else f"about {seen.minutes:.0f} minutes"
    print(f"time: {time} at a concurrency of {endpoint.concurrency}")
    assumed = "assumed" if seen.pass_rate is None else f"from {seen.run_count} runs"
    rate = 0.9 if seen.pass_rate is None else seen.pass_rate
    if seen.smallest_drop is not None:
        print(
            f"smallest fall of the pass rate that is seen 8 times in 10: "
            f"{seen.smallest_drop * 100:.0f} points (pass rate {rate:.0%}, {assumed})"
        )
    if seen.is_over_budget:
        print(f"over budget: at most ${seen.budget_usd:.2f}; the run would stop before its end")


def diff(context: Context, run_id: str | None, against: str | None, *, as_json: bool) -> int:
    """Shows the stored verdict of a run, or compares it with another run; the exit code."""
    from watchkeeper.cli.running import print_verdict
    from watchkeeper.pipeline.steps.comparing import open_decision, stored_verdict

    services = context.services(sources="copies")
    commits = [
        commit for commit in services.records.commits() if commit.manifest["purpose"] != "confirm"
    ]
    commit = _chosen(commits, run_id)
    if against is None:
        held = stored_verdict(services, commit.run_id)
        if held is not None:
            print_verdict(held, as_json=as_json)
            return held.exit_code
        decision = open_decision(services, commit.run_id)
    else:
        other = _other(commits, commit, against)
        decision = open_decision(services, commit.run_id, [other.run_id])
    verdict = decision.verdict(
        services.clock.now(), notes=["compared without fresh trials: nothing here is confirmed"]
    )
    print_verdict(verdict, as_json=as_json)
    return verdict.exit_code


def doctor(context: Context) -> int:
    """Checks everything that a night needs, one line each; 2 where something is missing."""
    from watchkeeper.pipeline.watch import look

    code = EXIT_OK
    root = context.root()
    print(f"ok    project {root}")
    project = context.project("insist")
    print(f"ok    files: {len(project.endpoints)} endpoints, {len(project.suites)} suites")
    try:
        services = context.services(tells_people=True, sources="copies")
        services.records.objects.probe()
        print(f"ok    store {services.records.objects.url}")
        print(f"ok    notifier {type(services.notifier).__name__}")
    except WatchkeeperError as error:
        print(f"FAIL  {error}")
        return EXIT_USAGE
    for seen in run_async(look(services)).seen:
        name, identity = seen.endpoint.name, seen.served
        if identity is None:
            code = EXIT_USAGE
            print(f"FAIL  endpoint {name}: {seen.trouble}")
        elif identity.lifecycle == "retired":
            code = EXIT_USAGE
            print(f"FAIL  endpoint {name}: {identity.resolved_model} has retired; runs are refused")
        else:
            served = identity.resolved_model or f"not verifiable ({identity.note})"
            print(f"ok    endpoint {name}: {identity.requested_model} → {served}")
    waiting = len(services.records.unsent_messages())
    if waiting:
        print(f"note  {waiting} messages wait in the outbox; the next night sends them")
    return code


def baseline(context: Context, suite: str, endpoint: str) -> None:
    """Shows the accepted nights and on which side each stands."""
    from dataclasses import replace

    from watchkeeper.pipeline.steps.comparing import open_and_past_incidents, past_nights
    from watchkeeper.stats.baselines import accepted_nights, split_history

    services = context.services(sources="copies")
    services.project.endpoint(endpoint)
    services.project.suite(suite)
    nights = past_nights(services, endpoint, suite)
    if not nights:
        print(f"no run of {endpoint} × {suite} yet; nothing is compared")
        return
    newest = nights[-1].manifest
    ahead = replace(newest, run_id="", slot_at=None, planned_at=services.clock.now())
    constants = services.project.constants
    accepted = accepted_nights(ahead, nights, open_and_past_incidents(services), constants)
    split = split_history(accepted, constants)
    nightly = sum(night.manifest.purpose == "nightly" for night in nights)
    print(f"{endpoint} × {suite}: {len(accepted)} of {nightly} nights accepted")
    if not split.screening:
        print(f"nothing is compared before {constants.first_verdict_history} nights are accepted")
    screening = {night.manifest.run_id for night in split.screening}
    for night in split.accepted:
        side = "screens" if night.manifest.run_id in screening else "confirms"
        at = night.manifest.slot_at or night.manifest.planned_at
        print(f"  {at:%Y-%m-%d %H:%M} UTC  {side:<9} {night.manifest.run_id}")


def _chosen(commits: list[Commit], run_id: str | None) -> Commit:
    from watchkeeper.parsing.suggest import known_names

    if not commits:
        raise UsageError("no run yet: make one with 'watchkeeper run SUITE -e ENDPOINT'")
    if run_id is None:
        return max(commits, key=lambda commit: (commit.committed_at, commit.run_id))
    for commit in commits:
        if commit.run_id == run_id:
            return commit
    names = known_names(run_id, [commit.run_id for commit in commits], limit=3)
    raise UsageError(f"there is no run '{run_id}'; {names}")


def _other(commits: list[Commit], commit: Commit, against: str) -> Commit:
    if against in ("pinned", "rolling"):
        raise UsageError(
            f"--against {against}: not supported by this version; leave it out for the verdict's "
            "own baselines, or name 'previous' or a run"
        )
    if against != "previous":
        return _chosen(commits, against)
    earlier = [
        one
        for one in commits
        if one.manifest["endpoint"] == commit.manifest["endpoint"]
        and one.manifest["suite"] == commit.manifest["suite"]
        and one.manifest["planned_at"] < commit.manifest["planned_at"]
    ]
    if not earlier:
        raise UsageError(f"there is no run before {commit.run_id} of the same endpoint and suite")
    return max(earlier, key=lambda one: one.manifest["planned_at"])
