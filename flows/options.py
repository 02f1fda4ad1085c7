"""The Prefect options that every flow has in common."""

from __future__ import annotations

from typing import TypedDict


class FlowOptions(TypedDict):
    """The options of Prefect's ``flow`` that are used here."""

    retries: int
    persist_result: bool
    log_prints: bool


# A flow is not repeated by Prefect: starting the same slot again is what makes up for a night, and
# the store is the only memory. All is said because a profile may set other defaults.
FLOW = FlowOptions(retries=0, persist_result=False, log_prints=False)
