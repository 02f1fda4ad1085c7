"""The system under test: a model with its harness and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.domain.case import SideEffects


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of tools: a command that is spoken to over its pipes, or an address.

    ``pass_variables`` names variables of our own environment that a command is given,
    ``variables`` gives it others; a value there, and in ``headers``, is a text or refers to a
    variable (``env:NAME``). ``tools`` are the names that are offered, ``None`` all; ``silent``
    names those whose calls never make a round barren.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    pass_variables: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] | None = None
    silent: frozenset[str] = frozenset()
    start_seconds: float = 30.0
    call_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Harness:
    """What surrounds the model: its system prompt, its tools, and where its revision is told.

    ``system`` is the text of the prompt, ``tools`` names a list in a Python module
    (``package.module:NAME``), ``mcp`` the servers of further tools, ``revision_git`` a folder in
    a git work tree, ``revision_url`` an address that answers with the revision (within JSON at
    ``revision_pointer``), ``revision_command`` a program that prints it, ``version`` what the
    configuration itself says of the deployed harness; at most one of the four is set. A value in
    ``revision_headers`` refers to a variable (``env:NAME``, ``Bearer env:NAME``).
    """

    system: str | None = None
    tools: str | None = None
    mcp: tuple[McpServer, ...] = ()
    revision_git: str | None = None
    version: str | None = None
    revision_url: str | None = None
    revision_pointer: str | None = None
    revision_headers: Mapping[str, str] = field(default_factory=dict)
    revision_command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One system under test as the configuration declares it.

    ``settings`` is the adapter's own frozen model; ``config_hash`` covers everything but the
    requested model that can change the agent's behaviour, and of a secret only the name of its
    variable. ``source_note`` says why a copy stands for the registry that it came from.
    """

    name: str
    kind: str
    owner: str
    env: str
    requested_model: str | None
    suites: tuple[str, ...]
    settings: object
    config_hash: str
    harness: Harness = Harness()
    allow_side_effects: SideEffects = "none"
    concurrency: int = 8
    call_retries: int = 3
    run_budget_usd: float | None = None
    run_token_cap: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    shared_limit: str | None = None
    location: str = ""
    source_note: str | None = None


@dataclass(frozen=True, slots=True)
class ServedIdentity:
    """What the provider says it serves for the requested model, resolved before a run.

    ``resolved_model`` is ``None`` where the provider does not say: the identity is unverifiable,
    and ``note`` says why. ``harness_revision`` is the git commit of the harness, with ``+dirty``
    when its work tree holds uncommitted changes.
    """

    requested_model: str | None
    resolved_model: str | None
    created_at: datetime | None = None
    lifecycle: str | None = None
    retires_at: datetime | None = None
    harness_revision: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model in a provider's own list; what the list does not say is ``None``."""

    name: str
    created_at: datetime | None = None
    lifecycle: str | None = None
    retires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PriceBand:
    """Dollars per million tokens for prompts up to ``up_to_input_tokens`` (``None``: any)."""

    input_usd: float
    output_usd: float
    up_to_input_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs from one day on; cache factors multiply the input price.

    ``batch_discount`` is the share that a call through the provider's batch interface costs
    less; ``None``: such a call is unpriced.
    """

    model: str
    valid_from: datetime
    bands: tuple[PriceBand, ...]
    cache_write_5m_factor: float = 1.25
    cache_write_1h_factor: float = 2.0
    cache_read_factor: float = 0.1
    batch_discount: float | None = None


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Dated prices; ``version`` is the hash of the table."""

    version: str
    prices: Mapping[str, tuple[Price, ...]]
