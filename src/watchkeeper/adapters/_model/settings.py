"""What every endpoint that is a model behind a provider's API is configured with."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import (
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from watchkeeper.errors import UsageError

_FROM_VARIABLE = "env:"
_REFERENCE = rf"^{_FROM_VARIABLE}[A-Za-z_][A-Za-z0-9_]*$"
_ADDRESS_RULE = "http(s)://host[:port][/path], without a user, a key or a query in it"


class ModelSettings(BaseModel):
    """Keys of every kind that speaks to a model through its provider's SDK.

    Without ``base_url`` it is the public address, whatever the SDK finds in the environment: what
    an endpoint is stands in its configuration.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    model: str = Field(min_length=1, max_length=200, description="model or alias to ask for")
    api_key: str = Field(
        pattern=_REFERENCE,
        json_schema_extra={"secret": True},
        description="the key, as env:NAME",
    )
    base_url: str | None = Field(None, description="address of another server or a gateway")
    max_tokens: int = Field(4096, ge=1, le=128_000, description="output tokens of one response")
    request_seconds: float = Field(
        120, gt=0, le=3600, allow_inf_nan=False, description="deadline of one request"
    )
    stream: bool = Field(
        False, description="receive responses piece by piece, which tells when the first one came"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, given: object) -> object:
        """Takes a literal key and a user in an address out before an error can quote them."""
        if not isinstance(given, Mapping):
            return given
        hidden = {}
        if "api_key" in given and not re.match(_REFERENCE, str(given["api_key"])):
            hidden["api_key"] = ""
        if "@" in str(given.get("base_url", "")):
            hidden["base_url"] = ""
        return {**given, **hidden}

    @field_validator("model")
    @classmethod
    def _model_is_name(cls, model: str) -> str:
        if not model.isprintable() or " " in model or model in {".", ".."}:
            raise ValueError("a model's name, without spaces")
        return model

    @field_validator("base_url")
    @classmethod
    def _address_is_plain(cls, address: str | None) -> str | None:
        if address is None:
            return None
        try:
            url = TypeAdapter(AnyHttpUrl).validate_python(address)
        except ValidationError as error:
            raise ValueError(_ADDRESS_RULE) from error
        if url.username or url.password or url.query or url.fragment:
            raise ValueError(_ADDRESS_RULE)
        return address

    @property
    def key_variable(self) -> str:
        """The variable that holds the key."""
        return self.api_key.removeprefix(_FROM_VARIABLE)


def key_of(settings: ModelSettings, variables: Mapping[str, str], where: str) -> str:
    """The key of an endpoint; ``where`` is how an error begins.

    Raises:
        UsageError: The variable of the key is not set, or holds no key.
    """
    variable = settings.key_variable
    key = variables.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"{where}: api_key is taken from the variable {variable}, which is not set; set it, "
            "or name another one"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{where}: the variable {variable} holds something that is not a key")
    return key
