"""Which cases an endpoint may not or cannot be asked, and why: told before the first call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from watchkeeper.adapters import adapter_module
from watchkeeper.domain.case import SIDE_EFFECT_ORDER, Case
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.suite import Suite


def refusals(
    endpoint: Endpoint, suite: Suite, case_ids: Collection[str] | None = None
) -> Iterator[str]:
    """One text a reason for which some cases of a suite are refused; none where all may be asked.

    Args:
        endpoint: What would be asked.
        suite: Whose cases are looked at.
        case_ids: Those that are meant; all by default.
    """
    cases = [case for case in suite.cases if case_ids is None or case.id in case_ids]
    allowed = SIDE_EFFECT_ORDER.index(endpoint.allow_side_effects)
    beyond = [case for case in cases if SIDE_EFFECT_ORDER.index(case.side_effects) > allowed]
    if beyond:
        yield (
            f"endpoint '{endpoint.name}' allows side effects '{endpoint.allow_side_effects}', but "
            f"{_counted(beyond)} of '{suite.name}' declare more; set allow_side_effects or drop "
            "the suite"
        )
    by_reason: dict[str, list[Case]] = {}
    for case in cases:
        reason = _reason(endpoint, case)
        if reason is not None:
            by_reason.setdefault(reason, []).append(case)
    for reason, found in by_reason.items():
        yield (
            f"endpoint '{endpoint.name}' of kind {endpoint.kind} cannot be asked {_counted(found)} "
            f"of '{suite.name}': {reason}"
        )


def _reason(endpoint: Endpoint, case: Case) -> str | None:
    """Why the kind of an endpoint cannot be asked a case, where its module knows that."""
    told = getattr(adapter_module(endpoint.kind), "accepted_media", None)
    accepted: tuple[str, ...] = told() if callable(told) else ("*",)
    for media_type in sorted({one.media_type for turn in case.turns for one in turn.attachments}):
        if not any(fnmatchcase(media_type, pattern) for pattern in accepted):
            return f"they hold {media_type}; its API takes {', '.join(accepted)}"
    refused = getattr(endpoint.settings, "refused", None)
    reason = refused(case) if callable(refused) else None
    return str(reason) if reason is not None else None


def _counted(cases: list[Case]) -> str:
    amount = "1 case" if len(cases) == 1 else f"{len(cases)} cases, first"
    return f"{amount} '{cases[0].id}'"
