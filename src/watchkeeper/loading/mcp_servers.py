"""harness.mcp: servers of tools, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from watchkeeper.domain.endpoint import McpServer
from watchkeeper.domain.references import is_open_secret, referred_variable

Text = Annotated[str, StringConstraints(min_length=1)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")]
Seconds = Annotated[float, Field(gt=0, le=3600)]

_ADDRESS_RULE = "http(s)://host[:port][/path], without a user or a key in it"


class McpServerModel(BaseModel):
    """One server: a command, or the address of one that runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    command: list[Text] | None = Field(
        None, min_length=1, description="program and arguments; speaks over stdin and stdout"
    )
    url: Text | None = Field(None, description="address of a server that speaks streamable HTTP")
    pass_variables: list[Variable] = Field([], description="variables that the command gets too")
    variables: dict[Variable, str] = Field({}, description="variables with a text, or env:NAME")
    headers: dict[Header, str] = Field({}, description="headers with env:NAME")
    tools: list[Text] | None = Field(None, min_length=1, description="the tools that are offered")
    silent: list[Text] = Field([], description="tools that never make a round barren")
    start_seconds: Seconds = Field(30, description="deadline of its start")
    call_seconds: Seconds = Field(60, description="deadline of one call")

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, given: object) -> object:
        """Takes literal secrets out before an error can quote them."""
        if not isinstance(given, Mapping):
            return given
        hidden: dict[str, object] = {}
        headers, variables = given.get("headers"), given.get("variables")
        if isinstance(headers, Mapping):
            hidden["headers"] = {
                name: text if isinstance(text, str) and referred_variable(text) else ""
                for name, text in headers.items()
            }
        if isinstance(variables, Mapping):
            hidden["variables"] = {
                name: "" if is_open_secret(str(name), text) else text
                for name, text in variables.items()
            }
        if "url" in given and not _is_plain_address(given["url"]):
            hidden["url"] = "-"
        return {**given, **hidden}

    @field_validator("headers")
    @classmethod
    def _headers_refer(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, text in headers.items():
            if not text:
                raise ValueError(
                    f"the value of '{name}' as env:NAME, or with a scheme as in 'Bearer env:NAME'; "
                    "the value found here is not shown"
                )
        return headers

    @field_validator("variables")
    @classmethod
    def _secrets_refer(cls, variables: dict[str, str]) -> dict[str, str]:
        for name, text in variables.items():
            if is_open_secret(name, text):
                raise ValueError(
                    f"the value of '{name}' as env:NAME; the value found here is not shown"
                )
        return variables

    @field_validator("url")
    @classmethod
    def _address_is_plain(cls, address: str | None) -> str | None:
        if address == "-":
            raise ValueError(_ADDRESS_RULE)
        return address

    @model_validator(mode="after")
    def _is_one_kind(self) -> McpServerModel:
        if (self.command is None) == (self.url is None):
            raise ValueError("either command or url")
        if self.url is not None and (self.pass_variables or self.variables):
            raise ValueError("pass_variables and variables only beside command")
        if self.command is not None and self.headers:
            raise ValueError("headers only beside url")
        if self.tools is not None:
            unknown = [name for name in self.silent if name not in self.tools]
            if unknown:
                raise ValueError(f"silent to name some of tools; '{unknown[0][:80]}' is not there")
        return self


def _is_plain_address(address: object) -> bool:
    if not isinstance(address, str):
        return False
    try:
        parts = urlsplit(address)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(parts.hostname)
        and has_port
        and "@" not in parts.netloc
        and not parts.fragment
        and address.isprintable()
        and " " not in address
        and not any(is_open_secret(name, "") for name, _ in parse_qsl(parts.query))
    )


def mcp_servers(models: Mapping[str, McpServerModel], root: Path) -> tuple[McpServer, ...]:
    """The servers as the library keeps them.

    Args:
        models: What the configuration declares.
        root: The project folder, from which words that begin with ``./`` start.
    """
    return tuple(
        McpServer(
            name=name,
            command=tuple(
                str(root.resolve() / word) if word.startswith("./") else word
                for word in one.command or ()
            ),
            url=one.url,
            pass_variables=tuple(one.pass_variables),
            variables=one.variables,
            headers=one.headers,
            tools=tuple(one.tools) if one.tools is not None else None,
            silent=frozenset(one.silent),
            start_seconds=one.start_seconds,
            call_seconds=one.call_seconds,
        )
        for name, one in models.items()
    )
