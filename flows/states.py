"""The final state of a flow run, from the same verdict that decides the exit code.

==== ================================================= ==========================
exit what it means                                     state
==== ================================================= ==========================
0    nothing is confirmed as worse                     Completed
4    nothing was comparable                            Completed, "NotComparable"
1    a regression is confirmed, or a gate has failed   Failed, "Regressed"
2    bad configuration, found before the first call    Failed, "Misconfigured"
3    the evaluation itself is broken, no verdict       Failed, "Broken"
==== ================================================= ==========================

So an automation on failed runs sees every night that somebody has to look at, and one on the
name sees the regressions alone.
"""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.verdict import Verdict
from watchkeeper.errors import (
    EXIT_BROKEN,
    EXIT_CHANGED,
    EXIT_OK,
    EXIT_REGRESSED,
    EXIT_USAGE,
    WatchkeeperError,
)
from watchkeeper.notifiers.headline import headline
from watchkeeper.notifiers.text import one_line, shorten
from watchkeeper.pipeline.nightly import NightResult, PairResult
from watchkeeper.pipeline.watch import WatchResult

_NAMES = {
    EXIT_OK: "Completed",
    EXIT_REGRESSED: "Regressed",
    EXIT_USAGE: "Misconfigured",
    EXIT_BROKEN: "Broken",
    EXIT_CHANGED: "NotComparable",
}
_MOST_TEXT = 500
_MOST_NAMED = 3


def verdict_state(verdict: Verdict) -> State[Any]:
    """The state of a run with a verdict."""
    return _state(verdict.exit_code, headline(verdict))


def error_state(error: Exception, redactor: Redactor) -> State[Any]:
    """The state of a run that an error ended; a bug of ours is a broken evaluation."""
    if isinstance(error, WatchkeeperError):
        return _state(error.exit_code, redactor.text(str(error)))
    return _state(EXIT_BROKEN, redactor.text(f"{type(error).__name__}: {error}"))


def night_state(result: NightResult, redactor: Redactor) -> State[Any]:
    """The state of a whole night: the pairs behind its exit code, named."""
    code = result.exit_code
    behind = {EXIT_BROKEN, EXIT_USAGE} if code == EXIT_BROKEN else {code}
    to_name = [
        f"{pair.request.endpoint} × {pair.request.suite}: {pair_line(pair, redactor)}"
        for pair in result.pairs
        if code != EXIT_OK and _pair_code(pair) in behind
    ]
    more = len(to_name) - _MOST_NAMED
    said = "; ".join(to_name[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return _state(code, said or night_line(result))


def night_line(result: NightResult) -> str:
    """A night in one line."""
    if not result.pairs:
        return "nothing to run: no endpoint names a suite"
    verdicts = sum(pair.verdict is not None for pair in result.pairs)
    return f"{verdicts} of {len(result.pairs)} pairs have a verdict; exit {result.exit_code}"


def pair_line(pair: PairResult, redactor: Redactor) -> str:
    """What became of one endpoint × suite, in one line."""
    if pair.verdict is not None:
        return headline(pair.verdict)
    return f"no verdict: {redactor.text(str(pair.error))}"


def _pair_code(pair: PairResult) -> int:
    if pair.verdict is not None:
        return pair.verdict.exit_code
    return pair.error.exit_code if pair.error is not None else EXIT_BROKEN


def _state(code: int, text: str) -> State[Any]:
    message = shorten(one_line(text), _MOST_TEXT)
    make = Completed if code in {EXIT_OK, EXIT_CHANGED} else Failed
    return make(name=_NAMES[code], message=message)


def watch_state(result: WatchResult, redactor: Redactor) -> State[Any]:
    """The state of a version watch: what changed, or who could not be asked."""
    silent = [f"{one.endpoint.name}: {one.trouble}" for one in result.seen if one.trouble]
    changed = [
        f"{one.endpoint}: " + ", ".join(f"{c.what} {c.before} → {c.after}" for c in one.changes)
        for one in result.announced
    ]
    said = [*changed, *(redactor.text(one) for one in silent)]
    message = shorten(one_line("; ".join(said) or "nothing has changed"), _MOST_TEXT)
    if silent:
        return Failed(name=_NAMES[EXIT_BROKEN], message=message)
    return Completed(name="Changed" if changed else "Completed", message=message)
