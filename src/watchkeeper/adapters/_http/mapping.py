"""Where in an answer the parts of a report stand: JMESPath expressions, or names of headers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from watchkeeper.adapters._reported import Unreadable

_FROM_HEADER = "header:"
_REPORT_KEYS = ("answer", "rounds", "usage", "action", "state", "served_model", "cost_usd", "end")


def _compiled(expression: str) -> Any:  # noqa: ANN401 - the library's own type is not published
    # Needed by this kind of endpoint alone.
    import jmespath  # noqa: PLC0415

    return jmespath.compile(expression)


def _checked(source: str) -> str:
    """The source, unless it can never be found anywhere."""
    if source.startswith(_FROM_HEADER):
        name = source.removeprefix(_FROM_HEADER)
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise ValueError("header:NAME, the name of a header of the answer")
        return source
    import jmespath.exceptions as refused  # noqa: PLC0415

    try:
        _compiled(source).search({})
    except (refused.ParseError, refused.LexerError, refused.EmptyExpressionError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(
            f"a JMESPath, such as data.items[0].text, or header:NAME: {why}"
        ) from error
    except refused.UnknownFunctionError as error:
        raise ValueError(f"a JMESPath with functions that exist: {error}") from error
    except refused.JMESPathError:
        pass  # it needs more than an empty answer, which is what it will get
    return source


Source = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_checked)]


def found(source: str | None, body: object, headers: Mapping[str, str]) -> object:
    """What a source finds in an answer, ``None`` for nothing.

    Raises:
        Unreadable: The expression cannot be applied to this answer.
    """
    if source is None:
        return None
    if source.startswith(_FROM_HEADER):
        return headers.get(source.removeprefix(_FROM_HEADER).lower())
    import jmespath.exceptions as refused  # noqa: PLC0415

    try:
        return cast("object", _compiled(source).search(body))
    except (refused.JMESPathError, TypeError, ValueError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unreadable(f"{source} cannot be applied: {why}") from error


def name_of(value: object) -> str | None:
    """A short text or number as text, as for a session, a job or a model; ``None`` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    return text if text and len(text) <= 2_000 and text.isprintable() else None


def as_text(value: object) -> str:
    """A text as it is, anything else as its JSON; not endless."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:2_000]


class ResponseMap(BaseModel):
    """Where the parts of a report stand in an answer.

    Without ``answer``, ``rounds`` and ``trajectory`` the answer is a report as it is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal["json", "text"] = Field(
        "json", description="text: the whole body is what the agent said"
    )
    trajectory: Source | None = Field(None, description="a whole report in the format")
    answer: Source | None = Field(None, description="what the agent said")
    rounds: Source | None = Field(None, description="its rounds, in the format")
    usage: Source | None = Field(None, description="tokens of the whole turn, in the format")
    action: Source | None = Field(None, description="a named outcome")
    state: Source | None = Field(None, description="what is true afterwards")
    served_model: Source | None = Field(None, description="the model that answered")
    cost_usd: Source | None = Field(None, description="dollars of this turn")
    end: Source | None = Field(None, description="answered, refused, truncated or agent_error")
    agent_error: Source | None = Field(
        None, description="why the agent itself failed: the trial has failed"
    )
    error: Source | None = Field(
        None, description="why the service failed, in an answer with status 200: a fault"
    )
    session: Source = Field(
        "session_id", description="the id of the conversation, for the next turn's request"
    )
    event: Source | None = Field(None, description="turns an event of a stream into the format's")

    def report(
        self, body: object, headers: Mapping[str, str], others: Collection[str | None] = ()
    ) -> object:
        """The report that an answer holds, still to be read.

        Args:
            body: The decoded answer.
            headers: Names in lower case.
            others: Keys of the answer that are no part of a report.

        Raises:
            Unreadable: Nothing of what is looked for is there.
        """
        if self.format == "text":
            return {"answer": body, **self._parts("", headers)}
        parts = self._parts(body, headers)
        if self.trajectory is not None:
            whole = found(self.trajectory, body, headers)
            return {"answer": whole, **parts} if isinstance(whole, str) else _joined(whole, parts)
        if self.answer is None and self.rounds is None:
            return _joined(self._without(body, others), parts)
        if not parts and found(self.session, body, headers) is None:
            raise Unreadable("nothing is where 'response' says that the parts of a report stand")
        return parts

    def _parts(self, body: object, headers: Mapping[str, str]) -> dict[str, object]:
        sources = {key: cast("str | None", getattr(self, key)) for key in _REPORT_KEYS}
        parts = {key: found(source, body, headers) for key, source in sources.items()}
        failure = found(self.agent_error, body, headers)
        if failure:
            parts["error"] = as_text(failure)
        if parts["served_model"] is not None:
            parts["served_model"] = name_of(parts["served_model"])
        return {key: value for key, value in parts.items() if value is not None}

    def _without(self, body: object, others: Collection[str | None]) -> object:
        """The body without the keys that say something else than a report does."""
        if not isinstance(body, Mapping):
            return body
        mapped = {self.error, self.agent_error, self.session, *others}
        return {key: value for key, value in body.items() if key not in mapped}


def _joined(whole: object, parts: dict[str, object]) -> object:
    if not parts:
        return whole
    if isinstance(whole, str):
        return {"answer": whole, **parts}
    return {**whole, **parts} if isinstance(whole, Mapping) else whole
