"""Store URLs as people write them, parsed before anything is opened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from watchkeeper.errors import UsageError
from watchkeeper.store.objects.port import is_key

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}")
_KNOWN = "known: file:./folder, file:///folder, a plain path, s3://bucket/prefix"
_S3_OPTIONS = ("endpoint_url", "path_style", "region")


@dataclass(frozen=True, slots=True)
class S3Address:
    """Where an S3 store is; what is None is left to boto3's own chain.

    ``path_style`` None means: virtual hosts at Amazon, the bucket in the path elsewhere.
    """

    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None

    def __str__(self) -> str:
        """The URL that parses to this address."""
        style = None if self.path_style is None else str(self.path_style).lower()
        options = {
            "endpoint_url": self.endpoint_url,
            "region": self.region,
            "path_style": style,
        }
        query = "&".join(f"{k}={quote(v, safe=':/')}" for k, v in options.items() if v is not None)
        path = f"s3://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")
        return path + (f"?{query}" if query else "")


def scheme_of(url: str) -> str:
    """``file`` or ``s3``.

    Raises:
        UsageError: another one, or no URL at all. The URL is not repeated: it may hold a secret.
    """
    if not url.strip():
        raise UsageError(f"the store's URL is empty; {_KNOWN}")
    found = _SCHEME.match(url)
    scheme = found.group(1).lower() if found else "file"
    if scheme not in {"file", "s3"}:
        raise UsageError(
            f"the store's URL starts with '{scheme}:', which is no kind of store; {_KNOWN}. "
            f"A folder with ':' in its name is written './{scheme}:…'."
        )
    return scheme


def folder_of(url: str, root: Path) -> Path:
    """The folder that a ``file:`` URL or a plain path means; relative ones start at ``root``.

    Raises:
        UsageError: it names another machine, or has options.
    """
    if not _SCHEME.match(url):
        return root / url
    rest = url.partition(":")[2]
    if "?" in rest or "#" in rest:
        raise UsageError(
            "the store's URL is a file: URL with '?' or '#'; a local folder takes no options "
            "(write %3F or %23 where the name has them)"
        )
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in {"", "localhost"} or not slash:
            raise UsageError(
                "the store's URL names a machine after 'file://'; write file:///absolute/folder "
                "or file:./relative/folder"
            )
        rest = slash + path
    if not rest:
        raise UsageError("the store's URL is 'file:' without a folder; write file:./folder")
    return root / unquote(rest)


def s3_address(url: str) -> S3Address:
    """The parts of an ``s3:`` URL.

    Raises:
        UsageError: a part is missing, unknown, or would put a secret into the configuration.
    """
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise UsageError(
            "the store's s3:// URL cannot be parsed; expected "
            "s3://bucket/prefix?endpoint_url=…&region=…&path_style=true"
        ) from error
    if "@" in parts.netloc:
        raise UsageError(
            "the store's s3:// URL holds credentials before '@'. Remove them and set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
        )
    if not _BUCKET.fullmatch(parts.netloc):
        raise UsageError(
            f"the store's s3:// URL names the bucket {parts.netloc!r}; expected s3://bucket/prefix "
            f"with a bucket of at least three letters, digits, '.', '-' or '_'"
        )
    prefix = parts.path.strip("/")
    if parts.fragment or (prefix and not is_key(prefix)) or len(prefix.encode()) > 100:
        raise UsageError(
            f"the store's s3:// URL has the prefix {prefix!r}; expected plain folder names of at "
            f"most 100 bytes together, without '//', '..' or '#'"
        )
    options = _options(pairs)
    return S3Address(
        bucket=parts.netloc,
        prefix=prefix,
        endpoint_url=_endpoint(options.get("endpoint_url")),
        region=options.get("region") or None,
        path_style=_flag(options.get("path_style")),
    )


def _options(pairs: list[tuple[str, str]]) -> dict[str, str]:
    names = [name for name, _ in pairs]
    unknown = sorted({name for name in names if name not in _S3_OPTIONS})
    if unknown:
        raise UsageError(
            f"the store's s3:// URL has the option {', '.join(unknown)}; known: "
            f"{', '.join(_S3_OPTIONS)}. Credentials come from the environment, never from here."
        )
    if len(set(names)) < len(names):
        raise UsageError("the store's s3:// URL gives an option twice; give each once")
    return dict(pairs)


def _endpoint(text: str | None) -> str | None:
    if not text:
        return None
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise UsageError(
            "the store's endpoint_url is not of the form https://host or http://host:port "
            "(without user or password)"
        )
    return text


def _flag(text: str | None) -> bool | None:
    if text in {None, "true", "false"}:
        return None if text is None else text == "true"
    raise UsageError("the store's path_style is neither true nor false")
