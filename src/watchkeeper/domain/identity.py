"""Names that are derived from content, so that the same input always has the same id."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
NAME_RULE = (
    "letters, digits, '.', '_' and '-', beginning with a letter or a digit, at most 80 characters"
)


def is_name(text: str) -> bool:
    """Whether ``text`` may name a case, suite, endpoint, category or owner."""
    return NAME_PATTERN.fullmatch(text) is not None


def content_hash(value: object) -> str:
    """The first 20 hexadecimal digits of SHA-256 over ``value`` as canonical JSON.

    Args:
        value: Anything that JSON can hold; mappings are sorted by key.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def run_id_for_slot(endpoint: str, suite: str, slot_at: datetime) -> str:
    """The run id of a scheduled evaluation: the same slot always gives the same id."""
    slot = slot_at.astimezone(UTC)
    token = content_hash([endpoint, suite, slot.isoformat()])[:8]
    return f"{slot:%Y%m%dT%H%M%SZ}-{endpoint}-{suite}-{token}"


def run_id_with_token(endpoint: str, suite: str, started_at: datetime, token: str) -> str:
    """The run id of an evaluation that was asked for: start time and a stored token."""
    short = content_hash([endpoint, suite, token])[:8]
    return f"{started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{endpoint}-{suite}-{short}"


def confirmation_run_id(run_id: str, batch: int) -> str:
    """The run id of the ``batch``-th rerun (from 1) that confirms the suspects of ``run_id``."""
    return f"{run_id}-confirm{batch}"


def trial_id(run_id: str, case_id: str, index: int) -> str:
    """The id of one trial of a run; ``index`` counts from 0 within the case."""
    return content_hash([run_id, case_id, index])
