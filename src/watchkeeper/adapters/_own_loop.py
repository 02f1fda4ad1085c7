"""What holds for every agent that owns its loop."""

from __future__ import annotations

OWN_LOOP_REFUSAL = (
    "they script tools, which an agent that owns its loop never calls; script them in the agent's "
    "own test set-up, or give it a sandbox"
)
