"""Commands that make trials: run, nightly, serve."""

from __future__ import annotations

import fnmatch
import json
import sys
from typing import TYPE_CHECKING, cast

from watchkeeper.cli.context import run_async, say
from watchkeeper.cli.progress import showing
from watchkeeper.cli.streams import guarded_output
from watchkeeper.errors import BrokenEvaluation, UsageError

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context
    from watchkeeper.domain.redaction import Redactor
    from watchkeeper.domain.run import Purpose, RunRequest
    from watchkeeper.domain.suite import Suite
    from watchkeeper.domain.verdict import Verdict
    from watchkeeper.pipeline.nightly import NightResult
    from watchkeeper.wiring import Services

_PURPOSES = ("on_demand", "ci")


def run(
    context: Context,
    *,
    suite: str,
    endpoint: str,
    trials: int | None,
    cases: tuple[str, ...],
    resume: str | None,
    purpose: str,
    as_json: bool,
) -> int:
    """One evaluation now; the exit code of its verdict.

    Raises:
        UsageError: The request cannot be run; nothing was called.
        BrokenEvaluation: No case was selected, or the run could not be finished.
    """
    from watchkeeper.pipeline.nightly import evaluate_and_compare, shared_spending
    from watchkeeper.pipeline.steps.bundle import plain_steps
    from watchkeeper.pipeline.steps.committing import refresh_catalog
    from watchkeeper.pipeline.steps.work import Workshop

    services = context.services(out=sys.stderr)
    services.prove_store()
    request = (
        _resumed(services, resume)
        if resume is not None
        else _requested(services, suite, endpoint, trials, cases, purpose)
    )
    workshop = Workshop(services, night=shared_spending(services, [request], is_night=False))
    steps = plain_steps(workshop)
    say(f"run {request.run_id}")
    with showing(services.board), guarded_output(services.redactor):
        verdict = run_async(evaluate_and_compare(request, steps))
    refresh_catalog(workshop)
    print_verdict(verdict, as_json=as_json)
    return verdict.exit_code


def print_verdict(verdict: Verdict, *, as_json: bool) -> None:
    """Shows a verdict as text or as its JSON object."""
    from watchkeeper.notifiers.report import verdict_json, verdict_text

    if as_json:
        print(json.dumps(verdict_json(verdict), ensure_ascii=False))
    else:
        print(verdict_text(verdict, unchanged=verdict.unchanged))


def nightly(context: Context, *, slot: str | None, as_json: bool) -> int:
    """The whole night through Prefect; its exit code."""
    from watchkeeper.flows.nightly import run_nightly

    services = context.services(
        out=sys.stderr, tells_people=True
    )  # every fault of the files before Prefect starts
    with showing(services.board), guarded_output(services.redactor):
        result = run_nightly(services.project.root, slot, services=services)
    print_night(result, services.redactor, as_json=as_json)
    return result.exit_code


def print_night(result: NightResult, redactor: Redactor, *, as_json: bool) -> None:
    """Shows a night: every pair's verdict, and what could not be delivered."""
    from watchkeeper.notifiers.report import verdict_json

    if as_json:
        pairs = [
            {
                "run_id": pair.request.run_id,
                "endpoint": pair.request.endpoint,
                "suite": pair.request.suite,
                "verdict": verdict_json(pair.verdict) if pair.verdict else None,
                "error": redactor.text(str(pair.error)) if pair.error else None,
            }
            for pair in result.pairs
        ]
        found = {
            "slot_at": result.slot_at.isoformat(),
            "exit_code": result.exit_code,
            "undelivered_count": result.undelivered_count,
            "pairs": pairs,
        }
        print(json.dumps(found, ensure_ascii=False))
        return
    print(f"night of {result.slot_at:%Y-%m-%d %H:%M} UTC")
    for pair in result.pairs:
        print()
        if pair.verdict is not None:
            print_verdict(pair.verdict, as_json=False)
        else:
            said = redactor.text(str(pair.error))
            print(f"{pair.request.endpoint} × {pair.request.suite}: no verdict: {said}")
    if not result.pairs:
        print("nothing to run: no endpoint names a suite")
    if result.undelivered_count:
        print(f"{result.undelivered_count} messages wait in the outbox for the next night")
    print(f"\nexit {result.exit_code}")


def serve(context: Context) -> None:
    """Serves the deployments until the process is ended."""
    from watchkeeper.flows.serving import serve_project

    serve_project(context.root())


def _requested(
    services: Services,
    suite_name: str,
    endpoint_name: str,
    trials: int | None,
    cases: tuple[str, ...],
    purpose: str,
) -> RunRequest:
    from watchkeeper.domain.identity import content_hash, run_id_with_token
    from watchkeeper.domain.run import RunRequest

    if not suite_name or not endpoint_name:
        raise UsageError("name a suite and an endpoint: watchkeeper run SUITE -e ENDPOINT")
    if purpose not in _PURPOSES:
        raise UsageError(f"--purpose {purpose}: expected one of {', '.join(_PURPOSES)}")
    endpoint = services.project.endpoint(endpoint_name)
    suite = services.project.suite(suite_name)
    counts = _trial_counts(suite, trials, cases)
    started_at = services.clock.now()
    token = services.token()
    run_id = run_id_with_token(endpoint.name, suite.name, started_at, token)
    return RunRequest(
        run_id=run_id,
        endpoint=endpoint.name,
        suite=suite.name,
        purpose=cast("Purpose", purpose),
        trigger="command line",
        seed=int(content_hash(run_id)[:8], 16),
        trial_counts=counts,
    )


def _trial_counts(
    suite: Suite, trials: int | None, cases: tuple[str, ...]
) -> dict[str, int] | None:
    from watchkeeper.parsing.suggest import known_names

    if trials is None and not cases:
        return None
    known = [case.id for case in suite.cases]
    chosen: list[str] = [] if cases else known
    for pattern in cases:
        if "*" in pattern:
            chosen.extend(fnmatch.filter(known, pattern))
        elif pattern in known:
            chosen.append(pattern)
        else:
            raise UsageError(
                f"suite '{suite.name}' has no case '{pattern}'; {known_names(pattern, known)}"
            )
    if not chosen:
        raise BrokenEvaluation(
            f"no case of '{suite.name}' was selected by {', '.join(cases)}: a rate over zero "
            "cases is undefined, so there is no verdict"
        )
    return dict.fromkeys(chosen, trials or suite.trials)


def _resumed(services: Services, run_id: str) -> RunRequest:
    """The request of a run that was begun, from the plan that it wrote down."""
    from watchkeeper.domain.run import RunRequest
    from watchkeeper.store.payloads import manifest_from_json

    commit = services.records.commit_of(run_id)
    stored = services.records.staged_plan(run_id)
    if commit is not None:
        manifest = manifest_from_json(commit.manifest)
    elif stored is not None:
        manifest = manifest_from_json(stored["manifest"])
    else:
        raise UsageError(f"there is no run '{run_id}' to resume; it was never begun in this store")
    suite = services.project.suite(manifest.suite)
    counts = {stamp.case_id: stamp.trials for stamp in manifest.cases}
    is_whole = counts == {case.id: suite.trials for case in suite.cases}
    return RunRequest(
        run_id=run_id,
        endpoint=manifest.endpoint,
        suite=manifest.suite,
        purpose=manifest.purpose,
        trigger=manifest.trigger,
        seed=manifest.seed,
        slot_at=manifest.slot_at,
        trial_counts=None if is_whole else counts,
        confirms=manifest.confirms,
    )
