"""Slack's Web API on loopback, as far as a bot that posts needs it, with Slack's own limits.

    with slack_server(channels={"C0123": "alerts"}) as slack:
        client = WebClient(token=slack.token, base_url=slack.base_url)

Messages really are kept: an update of one that was never posted is refused, and
`conversations.replies` gives a thread back. `fail` scripts what the next calls meet.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from tests.servers.loopback import LoopbackServer, Reply, Request
from tests.servers.slack_replies import faults_of, refused

TOKEN = "xoxb-1-test"
TEAM = "T0TEST"
BOT_USER = "U0WATCH"
BOT = "B0WATCH"


@dataclass(frozen=True, slots=True)
class SlackCall:
    """One call as it arrived; `ok` tells whether Slack would have done what was asked."""

    method: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    ok: bool

    @property
    def token(self) -> str:
        """The bearer token; empty when there was none."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")


class SlackServer(LoopbackServer):
    """The server in this process.

    Attributes:
        calls: Every call in order of arrival, refused or not.
        messages: Channel id → its messages in order, as last updated.
        base_url: With the slash at the end that the SDK needs.
    """

    def __init__(
        self, *, token: str = TOKEN, channels: Mapping[str, str] | None = None, port: int = 0
    ) -> None:
        super().__init__(port)
        self.token = token
        self.channels = dict(channels if channels is not None else {"C0123": "alerts"})
        self.calls: list[SlackCall] = []
        self.messages: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._scripted: dict[str, list[Reply]] = defaultdict(list)
        self._always: dict[str, Reply] = {}
        self._lost: Counter[str] = Counter()
        self._last_ts = 0
        self._methods: Mapping[str, Callable[[Mapping[str, Any]], Reply]] = {
            "api.test": lambda _: Reply.json({"ok": True}),
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.getPermalink": self._permalink,
            "conversations.info": self._info,
            "conversations.join": self._info,
            "conversations.list": self._list,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
        }

    @property
    def base_url(self) -> str:
        """What the SDK takes as `base_url`."""
        return f"{self.url}/api/"

    def fail(self, method: str, *replies: Reply) -> None:
        """The next calls of the method get these replies, in order, and nothing is done."""
        with self.lock:
            self._scripted[method].extend(replies)

    def fail_always(self, method: str, reply: Reply | None) -> None:
        """Every call of the method gets this reply until it is set to None."""
        with self.lock:
            if reply is None:
                self._always.pop(method, None)
            else:
                self._always[method] = reply

    def lose_answers(self, method: str, count: int = 1) -> None:
        """The next calls of the method are carried out, but the connection closes unanswered."""
        with self.lock:
            self._lost[method] += count

    def calls_of(self, method: str) -> list[SlackCall]:
        """The calls of one method in order of arrival."""
        with self.lock:
            return [call for call in self.calls if call.method == method]

    def thread(self, channel: str, thread_ts: str) -> list[dict[str, Any]]:
        """The first message of a thread and its replies."""
        with self.lock:
            return [m for m in self.messages[channel] if thread_ts in (m["ts"], m.get("thread_ts"))]

    def answer(self, request: Request) -> Reply:
        """What Slack would say, unless the call is scripted to fail."""
        method = request.path.removeprefix("/api/")
        body = _body(request)
        with self.lock:
            reply = self._reply(method, body, request)
            self.calls.append(SlackCall(method, body, request.headers, _is_ok(reply)))
            number = len(self.calls)
        headers = {**reply.headers, "x-slack-req-id": f"req{number:06d}"}
        return Reply(reply.status, reply.body, headers, reply.delay_s, reply.drop)

    def _reply(self, method: str, body: Mapping[str, Any], request: Request) -> Reply:
        if self._scripted[method]:
            return self._scripted[method].pop(0)
        if method in self._always:
            return self._always[method]
        if method not in self._methods:
            return refused("unknown_method", req_method=method)
        if method != "api.test":
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            token = bearer or str(body.get("token", ""))
            if not token:
                return refused("not_authed")
            if token != self.token:
                return refused("invalid_auth")
        reply = self._methods[method](body)
        if self._lost[method]:
            self._lost[method] -= 1
            return replace(reply, drop=True)
        return reply

    def _auth_test(self, body: Mapping[str, Any]) -> Reply:
        del body
        return Reply.json(
            {
                "ok": True,
                "url": "https://test.slack.com/",
                "team": "Test",
                "user": "watchkeeper",
                "team_id": TEAM,
                "user_id": BOT_USER,
                "bot_id": BOT,
                "is_enterprise_install": False,
            },
            x_oauth_scopes="chat:write,channels:read,channels:history",
        )

    def _post(self, body: Mapping[str, Any]) -> Reply:
        channel = self._channel(body)
        if channel is None:
            return refused("channel_not_found")
        wrong = faults_of(body)
        if wrong is not None:
            return wrong
        thread_ts = body.get("thread_ts")
        if thread_ts is not None and not self.thread(channel, str(thread_ts)):
            return refused("thread_not_found")
        message = {
            "type": "message",
            "subtype": "bot_message",
            "ts": self._new_ts(),
            "user": BOT_USER,
            "bot_id": BOT,
            "team": TEAM,
            "text": body.get("text", ""),
            **{name: body[name] for name in ("blocks", "thread_ts", "metadata") if name in body},
        }
        self.messages[channel].append(message)
        return Reply.json({"ok": True, "channel": channel, "ts": message["ts"], "message": message})

    def _update(self, body: Mapping[str, Any]) -> Reply:
        channel = self._channel(body)
        if channel is None:
            return refused("channel_not_found")
        found = [m for m in self.messages[channel] if m["ts"] == body.get("ts")]
        if not found:
            return refused("message_not_found")
        wrong = faults_of(body)
        if wrong is not None:
            return wrong
        message = found[0]
        message.update({name: body[name] for name in ("text", "blocks") if name in body})
        message["edited"] = {"user": BOT_USER, "ts": self._new_ts()}
        return Reply.json(
            {
                "ok": True,
                "channel": channel,
                "ts": message["ts"],
                "text": message["text"],
                "message": message,
            }
        )

    def _permalink(self, body: Mapping[str, Any]) -> Reply:
        channel = self._channel(body)
        if channel is None:
            return refused("channel_not_found")
        ts = str(body.get("message_ts", ""))
        if not any(m["ts"] == ts for m in self.messages[channel]):
            return refused("message_not_found")
        link = f"https://test.slack.com/archives/{channel}/p{ts.replace('.', '')}"
        return Reply.json({"ok": True, "channel": channel, "permalink": link})

    def _info(self, body: Mapping[str, Any]) -> Reply:
        channel = self._channel(body)
        if channel is None:
            return refused("channel_not_found")
        return Reply.json({"ok": True, "channel": self._described(channel)})

    def _list(self, body: Mapping[str, Any]) -> Reply:
        limit = int(body.get("limit") or 100)
        start = int(body.get("cursor") or 0)
        names = list(self.channels)
        after = str(start + limit) if start + limit < len(names) else ""
        page = [self._described(channel) for channel in names[start : start + limit]]
        metadata = {"next_cursor": after}
        return Reply.json({"ok": True, "channels": page, "response_metadata": metadata})

    def _history(self, body: Mapping[str, Any]) -> Reply:
        channel = self._channel(body)
        if channel is None:
            return refused("channel_not_found")
        tops = [m for m in self.messages[channel] if m.get("thread_ts", m["ts"]) == m["ts"]]
        return Reply.json({"ok": True, "messages": tops[::-1], "has_more": False})

    def _replies(self, body: Mapping[str, Any]) -> Reply:
        channel = self._channel(body)
        if channel is None:
            return refused("channel_not_found")
        found = self.thread(channel, str(body.get("ts", "")))
        if not found:
            return refused("thread_not_found")
        return Reply.json({"ok": True, "messages": found, "has_more": False})

    def _channel(self, body: Mapping[str, Any]) -> str | None:
        asked = str(body.get("channel", ""))
        for channel, name in self.channels.items():
            if asked in (channel, name, f"#{name}"):
                return channel
        return None

    def _described(self, channel: str) -> dict[str, Any]:
        return {
            "id": channel,
            "name": self.channels[channel],
            "is_channel": True,
            "is_private": False,
            "is_archived": False,
            "is_member": True,
        }

    def _new_ts(self) -> str:
        self._last_ts = max(self._last_ts + 1, time.time_ns() // 1000)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"


def slack_server(
    *, token: str = TOKEN, channels: Mapping[str, str] | None = None
) -> AbstractContextManager[SlackServer]:
    """The server running in this process until the block ends."""
    return SlackServer(token=token, channels=channels).running()


def _is_ok(reply: Reply) -> bool:
    return reply.status == 200 and bool(reply.body) and json.loads(reply.body)["ok"] is True


def _body(request: Request) -> Mapping[str, Any]:
    """JSON or form fields; JSON inside form fields is read too, as Slack does."""
    if request.headers.get("content-type", "").startswith("application/json"):
        document = json.loads(request.body or b"{}")
        return document if isinstance(document, dict) else {}
    fields: dict[str, Any] = {**request.query, **dict(parse_qsl(request.body.decode()))}
    for name in ("blocks", "attachments", "metadata"):
        if isinstance(fields.get(name), str):
            try:
                fields[name] = json.loads(fields[name])
            except json.JSONDecodeError:
                continue
    return fields
