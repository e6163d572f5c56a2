"""
A database with /api/v2/write: its address and token from site.cfg, and how it answers a write.

Source: /api/v2/write of InfluxDB 2; RFC 9110, 10.2.3 (Retry-After).
"""

from __future__ import annotations

import contextlib
import email.utils
import functools
import gzip
import http.client
import os
import time
import urllib.parse
from typing import TYPE_CHECKING, NamedTuple

from iostats.base.errors import ConfigError
from iostats.base.private_files import find_unsafe_mode
from iostats.sinks.influxdb import InfluxdbSection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from iostats.base.config import Config

_LONGEST_RETRY_AFTER_S = 600.0
_LONGEST_BODY = 4096                # of an answer that is read


class Where(NamedTuple):
    url: str
    org: str
    bucket: str
    token: str


def load_address(config: Config) -> Where:
    """The Where of site.cfg, with the token that its file has now; ConfigError."""
    options = config.find_section(InfluxdbSection)
    if options.file:
        path = options.file
        lines = [line.strip() for line in _read_private_text(path).split("\n")]
        if len(lines) < 4 or not all(lines[:4]) or any(lines[4:]):
            raise ConfigError(f"{path}: expected four lines, the database's URL, organization, "
                              f"bucket and token, got {len(list(filter(None, lines)))}")
        url, org, bucket, token, *_ = lines
        where = Where(url, org, bucket, _check_token(token, f"{path}:4"))
        origin = f"{path}:1"
    else:
        where = Where(options.url, options.org, options.bucket,
                      _read_token(options.token_file))
        origin = config.locate("influxdb.url")
    if not where.url.startswith(("http://", "https://")) or len(where.url.split()) != 1:
        raise ConfigError(f"{origin}: expected http://HOST:PORT or https://HOST:PORT, got "
                          f"{where.url!r}")
    if not where.bucket:
        raise ConfigError(f"{config.locate('influxdb.bucket')}: expected the name of a "
                          f"bucket, got none")
    return where


def _read_token(path: str) -> str:
    return _check_token(_read_private_text(path).strip(), path) if path else ""


def _check_token(token: str, origin: str) -> str:
    if not token or len(token.split()) != 1 or not (token.isascii() and token.isprintable()):
        raise ConfigError(f"{origin}: expected the database's token, one line, got "
                          f"{'nothing' if not token else 'something else'}")
    return token


def _read_private_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="strict") as file:
            mode = find_unsafe_mode(os.fstat(file.fileno()))
            if mode:
                raise ConfigError(f"{path}: expected a file of mode 0600, since it has the "
                                  f"database's token, got {mode}; chmod 600 {path}, and have a "
                                  f"new token made if others could read it")
            return file.read(1 << 16)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; it has the database's "
                          f"token ([influxdb] in site.cfg)") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected text in UTF-8") from None


class Answer(NamedTuple):
    """The result of a write."""

    # TAKEN; BAD: these points will never be taken; DENIED: token, bucket or organization are not
    # right; NO_API: it does not know /api/v2/write; LATER: the database can't now
    kind: str
    why: str                # in words
    after_s: float | None   # when to try again, if it says


ACCEPTED, BAD, DENIED, NO_API, LATER = "taken", "bad", "denied", "no API", "later"


def write(where: Where, lines: list[bytes], timeout_s: float, ca_file: str) -> Answer:
    """
    Write points to the database, and return the Answer.

    Each write has a connection of its own: there are few, and one that the database has closed in
    the time between two sweeps cannot fail a write.
    """
    try:
        url = urllib.parse.urlsplit(where.url)
        query = urllib.parse.urlencode(
            {"org": where.org, "bucket": where.bucket, "precision": "ms"})
        headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Encoding": "gzip",
                   **({"Authorization": f"Token {where.token}"} if where.token else {})}
        with contextlib.closing(_make_connection(url, timeout_s, ca_file)) as connection:
            connection.request("POST", f"{url.path.rstrip('/')}/api/v2/write?{query}",
                               gzip.compress(b"\n".join(lines)), headers)
            response = connection.getresponse()
            if 200 <= response.status < 300:
                return Answer(ACCEPTED, "", None)
            return parse_response(response.status, response.headers, response.read(_LONGEST_BODY))
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Answer(LATER, f"not reached: {_shorten_text(error) or type(error).__name__}", None)


def _make_connection(url: urllib.parse.SplitResult, timeout_s: float,
                     ca_file: str) -> http.client.HTTPConnection:
    """A connection to the host of `url`; ValueError where it has none."""
    if not url.hostname:
        raise ValueError("no host in the URL")
    if url.scheme == "https":
        return http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout_s,
                                           context=_make_tls_context(ca_file))
    return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout_s)


@functools.lru_cache(maxsize=1)
def _make_tls_context(ca_file: str) -> ssl.SSLContext:
    """The settings of TLS: CA certificates are read once."""
    import ssl
    return ssl.create_default_context(cafile=ca_file or None)


def parse_response(status: int, headers: Mapping[str, str] | http.client.HTTPMessage,
                   body: object) -> Answer:
    """The Answer in an HTTP response."""
    why = f"answers {status} {_shorten_text(body)}".rstrip()
    if status in (400, 413, 422):
        return Answer(BAD, why, None)
    if status == 404 and not _shorten_text(body).startswith("{"):
        # InfluxDB and what stands in for it say in JSON that there is no such bucket.
        version = _shorten_text(headers.get("X-Influxdb-Version"))
        return Answer(NO_API, f"has no /api/v2/write ({'InfluxDB ' + version if version else why})",
                      None)
    if status in (401, 403, 404):
        return Answer(DENIED, why, None)
    return Answer(LATER, why, retry_after_s(headers.get("Retry-After")))


def retry_after_s(text: str | None) -> float | None:
    """Seconds, of a number of seconds or a date; None for none."""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_S) if seconds == seconds else None


def _shorten_text(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    text = " ".join(text.split())
    return text if len(text) <= 160 else text[:157] + "..."
