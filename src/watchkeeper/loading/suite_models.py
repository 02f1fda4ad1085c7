"""The shape of a suite's file and of its cases, as frozen models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from watchkeeper.loading.models import Model, Name, Rate, Text


class TrialLimitsModel(Model):
    """Bounds of one trial."""

    rounds: int = Field(20, ge=1, le=1000)
    seconds: float = Field(300, gt=0, le=86_400)
    tokens: int | None = Field(None, ge=1)
    cost_usd: Annotated[float, Field(gt=0, le=100_000)] | None = None


class CategoryModel(Model):
    """A category's gate. Gates live in the suite file and nowhere else."""

    gate: Rate = Field(description="lowest pass rate that is good enough, between 0 and 1")
    owner: Name | None = Field(None, description="who is paged; the suite's owner by default")
    action: Literal["block", "page", "report"] = Field(description="what happens below the gate")


class ScriptedResultModel(Model):
    """One answer of a scripted tool: what it returns, or the error that it raises."""

    returns: Any = None
    raises: Text | None = None


class ScriptedToolModel(ScriptedResultModel):
    """A tool whose results the case declares."""

    sequence: list[ScriptedResultModel] | None = Field(
        None, min_length=1, description="one answer a call; the last is repeated"
    )
    description: str = ""
    input_schema: dict[str, Any] | None = None
    silent: bool = Field(False, description="never counts towards barren rounds")


class PartModel(Model):
    """An image or a file that the user sends."""

    image: Text | None = Field(None, description="picture, from the project folder")
    file: Text | None = Field(None, description="file, from the project folder")
    name: Annotated[Text, StringConstraints(max_length=200)] | None = Field(
        None, description="what the agent is told; the file's own name by default"
    )
    media_type: Annotated[str, StringConstraints(pattern=r"^[a-z]+/[a-z0-9.+-]+$")] | None = Field(
        None, description="as in application/pdf; told by the file's ending by default"
    )


Said = Text | Annotated[list[Text | PartModel], Field(min_length=1)]
Command = Text | Annotated[list[Text], Field(min_length=1)]


class UserModel(Model):
    """A model that plays the user once the case's own turns are said."""

    simulator: Name = Field(description="a name of config/simulators.yaml")
    goal: Text = Field(description="what it wants in this case")


class CaseModel(Model):
    """One situation and what good looks like."""

    id: Name
    category: Name
    input: Said | None = Field(None, description="what the user says; text, or a list of parts")
    turns: list[Said] | None = Field(None, min_length=1, description="several user turns")
    user: UserModel | None = Field(None, description="a simulated user goes on after the turns")
    expect: dict[str, Any] = Field(description="graders by kind; at least one", min_length=1)
    tools: dict[Name, ScriptedToolModel] = Field({})
    dimension: Literal["correctness", "evidence", "process", "safety"] | None = None
    source: Text | None = Field(None, description="where the case comes from: ticket, incident")
    cluster: Text | None = Field(None, description="what is resampled together")
    tags: dict[Name, str] = Field({})
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    side_effects: Literal["none", "sandbox", "live"] = "none"
    files: Text | None = Field(None, description="folder that every trial gets a copy of")
    setup: list[Command] = Field([], description="commands in the workspace before a trial")
    reset: list[Command] = Field([], description="commands in the workspace after a trial")


class SuiteModel(Model):
    """config/suites/<name>.yaml."""

    suite: Name
    claim: Text = Field(description="what a pass is evidence for")
    owner: Name
    trials: int = Field(3, ge=1, le=1000, description="trials of every case")
    trial_limits: TrialLimitsModel = TrialLimitsModel()
    categories: dict[Name, CategoryModel] = Field(min_length=1)
    cases: Any = Field(description="a list of cases")
