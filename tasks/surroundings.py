"""Prefect's settings as Watchkeeper wants them; whatever somebody has set himself holds."""

from __future__ import annotations

from watchkeeper.settings import set_defaults

DEFAULTS = {
    # Nothing is sent to anybody.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # The same verdict is printed, posted and stored by Watchkeeper; Prefect reports only its own
    # trouble. A step's error may quote a provider, so no log line goes to the server.
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    # A served deployment without a schedule loses one that it had; Prefect warns without this.
    "PREFECT_DEPLOYMENTS_CLEAR_SCHEDULES_ON_EMPTY": "true",
    # Where a flow is called by somebody else's code and no server is configured.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "60",
}


def prepare() -> None:
    """Sets what nobody has set; to be called before Prefect is imported."""
    set_defaults(DEFAULTS)
