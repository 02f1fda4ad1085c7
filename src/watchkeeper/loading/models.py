"""The shape of every configuration file, as frozen models; JSON Schemas are made from these."""

from __future__ import annotations

import re
import zoneinfo
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
)

from watchkeeper.domain.identity import NAME_PATTERN
from watchkeeper.downloads import URL_RULE, is_plain_url
from watchkeeper.loading.header_models import Headers
from watchkeeper.loading.mcp_servers import McpServerModel
from watchkeeper.parsing.suggest import known_names

Name = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN.pattern}$")]
Secret = Annotated[
    str,
    StringConstraints(pattern=r"^env:[A-Za-z_][A-Za-z0-9_]*$"),
    Field(json_schema_extra={"secret": True}),
]
Rate = Annotated[float, Field(ge=0, le=1)]
Dollars = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(min_length=1)]


def _known_zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = known_names(name, zoneinfo.available_timezones(), limit=3)
        raise ValueError(f"the name of a time zone; {known}") from error
    return name


def _five_fields(cron: str) -> str:
    if len(cron.split()) != 5:
        raise ValueError("five fields of cron, such as '30 2 * * *'")
    return cron


def _plain_url(url: str) -> str:
    if not is_plain_url(url):
        raise ValueError(URL_RULE)
    return url


def _pointer(text: str) -> str:
    if re.search(r"~(?![01])", text):
        raise ValueError("a JSON pointer, such as /git/sha")
    return text


def _default_pool(name: str) -> str:
    if name != "default":
        raise ValueError("'default'; other work pools are not supported by this version")
    return name


class Model(BaseModel):
    """Unknown keys are refused, nothing is converted silently, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ScheduleModel(Model):
    """When the deployments of ``watchkeeper serve`` start; cron in the project's time zone."""

    nightly: Annotated[Text, AfterValidator(_five_fields)] = Field(
        "30 2 * * *", description="cron expression of the nightly job"
    )
    watch: Annotated[Text, AfterValidator(_five_fields)] | None = Field(
        None, description="cron expression of the version watch; without it there is none"
    )
    finish_by: str | None = Field(
        None,
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
        description="local time after which no further trial of a nightly run starts",
    )


class BudgetModel(Model):
    """Dollars; a run that would pass them stops cleanly and says what was skipped."""

    night: Dollars | None = Field(None, description="all runs of one night together")
    month: Dollars | None = Field(None, description="all runs of one calendar month (UTC)")


class SlackModel(Model):
    """How pages reach Slack."""

    token: Secret = Field(description="bot token, as env:NAME")


class LimitsModel(Model):
    """Bounds that hold for every run."""

    confirm_delay_minutes: float = Field(
        30,
        ge=0,
        le=600,
        description="wait before the trials that confirm a nightly suspect; other runs do not wait",
    )
    shard_trials: int = Field(50, ge=1, le=1000, description="trials of one shard")
    wait_seconds: float = Field(
        900, gt=0, le=86_400, description="what one trial may wait for its provider's limits"
    )
    breaker_trials: int = Field(
        8, ge=2, le=1000, description="trials in a row that fail without an answer: an outage"
    )
    provider_wait_minutes: float = Field(
        10, ge=0, le=1440, description="how long an outage is waited for without finish_by"
    )
    retirement_notice_days: int = Field(
        30, ge=0, le=3650, description="days before a model retires from which its owner is told"
    )


class StatisticsModel(Model):
    """Constants of the decision procedure; docs/statistics.md says where each comes from."""

    suite_screen: Rate = Field(0.03, description="screen level of suite hypotheses")
    group_screen: Rate = Field(0.01, description="screen level of category and tool hypotheses")
    case_screen: Rate = Field(0.003, description="screen level of single cases")
    night_alpha: Rate = Field(0.004, description="level of Holm's procedure over a night")
    futility_p: Rate = Field(0.25, description="a suspect above this after a batch is dropped")
    batch_count: int = Field(4, ge=1, le=10, description="confirmation batches at most")
    case_rerun_trials: int = Field(5, ge=2, le=50, description="fresh trials of a suspect case")
    group_rerun_trials: int = Field(3, ge=1, le=50, description="fresh trials a case and batch")
    pass_floor: Rate = Field(0.03, description="smallest fall of a category that is paged")
    suite_pass_floor: Rate = Field(0.02, description="smallest fall of a suite that is paged")
    case_pass_floor: Rate = Field(0.30, description="smallest fall of a case that is paged")
    rounds_floor: Annotated[float, Field(gt=0, le=10)] = Field(
        0.10, description="smallest rise of a category's rounds, as a share"
    )
    suite_rounds_floor: Annotated[float, Field(gt=0, le=10)] = 0.05
    case_rounds_floor: Annotated[float, Field(gt=0, le=10)] = 0.30
    cost_floor: Annotated[float, Field(gt=0, le=10)] = Field(
        0.05, description="smallest rise of cost, as a share"
    )
    rerun_share: Rate = Field(0.5, description="fresh trials at most, as a share of the night's")
    rerun_extra: int = Field(60, ge=0, le=10_000, description="and this many more")
    minimum_coverage: Rate = Field(0.90, description="graded share below which there is no verdict")
    minimum_matched: Rate = Field(
        0.80, description="share of a group's baseline cases that must be matched"
    )
    history_nights: int = Field(21, ge=2, le=400, description="accepted nights that are compared")
    first_verdict_history: int = Field(
        2, ge=2, le=21, description="accepted nights before anything is compared"
    )
    recovery_nights: int = Field(3, ge=1, le=30, description="quiet nights that end an incident")


