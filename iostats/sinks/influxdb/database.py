"""
A database with /api/v2/write: where it is, by site.cfg, and what it answers to a write.

Source: /api/v2/write of InfluxDB 2; RFC 9110, 10.2.3 (Retry-After).
"""

from __future__ import annotations

import email.utils
import logging
import os
import stat
import time
from collections import namedtuple

from iostats.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.base.config import Config

_LONGEST_RETRY_AFTER_S = 600.0

Where = namedtuple("Where", "url org bucket token")


def where_of(config: Config) -> Where:
    """The Where of site.cfg, with the token as its file has it now; ConfigError."""
    if config["influxdb.file"]:
        path = config["influxdb.file"]
        lines = [line.strip() for line in _private_text(path).split("\n")]
        if len(lines) < 4 or not all(lines[:4]) or any(lines[4:]):
            raise ConfigError(f"{path}: expected four lines, the database's URL, organization, "
                              f"bucket and token, got {len(list(filter(None, lines)))}")
        url, org, bucket, token, *_ = lines
        where = Where(url, org, bucket, _checked_token(token, f"{path}:4"))
        origin = f"{path}:1"
    else:
        where = Where(config["influxdb.url"], config["influxdb.org"], config["influxdb.bucket"],
                      _token(config["influxdb.token_file"]))
        origin = f"{config.origin['influxdb.url']}: [influxdb] url"
    if not where.url.startswith(("http://", "https://")) or len(where.url.split()) != 1:
        raise ConfigError(f"{origin}: expected http://HOST:PORT or https://HOST:PORT, got "
                          f"{where.url!r}")
    if not where.bucket:
        raise ConfigError(f"{config.origin['influxdb.bucket']}: [influxdb] bucket: expected the "
                          f"name of a bucket, got none")
    return where


def _token(path: str) -> str:
    return _checked_token(_private_text(path).strip(), path) if path else ""


def _checked_token(token: str, origin: str) -> str:
    if not token or len(token.split()) != 1 or not (token.isascii() and token.isprintable()):
        raise ConfigError(f"{origin}: expected the database's token, one line, got "
                          f"{'nothing' if not token else 'something else'}")
    return token


def _private_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="strict") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise ConfigError(f"{path}: expected a file of mode 0600, since it has the "
                                  f"database's token, got mode "
                                  f"{stat.S_IMODE(found.st_mode):04o}; chmod 600 {path}, and "
                                  f"have a new token made if others could read it")
            return file.read(1 << 16)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; it has the database's "
                          f"token ([influxdb] in site.cfg)") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected text in UTF-8") from None


Answer = namedtuple("Answer", "kind why after_s")
Answer.__doc__ = """
What became of a write.

Attributes:
    kind: TAKEN; BAD: these points will never be taken; DENIED: token, bucket or organization are
        not right; NO_API: it does not know /api/v2/write; LATER: the database can't now.
    why: in words.
    after_s: when to try again, if it says.
"""
TAKEN, BAD, DENIED, NO_API, LATER = "taken", "bad", "denied", "no API", "later"


class Database:
    """Writes to /api/v2/write; `Where` and a time limit, s."""

    def __init__(self, where: Where, timeout_s: float, ca_file: str) -> None:
        from influxdb_client import InfluxDBClient, WriteOptions
        from influxdb_client.client.write_api import WriteType
        self.where = where
        self._client = InfluxDBClient(
            where.url, where.token, org=where.org, timeout=round(timeout_s * 1000),
            enable_gzip=True, retries=False, ssl_ca_cert=ca_file or None)
        # It would put a traceback into our log for each header that is none; the client has just
        # set the level.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        self._api = self._client.write_api(WriteOptions(write_type=WriteType.synchronous))

    def write(self, lines: list[bytes]) -> Answer:
        """The Answer to points [bytes]."""
        from influxdb_client.rest import ApiException
        from urllib3.exceptions import HTTPError
        try:
            self._api.write(self.where.bucket, self.where.org, b"\n".join(lines),
                            write_precision="ms")
        except ApiException as error:
            return answer_of(error.status, error.headers or {}, error.body)
        except (HTTPError, OSError, ValueError) as error:
            return Answer(LATER, f"not reached: {_short(error)}", None)
        return Answer(TAKEN, "", None)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()


def answer_of(status: int, headers: Mapping[str, str], body: object) -> Answer:
    """The Answer in an HTTP response."""
    why = f"answers {status} {_short(body)}".rstrip()
    if status in (400, 413, 422):
        return Answer(BAD, why, None)
    if status == 404 and not _short(body).startswith("{"):
        # InfluxDB and what stands in for it say in JSON that there is no such bucket.
        version = _short(headers.get("X-Influxdb-Version"))
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


def _short(what: object) -> str:
    text = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what or "")
    text = " ".join(text.split())
    return text if len(text) <= 160 else text[:157] + "..."
