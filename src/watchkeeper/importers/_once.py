"""A guard against files in which a trial stands twice, and would be counted twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.errors import UsageError


def each_once(trials: Iterable[ImportedTrial]) -> Iterator[ImportedTrial]:
    """The same trials.

    Raises:
        UsageError: The same trial of the same case comes a second time.
    """
    seen: dict[tuple[str, int], str] = {}
    for trial in trials:
        first = seen.setdefault((trial.case_id, trial.index), trial.source)
        if first != trial.source:
            raise UsageError(
                f"{trial.source}: trial {trial.index} of case {trial.case_id[:60]!r} a second "
                f"time; the first is at {first}"
            )
        yield trial
