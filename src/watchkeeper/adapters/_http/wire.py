"""What the sessions of one endpoint share: how an answer is read, and which fault it may be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from watchkeeper.adapters._http.exchange import Answer, Exchange
from watchkeeper.adapters._http.faults import Faults
from watchkeeper.adapters._http.mapping import as_text, found
from watchkeeper.adapters._http.settings import Settings
from watchkeeper.adapters._reported import Unreadable, clean, read_json, read_reported
from watchkeeper.domain.ports import Clock, Step


@dataclass(frozen=True, slots=True)
class Wire:
    """One endpoint's settings with its connections."""

    settings: Settings
    exchange: Exchange
    faults: Faults
    clock: Clock

    def body(self, answer: Answer) -> object:
        """The decoded body of a whole answer: JSON, or the text where that was agreed.

        Raises:
            EndpointFault: It is a page, is no JSON, or says that the service failed.
        """
        if answer.media_type == "text/html":
            raise self.faults.unreadable("HTML", answer.content, is_transient=True)
        try:
            if self.settings.response.format == "text":
                return answer.content.decode()
            body = clean(read_json(answer.content))
        except Unreadable as error:
            why = str(error)
            raise self.faults.unreadable(why, answer.content, is_transient=True) from None
        except UnicodeDecodeError:
            raise self.faults.unreadable("not UTF-8", None, is_transient=True) from None
        failure = self.found(self.settings.response.error, body, answer)
        if failure:
            what = f"the service says that it failed: {as_text(failure)}"
            raise self.faults.unreachable("service_error", what)
        return body

    def found(self, source: str | None, body: object, answer: Answer) -> object:
        """What a source finds in an answer.

        Raises:
            EndpointFault: The expression cannot be applied to this answer.
        """
        try:
            return found(source, body, answer.headers)
        except Unreadable as error:
            why = str(error)
            raise self.faults.unreadable(why, answer.content, is_transient=False) from None

    def step(self, body: object, answer: Answer, others: Collection[str | None] = ()) -> Step:
        """The turn that an answer reports; ``others`` are keys that are no part of the report.

        Raises:
            EndpointFault: It reports none.
        """
        try:
            return read_reported(self.settings.response.report(body, answer.headers, others))
        except Unreadable as error:
            why = str(error)
            raise self.faults.unreadable(why, answer.content, is_transient=False) from None
