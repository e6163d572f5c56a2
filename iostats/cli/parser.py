"""
An argparse parser with our own help texts.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from iostats.base.errors import DONE, UNREADABLE, IostatsError, UsageError, one_line
from iostats.cli.entry_point import NO_MEMORY, unwritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn, TextIO


def parser(prog: str, text: str, with_value: Iterable[str],
           flags: Iterable[str]) -> argparse.ArgumentParser:
    """An argparse parser with our text as its help, which is another one with each Python."""
    class Parser(argparse.ArgumentParser):
        def format_help(self) -> str:
            return text

        def error(self, message: str) -> NoReturn:
            raise UsageError(f"{message} (see --help)")
    found = Parser(prog=prog, allow_abbrev=False)
    for option in with_value:
        found.add_argument(option)
    for option in flags:
        found.add_argument(option, action="store_true")
    return found


def whole_number(name: str, text: str, most: int) -> int:
    """The number from 1 to `most` that option `name` has; UsageError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise UsageError(f"{name}: expected a number from 1 to {most}, got {text[:40]!r}")
    return int(text)


def moments_of(options: argparse.Namespace, now: float,
               default: str | None) -> tuple[float | None, float | None]:
    """
    (since, until) in seconds since 1970, None for no limit; `default`: `since` where none is given.
    """
    from iostats.base.sacct_time import moment
    since = None if default is None else moment(default, now)
    if options.since is not None:
        since = moment(options.since, now, "--since")
    until = None if options.until is None else moment(options.until, now, "--until")
    if until is not None and since is not None and since > until:
        raise UsageError(f"expected --since before --until, got {(options.since or 'today')[:40]!r}"
                         f" and {options.until[:40]!r}")
    return since, until


def terminal_width() -> int | None:
    """Characters in a line of the terminal, or of COLUMNS; None in a pipe: as many as it takes."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        import shutil
        return max(1, shutil.get_terminal_size().columns)
    return None


def table_width() -> int:
    """
    The width of a table if the user has not chosen the columns: that of the terminal; 80
    characters in a pipe, as in a job's output.
    """
    return terminal_width() or 80


def has_colours(stream: TextIO) -> bool:
    """Whether `stream` is a terminal with colours, and NO_COLOR (no-color.org) is not set."""
    return (stream.isatty() and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"))


def status_of(role: Callable[[], int]) -> int:
    """
    The exit status that `role()` returns, or that of the IostatsError that it raises, which is one
    line for the user; DONE when the reader of our output has closed the pipe, 130 after Ctrl-C.
    """
    try:
        return role()
    except IostatsError as error:
        print(f"iostats: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return DONE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except MemoryError:
        print(f"iostats: {NO_MEMORY}", file=sys.stderr)
        return UNREADABLE
    except OSError as error:                          # such as too many open files (ulimit -n)
        print(f"iostats: {error}", file=sys.stderr)
        return UNREADABLE


def say(text: str) -> None:
    """A line for the user on standard error, from any thread."""
    # With its end in one piece: what another thread says at the same time is no part of the line.
    print(f"iostats: {one_line(text)}\n", end="", file=sys.stderr, flush=True)


def put_out(lines: Iterable[str]) -> None:
    """Write to standard output, where a full disk is no traceback; StateError."""
    try:
        sys.stdout.writelines(lines)
        sys.stdout.flush()
    except OSError as error:
        raise unwritable(error) from None
