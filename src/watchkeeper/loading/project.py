"""A project folder as frozen values: settings, owners, prices, endpoints and suites."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from watchkeeper.domain.decision import DecisionConstants
from watchkeeper.domain.endpoint import Endpoint, Price, PriceBand, PriceTable
from watchkeeper.domain.identity import content_hash, is_name
from watchkeeper.domain.ports import Recipient
from watchkeeper.domain.suite import Suite
from watchkeeper.errors import ConfigError, Fault, UsageError
from watchkeeper.loading.folder import CONFIG_FILE
from watchkeeper.loading.models import OwnerModel, PricesModel, ProjectModel
from watchkeeper.parsing.suggest import known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, read_yaml

OWNERS_FILE = "config/owners.yaml"
PRICES_FILE = "config/prices.yaml"
ENDPOINTS_FILE = "config/endpoints.yaml"
SUITES_FOLDER = "config/suites"


@dataclass(frozen=True, slots=True)
class Project:
    """Everything that the project folder says, checked as a whole.

    ``secrets`` maps what needs a secret to the variable that holds it; values are not read here.
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
    constants: DecisionConstants
    owners: Mapping[str, Recipient]
    prices: PriceTable
    endpoints: Mapping[str, Endpoint]
    suites: Mapping[str, Suite]

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


def load_project(root: Path, store_override: str | None = None) -> Project:
    """The project in a folder, with every fault of all its files found at once.

    Args:
        root: The folder that holds config/watchkeeper.yaml.
        store_override: A store that takes the place of the configured one.

    Raises:
        ConfigError: Anything is wrong in any file; all faults are in it.
    """
    # These two read the packages of graders and adapters, which other commands do not need.
    from watchkeeper.loading.endpoints import load_endpoints  # noqa: PLC0415
    from watchkeeper.loading.suites import load_suites  # noqa: PLC0415

    faults: list[Fault] = []
    document = _read(root, CONFIG_FILE, faults)
    settings = None
    if document is not None:
        settings = validated(ProjectModel, document, (), document.value, faults)
    owners = _load_owners(root, faults)
    prices = _load_prices(root, faults)
    endpoints = load_endpoints(root, owners, faults)
    suites = load_suites(root, owners, endpoints, faults)
    if document is not None and settings is not None:
        timezone = _timezone(document, settings, faults)
        _check_settings(document, settings, owners, faults)
        _check_endpoint_suites(endpoints, suites, faults)
        if not faults:
            return Project(
                root=root,
                store_url=store_override or settings.store,
                timezone=timezone,
                nightly_cron=settings.schedule.nightly,
                finish_by=settings.schedule.finish_by,
                platform_owner=settings.platform_owner,
                night_budget_usd=settings.budget_usd.night,
                month_budget_usd=settings.budget_usd.month,
                slack_token=settings.slack.token if settings.slack else None,
                confirm_delay_minutes=settings.limits.confirm_delay_minutes,
                shard_trials=settings.limits.shard_trials,
                constants=DecisionConstants(**settings.statistics.model_dump()),
                owners=owners,
                prices=prices,
                endpoints={name: endpoint for name, (endpoint, _) in endpoints.items()},
                suites=suites,
            )
    raise ConfigError(faults)


def _read(root: Path, file: str, faults: list[Fault]) -> Document | None:
    try:
        document = read_yaml(root / file, file)
    except ConfigError as error:
        faults.extend(error.faults)
        return None
    if not isinstance(document.value, dict):
        faults.append(document.fault((), "expected a mapping of keys at the top of the file"))
        return None
    return document


