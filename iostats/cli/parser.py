"""
The command line by argparse, and the common parts of all commands.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from iostats.base.errors import (
    DONE,
    UNREADABLE,
    IostatsError,
    UsageError,
    describe_error,
)
from iostats.base.messages import print_message
from iostats.cli import Options, option
from iostats.cli.entry_point import NO_MEMORY, make_output_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn, TextIO, TypeVar

    CommandT = TypeVar("CommandT", bound=Options)


def parse_options(command: type[CommandT], arguments: Sequence[str] | None = None) -> CommandT:
    """The options of a command line, sys.argv's if None; UsageError.  --help ends the process."""
    class Parser(argparse.ArgumentParser):
        def format_help(self) -> str:              # argparse's own differs with each Python
            return command.format_help()

        def error(self, message: str) -> NoReturn:
            raise UsageError(f"{message} (see --help)")
    made = Parser(allow_abbrev=False, add_help=False)
    made.add_argument(*command.list_help_names(), action="help")
    are_mixed = False
    for name, known in command.list_declared().items():
        names, default = known.list_names(), known.default
        aliases = known.aliases.split()
        if default is False:
            made.add_argument(*names, *aliases, dest=name, action="store_true")
        elif not names:
            is_list = isinstance(default, list)
            are_mixed = are_mixed or is_list
            made.add_argument(name, metavar=known.declared, default=default,
                              nargs="*" if is_list else None if default is None else "?")
        elif default is None:
            made.add_argument(*names, *aliases, dest=name,
                              nargs="?" if known.bare else None, const=known.bare or None)
        elif " " in known.find_value():
            made.add_argument(*names, *aliases, dest=name, nargs="+", default=default)
        else:
            made.add_argument(*names, *aliases, dest=name, action="append", default=default)
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = command()
    vars(options).update(vars(made.parse_intermixed_args(words) if are_mixed
                              else made.parse_args(words)))
    return options


def parse_whole_number(name: str, text: str, maximum: int) -> int:
    """The value of option `name`, a number from 1 to `maximum`; UsageError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= maximum):
        raise UsageError(f"{name}: expected a number from 1 to {maximum}, got {text[:40]!r}")
    return int(text)


class Times(Options):
    """The options --since and --until."""

    since = option("-S, --starttime, --since TIME", "from TIME on (default: 00:00 of today)",
                   "common")
    until = option("-E, --endtime, --until TIME", "up to TIME (default: the last sweep)", "common")


def parse_times(options: Times, now: float,
                default: str | None) -> tuple[float | None, float | None]:
    """
    Return (since, until) in seconds since 1970, None for no limit; `default`: `since` without the
    option.
    """
    from iostats.base.sacct_time import parse_time
    since = None if default is None else parse_time(default, now)
    if options.since is not None:
        since = parse_time(options.since, now, "--since")
    until = None if options.until is None else parse_time(options.until, now, "--until")
    if until is not None and since is not None and since > until:
        raise UsageError(f"expected --since before --until, got {(options.since or 'today')[:40]!r}"
                         f" and {(options.until or '')[:40]!r}")
    return since, until


def get_terminal_width() -> int | None:
    """The width of the terminal, or COLUMNS; None in a pipe: lines are not cut."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        import shutil
        return max(1, shutil.get_terminal_size().columns)
    return None


def choose_table_width() -> int:
    """
    The width of a table with default columns: that of the terminal; 80 characters in a pipe, such
    as a job's output.
    """
    return get_terminal_width() or 80


def can_show_colours(stream: TextIO) -> bool:
    """Whether `stream` is a terminal with colours, and NO_COLOR (no-color.org) is not set."""
    return (stream.isatty() and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"))


def run_role(role: Callable[[], int]) -> int:
    """
    The exit status that `role()` returns, or that of its IostatsError, which is printed in one
    line; DONE if the reader of our output has closed the pipe, 130 after Ctrl-C.
    """
    try:
        return role()
    except IostatsError as error:
        print_message(error)
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
        print_message(describe_error(error))
        return UNREADABLE


def write_output(lines: Iterable[str]) -> None:
    """Write to standard output; a full disk is a StateError, not a traceback."""
    try:
        sys.stdout.writelines(lines)
        sys.stdout.flush()
    except OSError as error:
        raise make_output_error(error) from None


def require_packages(*names: str) -> None:
    """ModuleNotFoundError, as raised by an import, if a package is not installed."""
    from importlib.machinery import PathFinder
    for name in names:
        if PathFinder.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
