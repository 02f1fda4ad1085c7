"""Messages to Slack, through slack-sdk.

The SDK's async client needs aiohttp, which nothing else here does; its plain client runs on a
thread of its own instead. That thread is a daemon: a Slack that never answers cannot hold up the
end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import re
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry import (
    ConnectionErrorRetryHandler,
    FixedValueRetryIntervalCalculator,
    RateLimitErrorRetryHandler,
)
from slack_sdk.http_retry.builtin_handlers import ServerErrorRetryHandler
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState

from watchkeeper.domain.ports import Message, Receipt, Recipient
from watchkeeper.errors import NotifierFault, UsageError
from watchkeeper.notifiers.blocks import blocks_of, fallback_text
from watchkeeper.notifiers.slack_faults import fault, refusal, shown_name, unreachable

EVENT_TYPE = "watchkeeper_message"
_NAMESPACE = uuid.UUID("6f1f5f0e-2f0b-5d57-9b57-0c3f6c1e6a41")
_CHANNEL_ID = re.compile(r"[CDG][A-Z0-9]{2,}")
_MESSAGE_ID = re.compile(r"\d{1,12}\.\d{1,9}")
_NO_SUCH_THREAD = frozenset({"thread_not_found", "cannot_reply_to_message"})


class SlackNotifier:
    """Posts messages as a Slack bot, at least once.

    Where an answer is lost on its way the message may be there already, and Slack dedupes nothing
    for bots; ``metadata.event_payload.key`` is the same on both.

    Args:
        token: The bot's token (``xoxb-…``); it appears in no exception and no log.
        base_url: Where the Web API is, with https; plain http only on this machine.
        timeout_s: Seconds for one connection or one answer.
        retries: How often one message is tried again after a refusal for load, a lost connection
            or a server error.
        longest_wait_s: The longest wait that Slack may ask for; a longer one is left to the outbox.
        deadline_s: Seconds for the message altogether.
        backoff_s: Seconds before a retry for which Slack names no wait.
    """

    kind: ClassVar[str] = "slack"

    def __init__(
        self,
        token: str,
        *,
        base_url: str | None = None,
        timeout_s: int = 10,
        retries: int = 2,
        longest_wait_s: float = 30.0,
        deadline_s: float = 90.0,
        backoff_s: float = 1.0,
    ) -> None:
        url = base_url or WebClient.BASE_URL
        _check_token(token)
        _check_url(url)
        self._deadline_s = deadline_s
        interval = FixedValueRetryIntervalCalculator(backoff_s)
        silent = logging.Logger("watchkeeper.slack_sdk", level=logging.CRITICAL + 1)
        self._client = WebClient(
            token=token,
            base_url=url,
            timeout=timeout_s,
            logger=silent,  # every failure comes back as a NotifierFault; the SDK logs requests
            retry_handlers=[
                _BoundedWait(retries, longest_wait_s, backoff_s),
                ConnectionErrorRetryHandler(retries, interval),
                ServerErrorRetryHandler(retries, interval),
            ],
        )

    def __repr__(self) -> str:
        """Without the token."""
        return f"SlackNotifier(base_url={self._client.base_url!r})"

    async def send(self, message: Message, recipient: Recipient) -> Receipt:
        """Posts a message, into its thread where it has one.

        Raises:
            NotifierFault: It was not delivered; ``kind`` is Slack's error code, or
                ``rate_limited``, ``unreachable``, ``bad_response``, ``no_channel``.
        """
        thread = _slack_thread(message.thread)
        channel = thread.channel if thread else recipient.slack_channel
        if not channel:
            raise NotifierFault(
                f"owner {shown_name(recipient.owner)} has no slack_channel; set one in owners.yaml",
                kind="no_channel",
                is_transient=False,
            )
        payload = _payload(message, recipient)
        outcome = await self._post(payload, channel, thread)
        if isinstance(outcome, NotifierFault) and thread and outcome.kind in _NO_SUCH_THREAD:
            outcome = await self._post(payload, recipient.slack_channel or channel, None)
        if isinstance(outcome, NotifierFault):
            raise outcome
        return outcome

    async def _post(
        self, payload: Mapping[str, Any], channel: str, thread: Receipt | None
    ) -> Receipt | NotifierFault:
        """What came of one call, on a thread of its own."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Receipt | NotifierFault] = loop.create_future()

        def settle(outcome: Receipt | NotifierFault) -> None:
            if not done.done():
                done.set_result(outcome)

        def work() -> None:
            outcome: Receipt | NotifierFault = fault(
                channel, "bad_response", "the call ended without an outcome", is_transient=True
            )
            try:
                outcome = self._call(payload, channel, thread)
            finally:
                with contextlib.suppress(RuntimeError):  # nobody waits any more, the loop is closed
                    loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=work, name="slack", daemon=True).start()
        try:
            return await asyncio.wait_for(done, self._deadline_s)
        except TimeoutError:
            said = f"no answer within {self._deadline_s:g} s"
            return fault(channel, "unreachable", said, is_transient=True)

    def _call(
        self, payload: Mapping[str, Any], channel: str, thread: Receipt | None
    ) -> Receipt | NotifierFault:
        """The receipt, or the fault as a value.

        A fault is not raised here and not chained: the SDK's exceptions hold the request with its
        Authorization header.
        """
        thread_ts = thread.message_id if thread else None
        try:
            response = self._client.chat_postMessage(
                channel=channel, thread_ts=thread_ts, **payload
            )
            sent_to, sent_as = response.get("channel"), response.get("ts")
        except SlackApiError as error:
            return refusal(channel, error.response.status_code, error.response.data)
        except (SlackClientError, OSError, http.client.HTTPException) as error:
            return unreachable(channel, error)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            # An answer that the SDK trips over: not JSON, an unknown charset, a list.
            return fault(channel, "bad_response", type(error).__name__, is_transient=True)
        if not isinstance(sent_to, str) or not isinstance(sent_as, str):
            said = "it accepted the message and did not say where it is"
            return fault(channel, "bad_response", said, is_transient=False)
        return Receipt(channel=sent_to, message_id=sent_as)


