"""Everything that Watchkeeper raises, in one tree.

    WatchkeeperError                  what failed, where, what was expected, what to do
    ├── UsageError                    exit 2: found before the first call
    │   ├── ConfigError               one or more faults in the project's files, each with file:line
    │   └── StoreRefused              the store cannot keep the promises that a commit needs
    ├── BrokenEvaluation              exit 3: found after the first call; no verdict
    │   ├── StoreUnavailable          the store did not answer, or answered with an error
    │   ├── RecordUnreadable          a stored object is not what its commit promised
    │   └── BudgetExhausted           nothing could be started within the declared budget
    ├── EndpointFault                 the endpoint's infrastructure failed, not the agent
    │   ├── EndpointUnreachable       no answer, or an answer that is not the provider's
    │   ├── EndpointRefused           wrong or missing key, no permission
    │   └── EndpointOverloaded        429 or 529, still after the bounded retries
    └── NotifierFault                 a message could not be delivered; it stays in the outbox

A failed trial is a record, never an exception; what is raised here ends a step.
"""

from __future__ import annotations

from dataclasses import dataclass

EXIT_OK = 0
EXIT_REGRESSED = 1
EXIT_USAGE = 2
EXIT_BROKEN = 3
EXIT_CHANGED = 4


class WatchkeeperError(Exception):
    """The root of the tree; ``exit_code`` is what a command ends with when it is not handled."""

    exit_code = EXIT_BROKEN


class UsageError(WatchkeeperError):
    """Bad usage or configuration, found before the first call was made."""

    exit_code = EXIT_USAGE


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing wrong in one place of the project's files.

    Of what was not read from a file, ``file`` names the place, and ``line`` is 0.
    """

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        """``file:line: message``, the form that editors and CI annotate."""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}: {self.message}"


class ConfigError(UsageError):
    """Faults in the project's files; ``faults`` holds every one that was found."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(str(fault) for fault in self.faults))


class StoreRefused(UsageError):
    """The store exists but cannot keep what a commit promises, or may not be written."""


class BrokenEvaluation(WatchkeeperError):
    """The evaluation itself failed after its first call; there is no verdict."""


class StoreUnavailable(BrokenEvaluation):
    """The store did not answer within its bounds, or answered with an error."""


class RecordUnreadable(BrokenEvaluation):
    """A stored object is missing, damaged, or of a newer schema than this version reads."""


class BudgetExhausted(BrokenEvaluation):
    """Nothing could be started within the declared budget."""


class EndpointFault(WatchkeeperError):
    """The endpoint's infrastructure failed; the agent was not at fault.

    ``kind`` is the short word stored with the trial, such as ``overloaded``;
    ``is_transient`` says whether the same call may succeed later, ``retry_after_s`` what the
    provider asked to wait (seconds), where it did, ``limits`` what it said is left
    (``RateLimits``).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        is_transient: bool,
        retry_after_s: float | None = None,
        limits: object = None,  # neighbours do not import each other
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_transient = is_transient
        self.retry_after_s = retry_after_s
        self.limits = limits


class EndpointUnreachable(EndpointFault):
    """No answer, or an answer that is not what the provider's interface promises."""


class EndpointRefused(EndpointFault):
    """The key is wrong or missing, or may not use this model."""


class EndpointOverloaded(EndpointFault):
    """The provider refused for load (429, 529), still after the bounded retries."""


class NotifierFault(WatchkeeperError):
    """A message could not be delivered; it stays in the outbox and is sent later.

    ``is_transient`` is False where a person has to act first (a revoked token).
    """

    def __init__(self, message: str, *, kind: str, is_transient: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_transient = is_transient
