"""The keys of an endpoint that is a team's own agent behind a URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from watchkeeper.adapters._http.mapping import ResponseMap, Source
from watchkeeper.adapters._http.template import Template, used_placeholders
from watchkeeper.adapters._own_loop import OWN_LOOP_REFUSAL
from watchkeeper.domain.case import Case
from watchkeeper.domain.references import is_open_secret

JOB = "{{job}}"

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "transfer-encoding",
    }
)
_ADDRESS_RULE = "http(s)://host[:port][/path][?query], without a user or a password in it"


def _is_address(address: str) -> str:
    try:
        url = TypeAdapter(AnyHttpUrl).validate_python(address)
    except ValidationError as error:
        raise ValueError(_ADDRESS_RULE) from error
    if url.username or url.password or url.fragment or not address.isascii() or " " in address:
        raise ValueError(_ADDRESS_RULE)
    return address


Address = Annotated[str, Field(max_length=2_000), AfterValidator(_is_address)]
Word = Annotated[str, Field(min_length=1, max_length=100)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class Poll(_Model):
    """How the end of a job is awaited that the first answer only began."""

    job: Source | None = Field(None, description="where the first answer names the job")
    url: Annotated[str, Field(max_length=2_000)] | None = Field(
        None, description="what is asked for its status, with {{job}} in it"
    )
    location: Source | None = Field(None, description="or where the first answer gives the URL")
    hosts: list[Word] = Field(
        [], description="further hosts that location may name, as host or host:port"
    )
    every_seconds: float = Field(2, ge=0.05, le=600, allow_inf_nan=False)
    status: Source = Field("status", description="where each answer says how far the job is")
    done: list[Word] = Field(["done"], min_length=1, description="words for: it has finished")
    failed: list[Word] = Field(["failed"], description="words for: the agent has failed")

    @field_validator("url")
    @classmethod
    def _names_the_job(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if JOB not in url:
            raise ValueError(f"an address with {JOB} in it")
        _is_address(url.replace(JOB, "job"))
        if JOB in urlsplit(url).netloc:
            raise ValueError(f"{JOB} in its path or query")
        return url

    @model_validator(mode="after")
    def _one_way(self) -> Poll:
        if (self.url is None) == (self.location is None) or (self.url is None) != (
            self.job is None
        ):
            raise ValueError("either 'job' with 'url', or 'location'")
        return self


class Version(_Model):
    """Where the agent says which model it is served by; its revision is the harness's to tell."""

    url: Address = Field(description="asked with GET before every run")
    model: Source | None = Field(
        None, description="where the answer names the model; without it the whole text does"
    )


class Settings(_Model):
    """What a team's own agent behind a URL adds to the common keys."""

    owns_loop: ClassVar[bool] = True

    model: Word | None = Field(None, description="what is asked for, where anything is")
    url: Address = Field(description="where the agent is asked")
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, Annotated[str, Field(max_length=4_000)]] = Field(
        {}, description="further headers; a secret is given as env:NAME, or Bearer env:NAME"
    )
    request: Template | None = Field(None, description="the JSON that is sent, with placeholders")
    response: ResponseMap = ResponseMap()
    stream: Literal["none", "sse", "jsonl"] = Field(
        "none", description="server-sent events, or JSON lines"
    )
    poll: Poll | None = Field(None, description="where the first answer only begins a job")
    version: Version | None = Field(None, description="where it says what is served")
    tools: list[Word] | None = Field(
        None, description="every tool that the agent has; without it graders may name any"
    )
    request_seconds: float = Field(
        600, gt=0, le=86_400, allow_inf_nan=False, description="deadline of one request, whole"
    )
    max_response_bytes: int = Field(
        20_000_000, ge=1_000, le=1_000_000_000, description="of one answer, unpacked"
    )

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders that the request uses."""
        if self.request is None:
            return frozenset({"input", "messages", "session_id"})
        return used_placeholders(self.request)

    def offered_tools(self, root: Path) -> frozenset[str] | None:  # noqa: ARG002 - others need it
        """The tools that the agent has, or ``None`` where nobody has listed them."""
        return frozenset(self.tools) if self.tools is not None else None

    def refused(self, case: Case) -> str | None:
        """Why the agent cannot be asked a case, or ``None``."""
        if case.files is not None:
            return "they have initial files, which an agent behind a URL cannot see"
        if any(turn.attachments for turn in case.turns) and "attachments" not in self.placeholders:
            return "they have pictures or files, and the request holds no {{attachments}}"
        return OWN_LOOP_REFUSAL if case.tools and "tools" not in self.placeholders else None

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, given: object) -> object:
        """Takes literal secrets out before an error can quote them."""
        if not isinstance(given, Mapping):
            return given
        hidden: dict[str, object] = {}
        if "@" in str(given.get("url", "")):
            hidden["url"] = ""
        headers = given.get("headers")
        if isinstance(headers, Mapping):
            hidden["headers"] = {
                name: "" if _is_open_secret(str(name), value) else value
                for name, value in headers.items()
            }
        return {**given, **hidden}

    @field_validator("headers")
    @classmethod
    def _headers_are_plain(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"names of headers; {name!r:.60} is none")
            if name.lower() in _OWN_HEADERS:
                raise ValueError(f"no header '{name}', which Watchkeeper sets itself")
            if _is_open_secret(name, value):
                raise ValueError(f"'{name}' as env:NAME or Bearer env:NAME, because it is a secret")
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"one line of ASCII as the value of '{name}'")
        if len({name.lower() for name in headers}) != len(headers):
            raise ValueError("every header once")
        return headers

    @field_validator("poll")
    @classmethod
    def _poll_alone(cls, poll: Poll | None, info: ValidationInfo) -> Poll | None:
        if poll is not None and info.data.get("stream", "none") != "none":
            raise ValueError("either 'stream' or 'poll'")
        return poll


def _is_open_secret(name: str, value: object) -> bool:
    return is_open_secret("auth" if name.lower() == "cookie" else name, value)
