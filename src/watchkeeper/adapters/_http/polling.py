"""A job that one request began, asked for its status until it has ended."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from watchkeeper.adapters._http.exchange import Answer, joined, origin
from watchkeeper.adapters._http.mapping import as_text, name_of
from watchkeeper.adapters._http.settings import JOB, Poll
from watchkeeper.adapters._http.wire import Wire
from watchkeeper.domain.ports import Step
from watchkeeper.errors import EndpointFault


class Polling:
    """The job of one turn; a poll that failed is made again, the job is not begun again."""

    def __init__(self, poll: Poll, wire: Wire) -> None:
        self._poll = poll
        self._wire = wire
        self._url: str | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a job was begun whose end has not been seen."""
        return self._url is not None

    async def ended(self, begun: tuple[object, Answer] | None) -> tuple[object, Answer]:
        """The body and the answer that say how the job ended.

        Args:
            begun: The first answer; ``None`` where the job is under way.

        Raises:
            EndpointFault: No answer, or one that says nothing of a job.
        """
        if begun is not None:
            if self._status(*begun) in self._ends:
                return begun
            self._url = self._address(*begun)
        assert self._url is not None  # noqa: S101 - the caller asked `is_under_way`
        while True:
            await self._wire.clock.sleep(self._poll.every_seconds)
            answer = await self._wire.exchange.ask("GET", self._url)
            body = self._wire.body(answer)
            status = self._status(body, answer)
            if status is None:
                why = f"no status at '{self._poll.status}'"
                raise self._wire.faults.unreadable(why, answer.content, is_transient=False)
            if status in self._ends:
                self._url = None
                return body, answer

    def step(self, body: object, answer: Answer) -> Step:
        """The turn that the job's end reports; that of a failed one is the agent's failure.

        Raises:
            EndpointFault: It reports none, although the job is done.
        """
        others = (self._poll.status, self._poll.job, self._poll.location)
        status = self._status(body, answer)
        if status not in self._poll.failed:
            return self._wire.step(body, answer, others)
        try:
            step = self._wire.step(body, answer, others)
        except EndpointFault:
            step = Step()
        said = self._wire.found(self._wire.settings.response.agent_error, body, answer)
        error = step.error or (as_text(said) if said else f"the job ended as '{status}'")
        return replace(step, end="agent_error", error=error)

    @property
    def _ends(self) -> frozenset[str]:
        return frozenset({*self._poll.done, *self._poll.failed})

    def _status(self, body: object, answer: Answer) -> str | None:
        return name_of(self._wire.found(self._poll.status, body, answer))

    def _address(self, body: object, answer: Answer) -> str:
        """Where the status is asked; an address that the service gave may not lead elsewhere."""
        source = self._poll.job or self._poll.location
        given = name_of(self._wire.found(source, body, answer))
        if given is None:
            why = f"no job at '{source}'"
            raise self._wire.faults.unreadable(why, answer.content, is_transient=False)
        if self._poll.url is not None:
            return self._poll.url.replace(JOB, quote(given, safe=""))
        home = self._wire.settings.url
        try:
            url = joined(home, given)
            scheme, host, port = origin(url)
            is_listed = bool({host, f"{host}:{port}"} & set(self._poll.hosts))
            is_allowed = origin(url) == origin(home) or (is_listed and scheme in {"http", "https"})
        except ValueError:
            url, is_allowed = given, False
        if not is_allowed:
            what = (
                f"the job's address {url[:200]} is on another host; nothing was sent there. Where "
                "that is right, list the host in 'poll.hosts'"
            )
            raise self._wire.faults.refused("redirect", what)
        return url