class ProjectModel(Model):
    """config/watchkeeper.yaml."""

    store: Text = Field("file:./watchkeeper-data", description="file:PATH or s3://bucket/prefix")
    timezone: Annotated[Text, AfterValidator(_known_zone)] = Field(
        "UTC", description="IANA name, such as Europe/Berlin"
    )
    schedule: ScheduleModel = ScheduleModel()
    platform_owner: Name = Field(
        description="hears of broken evaluations; a name of config/owners.yaml"
    )
    budget_usd: BudgetModel = BudgetModel()
    slack: SlackModel | None = None
    limits: LimitsModel = LimitsModel()
    statistics: StatisticsModel = StatisticsModel()


class OwnerModel(Model):
    """One owner of config/owners.yaml."""

    slack_channel: Annotated[str, StringConstraints(pattern=r"^[CGD][A-Z0-9]{2,20}$")] | None = (
        Field(None, description="channel id")
    )
    mention: (
        Annotated[
            str, StringConstraints(pattern=r"^<(@[UW][A-Z0-9]{1,20}|!subteam\^S[A-Z0-9]{1,20})>$")
        ]
        | None
    ) = Field(None, description="<@U…> or <!subteam^S…>")
    hours: Text | None = Field(None, description="working hours, such as Mon-Fri 09:00-18:00 UTC")
    then: Name | None = Field(None, description="who hears next when nobody acknowledges")


class SimulatorLimitsModel(Model):
    """Bounds of what a simulator may use in one trial."""

    tokens: int | None = Field(None, ge=1)
    cost_usd: Annotated[float, Field(gt=0, le=100_000)] | None = None


class SimulatorModel(Model):
    """One simulator of config/simulators.yaml; the keys of its kind come on top."""

    kind: Name
    prompt: Text = Field(description="file with who the user is and how it talks")
    max_turns: int = Field(8, ge=1, le=100, description="what it says at most in one trial")
    ends_with: Text = Field("[END]", description="what it says when it has nothing more to say")
    call_retries: int = Field(3, ge=0, le=10, description="repeats of one failed request")
    limits: SimulatorLimitsModel = SimulatorLimitsModel()


class RevisionModel(Model):
    """How the harness's revision is told: by one of ``git``, ``url``, ``command``, ``version``."""

    git: Text | None = Field(None, description="a folder in a git work tree")
    url: Annotated[Text, AfterValidator(_plain_url)] | None = Field(
        None, description="address that answers with the revision, as text or within JSON"
    )
    pointer: (
        Annotated[str, StringConstraints(pattern=r"^(/.*)?$"), AfterValidator(_pointer)] | None
    ) = Field(None, description="where in the JSON of url it stands, such as /git/sha")
    headers: Headers = Field({}, description="sent with the request to url")
    command: list[Text] | None = Field(
        None, min_length=1, description="program that prints the revision, with its arguments"
    )
    version: Text | None = Field(None, description="the deployed harness's version, as text")


class HarnessModel(Model):
    """What surrounds the model."""

    system: Text | None = Field(None, description="file with the system prompt")
    tools: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = (
        Field(None, description="list of tools, as package.module:NAME")
    )
    mcp: dict[Name, McpServerModel] = Field({}, description="MCP servers of further tools")
    revision: RevisionModel = RevisionModel()


class EndpointModel(Model):
    """What every kind of endpoint has; the keys of its kind come on top."""

    kind: Name
    owner: Name
    env: Name = "production"
    harness: HarnessModel = HarnessModel()
    suites: list[Name] = Field([], description="suites that the nightly job runs against it")
    allow_side_effects: Literal["none", "sandbox", "live"] = "none"
    concurrency: int = Field(8, ge=1, le=1000)
    call_retries: int = Field(3, ge=0, le=10, description="repeats of one failed request")
    work_pool: Annotated[Name, AfterValidator(_default_pool)] = "default"
    run_budget_usd: Dollars | None = None
    run_token_cap: int | None = Field(None, ge=1)
    requests_per_minute: int | None = Field(
        None, ge=1, le=10_000_000, description="requests that are sent in a minute at most"
    )
    tokens_per_minute: int | None = Field(
        None, ge=1, le=10_000_000_000, description="tokens that are used in a minute at most"
    )
    shared_limit: Name | None = Field(
        None, description="a global concurrency limit of Prefect that all workers share"
    )


class PriceBandModel(Model):
    """Dollars per million tokens up to a prompt length."""

    input: Dollars
    output: Dollars
    up_to_input_tokens: int | None = Field(None, ge=1)


class PriceModel(Model):
    """What a model costs from one day on."""

    valid_from: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    input: Dollars | None = Field(None, description="dollars per million input tokens")
    output: Dollars | None = Field(None, description="dollars per million output tokens")
    bands: list[PriceBandModel] | None = Field(None, min_length=1)
    cache_write_5m_factor: Annotated[float, Field(ge=0, le=100)] = 1.25
    cache_write_1h_factor: Annotated[float, Field(ge=0, le=100)] = 2.0
    cache_read_factor: Annotated[float, Field(ge=0, le=100)] = 0.1
    batch_discount: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="share that calls through the batch interface cost less"
    )


class PricesModel(Model):
    """config/prices.yaml."""

    source: Text = Field(description="where the prices were read, and when")
    models: dict[Text, list[PriceModel]]
