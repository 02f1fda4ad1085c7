"""What differs between the baselines and the run, told before any verdict.

Source: docs/statistics.md#comparability
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watchkeeper.domain.facts import TrialFact
from watchkeeper.domain.run import Manifest
from watchkeeper.domain.verdict import Change


def served_models(facts: Iterable[TrialFact]) -> tuple[str, ...]:
    """The models that answered, sorted."""
    return tuple(sorted({fact.served_model for fact in facts if fact.served_model}))


def what_changed(
    baseline: Sequence[Manifest],
    baseline_facts: Iterable[TrialFact],
    candidate: Manifest,
    candidate_facts: Iterable[TrialFact],
) -> tuple[Change, ...]:
    """Everything that differs between the newest baseline run and the candidate.

    Args:
        baseline: The manifests of the baseline runs, oldest first; at least one.
        baseline_facts: The trials of the baseline runs.
        candidate: The manifest of the run.
        candidate_facts: Its trials.
    """
    before, after = _parts(baseline, baseline_facts, candidate, candidate_facts)
    changes = [
        Change(what, before[what] or "unknown", after[what] or "unknown")
        for what in before
        if before[what] != after[what]
    ]
    if before["requested model"] != after["requested model"]:
        # Asking for another model is one change, and what is served follows from it.
        changes = [one for one in changes if one.what != "served model"]
    return tuple(changes)


def what_stayed(
    baseline: Sequence[Manifest],
    baseline_facts: Iterable[TrialFact],
    candidate: Manifest,
    candidate_facts: Iterable[TrialFact],
) -> tuple[str, ...]:
    """What was compared and is the same; what is unknown on either side is not said to be."""
    before, after = _parts(baseline, baseline_facts, candidate, candidate_facts)
    same = [what for what in before if before[what] and before[what] == after[what]]
    shown = {
        "harness revision": f"harness ({after['harness revision'][:12]})",
        "price table": "prices",
    }
    hidden = {"requested model", "watchkeeper"}
    return tuple(shown.get(what, what) for what in same if what not in hidden)


def _parts(
    baseline: Sequence[Manifest],
    baseline_facts: Iterable[TrialFact],
    candidate: Manifest,
    candidate_facts: Iterable[TrialFact],
) -> tuple[dict[str, str], dict[str, str]]:
    """Everything that is compared, before and after; an empty text is unknown."""
    newest = baseline[-1]
    newest_facts = [fact for fact in baseline_facts if fact.run_id == newest.run_id]
    after_served = served_models(candidate_facts)
    # Where nothing answered nothing is known of what would have: neither changed nor the same.
    before_served = served_models(newest_facts) or _resolved_model(newest) if after_served else ()
    pairs = (
        ("served model", " + ".join(before_served), " + ".join(after_served)),
        (
            "requested model",
            newest.identity.requested_model or "",
            candidate.identity.requested_model or "",
        ),
        (
            "harness revision",
            newest.identity.harness_revision or "",
            candidate.identity.harness_revision or "",
        ),
        (
            "endpoint settings",
            newest.endpoint_config_hash[:10],
            candidate.endpoint_config_hash[:10],
        ),
        ("suite", newest.suite_hash[:10], candidate.suite_hash[:10]),
        ("simulated users", _simulators(newest), _simulators(candidate)),
        ("graders", _versions(newest.graders), _versions(candidate.graders)),
        ("price table", newest.price_table_version[:10], candidate.price_table_version[:10]),
        ("watchkeeper", newest.engine_version, candidate.engine_version),
    )
    return (
        {what: before for what, before, _ in pairs},
        {what: after for what, _, after in pairs},
    )


def unverified_identities(candidate: Manifest, facts: Iterable[TrialFact]) -> tuple[str, ...]:
    """What could not be verified about the run, in words."""
    notes: list[str] = []
    identity = candidate.identity
    served = served_models(facts)
    if not served:
        reason = f": {identity.note}" if identity.note and not identity.resolved_model else ""
        notes.append(f"no trial said which model answered{reason}")
    elif identity.resolved_model is None:
        reason = identity.note or "the endpoint does not say"
        notes.append(f"served model seen only in responses ({', '.join(served)}): {reason}")
    elif identity.note:
        notes.append(identity.note)
    if len(served) > 1:
        notes.append(f"several models answered within the run: {', '.join(served)}")
    if identity.harness_revision is None:
        notes.append("harness revision unknown: set harness.revision.git to have it recorded")
    return tuple(notes)


def unpriced_trials(facts: Iterable[TrialFact]) -> tuple[str, ...]:
    """What was paid without being known, in one line for the whole run; none where all is known.

    A trial that never ran cost nothing that anybody could know, and is not counted.
    """
    ran = [fact for fact in facts if fact.round_count]
    unpriced = [fact for fact in ran if fact.cost_usd is None]
    if not unpriced:
        return ()
    models = ", ".join(served_models(unpriced)) or "unknown model"
    return (
        f"cost unknown in {len(unpriced)} of {len(ran)} trials ({models}): no price in "
        "config/prices.yaml, or tokens not reported; unknown is not counted as $0",
    )


def _resolved_model(manifest: Manifest) -> tuple[str, ...]:
    model = manifest.identity.resolved_model
    return (model,) if model else ()


def _simulators(manifest: Manifest) -> str:
    return ", ".join(
        f"{one.name} {one.identity[:6]} ({one.resolved_model or one.requested_model or 'unknown'})"
        for one in manifest.simulators
    )


def _versions(graders: dict[str, int]) -> str:
    return ", ".join(f"{kind} {version}" for kind, version in sorted(graders.items()))
