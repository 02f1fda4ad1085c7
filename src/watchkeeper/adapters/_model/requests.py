"""One request to a model's API through its provider's SDK, within one deadline.

The SDK sends one request and nothing more: repeating it is the caller's, who counts it, and every
request has a deadline of its own, because the SDK bounds each phase (connect, read, write) and
not their sum. It follows no redirect: a key goes to the configured address and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from watchkeeper.adapters._model.faults import Faults
from watchkeeper.adapters._model.json import ReportedError, Unreadable
from watchkeeper.adapters._model.stream import StreamCut
from watchkeeper.domain.ports import Clock

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """An SDK that is connected: its module, its client, and the calls that are made.

    ``error`` is the root of the SDK's errors, ``account`` the address and whose limits it shares.
    """

    sdk: Any
    error: type[Exception]
    client: Any
    send: Callable[..., Awaitable[Any]]
    retrieve: Callable[[str], Awaitable[Any]]
    account: str


async def whole(response: httpx2.Response) -> httpx2.Response:
    """A response that the SDK has read to its end."""
    return response


async def sent(
    request: Awaitable[Any],
    line: Line,
    faults: Faults,
    seconds: float,
    clock: Clock,
    read: Callable[[httpx2.Response], Awaitable[T]],
) -> T:
    """What a response with status 2xx gives.

    Args:
        request: A call of the SDK that gives the raw response.
        line: The SDK.
        faults: Names what goes wrong.
        seconds: Deadline of the request and of reading its response.
        clock: What a ``retry-after`` date is held against.
        read: Takes the response.

    Raises:
        EndpointFault: No answer in time, none at all, another status, or one that is not of the
            API.
    """
    sdk, response = line.sdk, None
    try:
        async with asyncio.timeout(seconds):
            response = (await request).http_response
            return await read(response)
    except (TimeoutError, sdk.APITimeoutError):
        fault = faults.unreachable("timeout", f"no answer within {seconds:g} s")
    except sdk.APIConnectionError as error:
        cause = error.__cause__ or error
        what = f"no connection: {type(cause).__name__}: {cause}"
        fault = faults.unreachable("connection", what)
    except sdk.APIStatusError as error:
        answer = error.response
        fault = faults.of_status(answer.status_code, answer.headers, answer.content, clock.now())
    except line.error as error:
        what = f"the SDK refused the answer: {type(error).__name__}: {error}"
        fault = faults.unreachable("bad_response", what)
    except StreamCut as error:
        fault = faults.unreachable("stream_cut", f"the stream was cut: {error}")
    except ReportedError as error:
        headers = {} if response is None else response.headers
        fault = faults.of_status(error.status, headers, error.content, clock.now(), "it failed,")
    except Unreadable as error:
        quoted, status = error.quoted, 200
        if response is not None:
            status = response.status_code
            with contextlib.suppress(RuntimeError):  # a stream keeps nothing
                quoted = quoted or response.content
        fault = faults.unreadable(status, quoted, str(error))
    # Not within the handlers: the SDK's error holds the request with the key.
    raise fault
