"""What an S3 server's answer, or its silence, means for somebody who wants their records kept.

Our texts hold error codes and addresses, never what the server or the SDK wrote: those may
quote request headers, and no secret may reach a log through them.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
    SSOError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError

from watchkeeper.errors import StoreRefused, StoreUnavailable, WatchkeeperError

_CREDENTIALS = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role is "
    "attached"
)
_RIGHTS = "s3:GetObject, s3:PutObject and s3:DeleteObject on its objects, s3:ListBucket on itself"
_LATER = "Nothing is lost: the same command can be run again"
_LOOK_UP = (
    "Look the code up in the server's documentation; a wrong endpoint_url, region or bucket is "
    "the usual cause"
)
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}

_CODE_BY_STATUS: dict[int, str] = {
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.MOVED_PERMANENTLY: "PermanentRedirect",
    HTTPStatus.TEMPORARY_REDIRECT: "PermanentRedirect",
    HTTPStatus.FORBIDDEN: "AccessDenied",
    HTTPStatus.NOT_IMPLEMENTED: "NotImplemented",
}
_SAME_AS = {
    "AllAccessDisabled": "AccessDenied",
    "AccountProblem": "AccessDenied",
    "AuthorizationHeaderMalformed": "PermanentRedirect",
    "ExpiredTokenException": "ExpiredToken",
    "IllegalLocationConstraintException": "PermanentRedirect",
    "InvalidRegion": "PermanentRedirect",
    "InvalidToken": "ExpiredToken",
    "MethodNotAllowed": "NotImplemented",
    "SignatureDoesNotMatch": "InvalidAccessKeyId",
    "TokenRefreshRequired": "ExpiredToken",
}

# What the server answered: its code, and then as in our own errors.
_ANSWERS: dict[str, tuple[type[WatchkeeperError], str, str]] = {
    "NoSuchBucket": (
        StoreRefused,
        "there is no bucket {bucket}",
        "Create the bucket, or correct the store's URL",
    ),
    "AccessDenied": (
        StoreRefused,
        "these credentials may not do that in bucket {bucket}",
        f"The store needs {_RIGHTS}",
    ),
    "InvalidAccessKeyId": (
        StoreRefused,
        "the server does not accept the access key or its secret",
        f"{_CREDENTIALS}; then look for a wrong or rotated key",
    ),
    "ExpiredToken": (
        StoreRefused,
        "the session token is not valid or has expired",
        "Sign in again, or use a role whose tokens are renewed, and run the command again",
    ),
    "RequestTimeTooSkewed": (
        StoreUnavailable,
        "this machine's clock differs from the server's",
        "Set the clock (NTP) and run the command again",
    ),
    "PermanentRedirect": (
        StoreRefused,
        "bucket {bucket} is in another region",
        "Add region={region} to the store's URL, or set AWS_REGION",
    ),
    "NotImplemented": (
        StoreRefused,
        "the server does not know this request",
        "Use a store with conditional writes ('If-None-Match: *'): Amazon S3, an up to date S3 "
        "look-alike, or a local folder (file:./watchkeeper-data)",
    ),
}

# What kept the answer away. The first that fits counts; families stand after their members.
_SILENCES: tuple[tuple[tuple[type[BotoCoreError], ...], type[WatchkeeperError], str, str], ...] = (
    ((NoCredentialsError,), StoreRefused, "no AWS credentials were found", _CREDENTIALS),
    (
        (PartialCredentialsError,),
        StoreRefused,
        "only half of the AWS credentials is set",
        _CREDENTIALS,
    ),
    (
        (ProfileNotFound,),
        StoreRefused,
        "the profile that AWS_PROFILE names does not exist",
        "Correct AWS_PROFILE or add the profile to the AWS configuration",
    ),
    (
        (CredentialRetrievalError, TokenRetrievalError, SSOError),
        StoreRefused,
        "the AWS credentials could not be fetched ({name})",
        "Sign in again (aws sso login), or see what the credential process reports",
    ),
    (
        (SSLError,),
        StoreRefused,
        "no trusted TLS connection to {where}",
        "Set AWS_CA_BUNDLE to the authority that signed its certificate, or correct the "
        "endpoint's scheme",
    ),
    (
        (ProxyConnectionError,),
        StoreUnavailable,
        "the proxy for {where} did not answer",
        "Correct HTTPS_PROXY or NO_PROXY, or start the proxy",
    ),
    (
        (ConnectTimeoutError, EndpointConnectionError),
        StoreUnavailable,
        "no connection to {where}",
        f"See that the server runs, and that endpoint_url and region are right. {_LATER}",
    ),
    (
        (ReadTimeoutError,),
        StoreUnavailable,
        "{where} took the request and did not answer in time",
        f"Whether a write was stored is not known, and writing it again is safe. {_LATER}",
    ),
    (
        (HTTPClientError, BotoConnectionError, IncompleteReadError),
        StoreUnavailable,
        "the connection to {where} broke ({name})",
        f"Whether a write was stored is not known, and writing it again is safe. {_LATER}",
    ),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Which store an error is about: its URL, its bucket and the server that was asked."""

    url: str
    bucket: str
    endpoint: str

    def __str__(self) -> str:
        """The URL, with the server where the URL does not name it."""
        return self.url if self.endpoint in self.url else f"{self.url} (at {self.endpoint})"


