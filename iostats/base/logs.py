"""
The log of the site's server: each event is one line, also where users chose the words in it.
"""

from __future__ import annotations

import logging

from iostats.base.errors import one_line

_LONGEST = 4000                 # characters of one event
_BEFORE = "iostats: "
_OF_BUGS = "  | "               # before each line of a traceback: no event begins so


class OneLine(logging.Formatter):
    """What does not print stands as \\x1b, as in tables; a traceback's lines are marked as such."""

    def format(self, record: logging.LogRecord) -> str:
        text = one_line(record.getMessage())
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST - 505]} ... {text[-500:]}"
        lines = [_BEFORE + text]
        if record.exc_info and record.exc_info[0] is not None:
            lines += [_OF_BUGS + one_line(line)
                      for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(lines)


def log_internal_error(error: BaseException, what: str = "") -> None:
    """Log an internal error with its traceback; `what`: what was not done."""
    logging.getLogger("iostats").error("internal error; please report: %s",
                                       what or repr(error), exc_info=error)


def to_standard_error(level: int) -> None:
    """Log to stderr from now on, what our modules and others log."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=level)
