"""The shape of what stands under ``sources`` in config/endpoints.yaml."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from watchkeeper.loading.header_models import Headers
from watchkeeper.loading.models import Model, Name, Text


class SourceModel(Model):
    """A registry of endpoints behind a URL or on S3."""

    url: Text = Field(description="https://… or s3://bucket/key")
    headers: Headers = Field({}, description="sent with the request, https only")
    seconds: float = Field(
        10, gt=0, le=120, allow_inf_nan=False, description="deadline, all tries together"
    )
    copy_days: int = Field(
        7, ge=0, le=365, description="how long the last good copy stands in for the registry"
    )
    may_run_programs: bool = Field(
        False, description="whether its endpoints may start programs or load modules here"
    )
    variables: list[str] | None = Field(
        None, description="environment variables that its endpoints may name; any by default"
    )


class ListedModelsModel(Model):
    """The models that a provider lists; the keys of the kind come on top."""

    kind: Name
    match: Text = Field(description="which models, with * and ?, such as claude-*")
    most: int = Field(10, ge=1, le=100, description="more models than this are an error")
    seconds: float = Field(30, gt=0, le=120, allow_inf_nan=False, description="deadline")
    copy_days: int = Field(7, ge=0, le=365, description="how long the last list stands in for it")
    template: dict[str, Any] = Field(
        description="the other keys of each endpoint; owner is one of them"
    )