def _timezone(document: Document, settings: ProjectModel, faults: list[Fault]) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(settings.timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        known = known_names(settings.timezone, zoneinfo.available_timezones(), limit=3)
        faults.append(
            document.fault(("timezone",), f"timezone: unknown '{settings.timezone}'; {known}")
        )
        return zoneinfo.ZoneInfo("UTC")


def _check_settings(
    document: Document,
    settings: ProjectModel,
    owners: Mapping[str, Recipient],
    faults: list[Fault],
) -> None:
    if settings.schedule.watch is not None:
        faults.append(
            document.fault(
                ("schedule", "watch"),
                "schedule.watch: the version watch is not supported by this version; "
                "remove the key, the nightly job resolves what is served at its start",
            )
        )
    if len(settings.schedule.nightly.split()) != 5:
        faults.append(
            document.fault(
                ("schedule", "nightly"),
                f"schedule.nightly: found '{settings.schedule.nightly}'; expected five fields of "
                "cron, such as '30 2 * * *'",
            )
        )
    if settings.platform_owner not in owners:
        faults.append(
            document.fault(
                ("platform_owner",),
                f"platform_owner: '{settings.platform_owner}' is not in {OWNERS_FILE}; "
                f"{known_names(settings.platform_owner, owners)}",
            )
        )
    if settings.slack is not None:
        for name, owner in owners.items():
            if owner.slack_channel is None:
                faults.append(
                    document.fault(
                        ("slack",),
                        f"slack is configured, but owner '{name}' has no slack_channel in "
                        f"{OWNERS_FILE}; its pages could not be delivered",
                    )
                )


def _load_owners(root: Path, faults: list[Fault]) -> dict[str, Recipient]:
    document = _read(root, OWNERS_FILE, faults)
    owners: dict[str, Recipient] = {}
    if document is None or not isinstance(document.value, dict):
        return owners
    for name, value in document.value.items():
        if not is_name(name):
            faults.append(document.fault((name,), f"owner '{name}': not a name"))
        before = len(faults)
        model = validated(OwnerModel, document, (name,), value, faults)
        if model is None:
            owners[name] = Recipient(name, slack_channel="", mention=None)
            continue
        faults.extend(
            document.fault(
                (name, key),
                f"{name}.{key}: reminders and working hours are not supported by this version; "
                "remove the key",
            )
            for key in ("hours", "then")
            if getattr(model, key) is not None
        )
        if len(faults) == before:
            owners[name] = Recipient(name, model.slack_channel, model.mention)
        else:
            owners[name] = Recipient(name, slack_channel="", mention=None)
    return owners


def _load_prices(root: Path, faults: list[Fault]) -> PriceTable:
    if not (root / PRICES_FILE).exists():
        return PriceTable(content_hash({}), {})
    document = _read(root, PRICES_FILE, faults)
    if document is None:
        return PriceTable("", {})
    model = validated(PricesModel, document, (), document.value, faults)
    if model is None:
        return PriceTable("", {})
    prices: dict[str, tuple[Price, ...]] = {}
    for name, rows in model.models.items():
        parsed: list[Price] = []
        for index, row in enumerate(rows):
            path = ("models", name, index)
            try:
                valid_from = datetime.fromisoformat(row.valid_from).replace(tzinfo=UTC)
            except ValueError:
                faults.append(
                    document.fault(
                        (*path, "valid_from"), f"valid_from: '{row.valid_from}' is no date"
                    )
                )
                continue
            flat = row.input is not None and row.output is not None
            if flat == (row.bands is not None):
                faults.append(
                    document.fault(path, "expected either input and output, or bands; not both")
                )
                continue
            if any(price.valid_from == valid_from for price in parsed):
                faults.append(
                    document.fault(path, f"{name} has two prices from {row.valid_from} on")
                )
                continue
            bands = (
                tuple(
                    PriceBand(band.input, band.output, band.up_to_input_tokens)
                    for band in row.bands
                )
                if row.bands
                else (PriceBand(row.input or 0.0, row.output or 0.0),)
            )
            limits = [band.up_to_input_tokens for band in bands]
            if any(limit is None for limit in limits[:-1]) or limits[-1] is not None:
                faults.append(
                    document.fault(
                        path, "every band but the last needs up_to_input_tokens, the last none"
                    )
                )
            parsed.append(
                Price(
                    model=name,
                    valid_from=valid_from,
                    bands=bands,
                    cache_write_5m_factor=row.cache_write_5m_factor,
                    cache_write_1h_factor=row.cache_write_1h_factor,
                    cache_read_factor=row.cache_read_factor,
                )
            )
        prices[name] = tuple(parsed)
    return PriceTable(content_hash(model.model_dump(mode="json")["models"]), prices)


def _check_endpoint_suites(
    endpoints: Mapping[str, tuple[Endpoint, Document]],
    suites: Mapping[str, Suite],
    faults: list[Fault],
) -> None:
    """Every suite that an endpoint names exists, and its cases may be asked of it."""
    broken = {fault.file for fault in faults}
    for name, (endpoint, document) in endpoints.items():
        for index, suite_name in enumerate(endpoint.suites):
            suite = suites.get(suite_name)
            path = ("endpoints", name, "suites", index)
            if suite is None:
                files = [f"{SUITES_FOLDER}/{suite_name}{end}" for end in (".yaml", ".yml")]
                if not any(file in broken for file in files):
                    faults.append(
                        document.fault(
                            path,
                            f"endpoint '{name}' names suite '{suite_name}', which is not in "
                            f"{SUITES_FOLDER}; {known_names(suite_name, suites)}",
                        )
                    )
                continue
            refused = refused_side_effects(endpoint, suite)
            if refused:
                faults.append(
                    document.fault(
                        path,
                        f"endpoint '{name}' allows side effects '{endpoint.allow_side_effects}', "
                        f"but {len(refused)} cases of '{suite_name}' declare more, first "
                        f"'{refused[0]}'; set allow_side_effects or drop the suite",
                    )
                )


def refused_side_effects(endpoint: Endpoint, suite: Suite) -> list[str]:
    """The ids of cases that do more than the endpoint may be asked."""
    order = ("none", "sandbox", "live")
    allowed = order.index(endpoint.allow_side_effects)
    return [case.id for case in suite.cases if order.index(case.side_effects) > allowed]