def code_of(error: ClientError) -> str:
    """The server's word for what is wrong; from the status where the body had none."""
    code = str(error.response.get("Error", {}).get("Code") or "")
    if code and not code.isdigit():
        return code
    return _CODE_BY_STATUS.get(status_of(error), code or "no error code")


def status_of(error: ClientError) -> int:
    """The HTTP status, or 0 where there is none."""
    return int(_metadata(error).get("HTTPStatusCode", 0))


def retries_of(error: ClientError) -> int:
    """How many requests went out before the one that this answers."""
    return int(_metadata(error).get("RetryAttempts", 0))


def explained(error: ClientError | BotoCoreError, doing: str, place: Place) -> WatchkeeperError:
    """Our error for boto3's: what failed, where, why, and what to do."""
    if isinstance(error, ClientError):
        kind, problem, remedy = _answered(error, place)
    else:
        kind, problem, remedy = _unanswered(error, place)
    return kind(f"{place}: {doing} failed: {problem}. {remedy}.")


def _answered(error: ClientError, place: Place) -> tuple[type[WatchkeeperError], str, str]:
    code, status = code_of(error), status_of(error)
    said = f"{code} (HTTP {status})"
    known = _ANSWERS.get(_SAME_AS.get(code, code))
    if known:
        kind, problem, remedy = known
        words = {"bucket": repr(place.bucket), "region": _region(error)}
        return kind, f"{said}, {problem.format(**words)}", remedy.format(**words)
    if 400 <= status < 500 and status not in _PASSING:
        return StoreRefused, f"the server refused the request with {said}", _LOOK_UP
    retries = retries_of(error)
    again = f", still at request {retries + 1}" if retries else ""
    return StoreUnavailable, f"the server answered {said}{again}", _LATER


def _unanswered(error: BotoCoreError, place: Place) -> tuple[type[WatchkeeperError], str, str]:
    for causes, kind, problem, remedy in _SILENCES:
        if isinstance(error, causes):
            said = problem.format(where=place.endpoint, name=type(error).__name__)
            return kind, said, remedy
    return (
        StoreRefused,
        f"the AWS settings cannot be used ({type(error).__name__})",
        "See the AWS variables and configuration files of this machine, and the store's URL",
    )


def _region(error: ClientError) -> str:
    headers = _metadata(error).get("HTTPHeaders", {})
    details: dict[str, Any] = dict(error.response.get("Error", {}))
    return str(headers.get("x-amz-bucket-region") or details.get("Region") or "<its region>")


def _metadata(error: ClientError) -> dict[str, Any]:
    return dict(error.response.get("ResponseMetadata", {}))
