"""
The log of a server: each event is one line, even if a user chose some of its words.

Each module has a logger of its name.  What a line is about stands in its fields as well:

    log.warning("job %s: %s", job, why, extra={"job": job})

Levels, of which each needs less attention than the one before:

    error     data are lost or damaged, or a fault of ours (with its traceback)
    warning   something does not work, or a message was refused; the server goes on without it
    info      what a server does: it listens, a record is made

docs/reference/logs.md has the formats.
"""

from __future__ import annotations

import logging
import sys
import time

from iostats.base.errors import UsageError, sanitize

FORMATS = ("text", "json", "journal")
FIELDS = ("job", "node", "file_system", "target")   # `extra` of a line: what it is about
_LONGEST = 4000                 # characters of one event
_PREFIX = "iostats: "
_TRACEBACK_PREFIX = "  | "      # before each line of a traceback: no event begins so
_JOURNAL = "/run/systemd/journal/socket"
_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))     # RFC 5424

log = logging.getLogger(__name__)


class OneLineFormatter(logging.Formatter):
    """Write control characters as \\x1b, as in tables, and mark the lines of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        lines = [_PREFIX + format_message(record)]
        if record.exc_info and record.exc_info[0] is not None:
            lines += [_TRACEBACK_PREFIX + sanitize(line)
                      for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """Write one JSON object in a line."""

    def format(self, record: logging.LogRecord) -> str:
        import json
        form = {"time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
                + f".{int(record.msecs):03d}Z", "level": record.levelname.lower(),
                "logger": record.name, "message": format_message(record), **_list_fields(record)}
        if record.exc_info and record.exc_info[0] is not None:
            form["traceback"] = self.formatException(record.exc_info)
        return json.dumps(form)


class JournalHandler(logging.Handler):
    """Sends each line to systemd's journal, with the fields of systemd.journal-fields(7)."""

    def __init__(self, path: str = _JOURNAL) -> None:
        super().__init__()
        import socket
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._path = path

    def close(self) -> None:
        self._socket.close()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line; on standard error where the journal does not take it."""
        text = OneLineFormatter().format(record)
        fields = {"MESSAGE": text.removeprefix(_PREFIX), "LOGGER": record.name,
                  "SYSLOG_IDENTIFIER": "iostats",
                  "PRIORITY": next((number for level, number in _PRIORITIES
                                    if record.levelno >= level), 7),
                  **{f"IOSTATS_{name.upper()}": sanitize(value)
                     for name, value in _list_fields(record).items()}}
        parts = []
        for name, value in fields.items():     # the form for values of several lines, for all
            data = str(value).encode("utf-8", "replace")
            parts.append(b"%s\n%s%s\n" % (name.encode(), len(data).to_bytes(8, "little"), data))
        try:
            self._socket.sendto(b"".join(parts), self._path)
        except OSError:
            print(text, file=sys.stderr)


def format_message(record: logging.LogRecord) -> str:
    """The text of a log record: one line of limited length."""
    text = sanitize(record.getMessage())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST - 505]} ... {text[-500:]}"


def _list_fields(record: logging.LogRecord) -> dict[str, str]:
    return {name: str(value) for name in FIELDS if (value := getattr(record, name, None))}


def log_internal_error(error: BaseException, task: str = "") -> None:
    """Log an internal error with its traceback; `task`: the work that failed."""
    log.error("internal error; please report: %s", task or repr(error), exc_info=error)


def log_to_stderr(level: int, log_format: str | None = None) -> None:
    """Send the log of our modules, and of libraries, to stderr; `log_format`: of FORMATS."""
    if log_format not in (None, *FORMATS):
        raise UsageError(f"--log-format: expected one of {', '.join(FORMATS)}, got "
                         f"{str(log_format)[:40]!r}")
    handler = JournalHandler() if log_format == "journal" else logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else OneLineFormatter())
    logging.basicConfig(handlers=[handler], level=level)