class _BoundedWait(RateLimitErrorRetryHandler):
    """Waits after a 429 as long as Slack asks, within a bound; the SDK's own knows none."""

    def __init__(self, retries: int, longest_wait_s: float, default_wait_s: float) -> None:
        super().__init__(retries)
        self._longest_wait_s = longest_wait_s
        self._default_wait_s = default_wait_s

    def _can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        is_limited = super()._can_retry(
            state=state, request=request, response=response, error=error
        )
        return is_limited and self._wait_s(response) <= self._longest_wait_s

    def prepare_for_next_attempt(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> None:
        """Waits, and asks for another attempt."""
        del request, error
        state.next_attempt_requested = True
        time.sleep(self._wait_s(response))
        state.increment_current_attempt()

    def _wait_s(self, response: HttpResponse | None) -> float:
        headers = response.headers if response else {}
        asked = next(
            (value for name, value in headers.items() if name.lower() == "retry-after"), []
        )
        text = asked[0] if isinstance(asked, list) and asked else asked
        try:
            return max(0.0, float(str(text)))
        except ValueError:
            return self._default_wait_s


def _payload(message: Message, recipient: Recipient) -> dict[str, Any]:
    """What is posted; nothing in it is parsed by Slack but the mention."""
    key = shown_name(message.key)
    return {
        "text": fallback_text(message, recipient),
        "blocks": blocks_of(message, recipient),
        "mrkdwn": False,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": {
            "event_type": EVENT_TYPE,
            "event_payload": {"key": key, "severity": message.severity},
        },
        # Slack's own clients send this; for bots it promises nothing and does no harm.
        "client_msg_id": str(uuid.uuid5(_NAMESPACE, key)),
    }


def _slack_thread(thread: Receipt | None) -> Receipt | None:
    """The thread, where it is one of Slack's; a receipt of the console is not."""
    if thread is None or not _CHANNEL_ID.fullmatch(thread.channel):
        return None
    return thread if _MESSAGE_ID.fullmatch(thread.message_id) else None


def _check_token(token: str) -> None:
    if not re.fullmatch(r"[!-~]+", token.strip()):
        raise UsageError(
            "slack.token is empty or holds characters that no Slack token has; expected one like"
            " xoxb-… in the variable that slack.token of watchkeeper.yaml names"
        )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    is_local = parts.hostname in {"127.0.0.1", "::1", "localhost"}
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise UsageError(
            f"the Slack address {shown_name(url)} is not https;"
            " the token would be readable on its way"
        )
