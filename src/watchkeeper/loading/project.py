"""A project folder as frozen values: settings, owners, prices, endpoints and suites."""

from __future__ import annotations

import zoneinfo
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.endpoint import Endpoint, PriceTable
from watchkeeper.domain.ports import Recipient
from watchkeeper.domain.simulator import Simulator
from watchkeeper.domain.suite import Suite
from watchkeeper.errors import ConfigError, Fault, UsageError
from watchkeeper.loading.folder import CONFIG_FILE
from watchkeeper.loading.models import ProjectModel
from watchkeeper.loading.owners import OWNERS_FILE, load_owners
from watchkeeper.loading.prices import load_prices
from watchkeeper.loading.refusals import refusals
from watchkeeper.loading.sources import SourceAccess
from watchkeeper.parsing.suggest import is_unknown_name, known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, read_mapping

SUITES_FOLDER = "config/suites"


@dataclass(frozen=True, slots=True)
class Project:
    """Everything that the project folder says, checked as a whole.

    ``source_notes`` say which registries could not be read and are stood in for by copies;
    ``source_secrets`` are the variables (``env:NAME``) that registries are asked with.
    """

    root: Path
    store_url: str
    timezone: zoneinfo.ZoneInfo
    nightly_cron: str
    finish_by: str | None
    platform_owner: str
    night_budget_usd: float | None
    month_budget_usd: float | None
    slack_token: str | None
    confirm_delay_minutes: float
    shard_trials: int
    wait_seconds: float
    breaker_trials: int
    provider_wait_minutes: float
    constants: DecisionConstants
    owners: Mapping[str, Recipient]
    prices: PriceTable
    endpoints: Mapping[str, Endpoint]
    suites: Mapping[str, Suite]
    simulators: Mapping[str, Simulator]
    watch_cron: str | None = None
    retirement_notice_days: int = 30
    source_notes: tuple[str, ...] = ()
    source_secrets: tuple[str, ...] = ()

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of that name.

        Raises:
            UsageError: There is none.
        """
        if name not in self.endpoints:
            raise UsageError(f"there is no endpoint '{name}'; {known_names(name, self.endpoints)}")
        return self.endpoints[name]

    def suite(self, name: str) -> Suite:
        """The suite of that name.

        Raises:
            UsageError: There is none.
        """
        if name not in self.suites:
            raise UsageError(f"there is no suite '{name}'; {known_names(name, self.suites)}")
        return self.suites[name]


def load_project(
    root: Path, store_override: str | None = None, access: SourceAccess | None = None
) -> Project:
    """The project in a folder, with every fault of all its files found at once.

    Args:
        root: The folder that holds config/watchkeeper.yaml.
        store_override: A store that takes the place of the configured one.
        access: How registries of endpoints are asked; as a command that makes calls asks them by
            default.

    Raises:
        ConfigError: Anything is wrong in any file; all faults are in it.
    """
    # These read the packages of graders and adapters, which other commands do not need.
    from watchkeeper.loading.endpoints import load_endpoints  # noqa: PLC0415
    from watchkeeper.loading.simulators import load_simulators  # noqa: PLC0415
    from watchkeeper.loading.suites import load_suites  # noqa: PLC0415

    faults: list[Fault] = []
    document = read_mapping(root / CONFIG_FILE, CONFIG_FILE, faults)
    settings = None
    if document is not None:
        settings = validated(ProjectModel, document, (), document.value, faults)
    owners = load_owners(root, faults)
    prices = load_prices(root, faults)
    loaded = load_endpoints(root, owners, faults, access)
    endpoints = loaded.by_name
    simulators = load_simulators(root, faults)
    suites, named = load_suites(root, owners, endpoints, simulators, faults)
    if document is not None and isinstance(document.value, dict):
        _check_platform_owner(document, document.value.get("platform_owner"), owners, faults)
        if settings is not None and settings.slack is not None:
            _check_channels(document, owners, faults)
    _check_endpoint_suites(endpoints, suites, named, faults)
    if settings is not None and not faults:
        return Project(
            root=root,
            store_url=store_override or settings.store,
            timezone=zoneinfo.ZoneInfo(settings.timezone),
            nightly_cron=settings.schedule.nightly,
            finish_by=settings.schedule.finish_by,
            platform_owner=settings.platform_owner,
            night_budget_usd=settings.budget_usd.night,
            month_budget_usd=settings.budget_usd.month,
            slack_token=settings.slack.token if settings.slack else None,
            confirm_delay_minutes=settings.limits.confirm_delay_minutes,
            shard_trials=settings.limits.shard_trials,
            wait_seconds=settings.limits.wait_seconds,
            breaker_trials=settings.limits.breaker_trials,
            provider_wait_minutes=settings.limits.provider_wait_minutes,
            constants=DecisionConstants(**settings.statistics.model_dump()),
            owners=owners,
            prices=prices,
            endpoints={name: endpoint for name, (endpoint, _) in endpoints.items()},
            suites=suites,
            simulators=simulators,
            watch_cron=settings.schedule.watch,
            retirement_notice_days=settings.limits.retirement_notice_days,
            source_notes=loaded.notes,
            source_secrets=loaded.secrets,
        )
    raise ConfigError(faults)


def _check_platform_owner(
    document: Document, owner: object, owners: Mapping[str, Recipient], faults: list[Fault]
) -> None:
    if is_unknown_name(owner, owners):
        faults.append(
            document.fault(
                ("platform_owner",),
                f"platform_owner: '{owner}' is not in {OWNERS_FILE}; {known_names(owner, owners)}",
            )
        )


def _check_channels(
    document: Document, owners: Mapping[str, Recipient], faults: list[Fault]
) -> None:
    for name, owner in owners.items():
        if owner.slack_channel is None:
            faults.append(
                document.fault(
                    ("slack",),
                    f"slack is configured, but owner '{name}' has no slack_channel in "
                    f"{OWNERS_FILE}; its pages could not be delivered",
                )
            )


def _check_endpoint_suites(
    endpoints: Mapping[str, tuple[Endpoint, Document]],
    suites: Mapping[str, Suite],
    named: Collection[str],
    faults: list[Fault],
) -> None:
    """Every suite that an endpoint names exists, and its cases may be asked of it."""
    for name, (endpoint, document) in endpoints.items():
        for index, suite_name in enumerate(endpoint.suites):
            suite = suites.get(suite_name)
            path = ("endpoints", name, "suites", index)
            if suite is None:
                if suite_name not in named:
                    faults.append(
                        document.fault(
                            path,
                            f"endpoint '{name}' names suite '{suite_name}', which is not in "
                            f"{SUITES_FOLDER}; {known_names(suite_name, named)}",
                        )
                    )
                continue
            reasons = refusals(endpoint, suite)
            faults.extend(document.fault(path, reason) for reason in reasons)
