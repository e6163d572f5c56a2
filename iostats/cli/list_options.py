"""
Options that `iostats jobs` and `iostats nodes` share: those of sacct, as far as they fit.
"""

from __future__ import annotations

import sys

from iostats.base.errors import UsageError
from iostats.cli.parser import parser, whole_number
from iostats.report.listing import NumberForm

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from iostats.base.config import Config

_UNITS = "KMGTP"
_NO_LIMIT = 10**9

ListOptions = tuple[tuple[tuple[str, ...], str], ...]      # ((names, the attribute), ...)
VALUES: ListOptions = (
    (("-S", "--starttime", "--since"), "since"), (("-E", "--endtime", "--until"), "until"),
    (("--sort",), "sort"), (("--limit",), "limit"), (("--delimiter",), "delimiter"),
    (("--units",), "units"), (("--config",), "config"))
LISTS: ListOptions = ((("-o", "--format"), "format"),)    # given twice they add up, as with sacct
FLAGS: ListOptions = (
    (("-l", "--long"), "long"), (("-e", "--helpformat"), "helpformat"),
    (("--reverse",), "reverse"), (("-n", "--noheader"), "noheader"),
    (("-p", "--parsable"), "parsable"), (("-P", "--parsable2"), "parsable2"),
    (("--noconvert",), "noconvert"), (("--json",), "json"))


def command_line(prog: str, help: str, values: ListOptions = (), lists: ListOptions = (),
                 flags: ListOptions = ()) -> argparse.ArgumentParser:
    """A parser that takes these options, and the command's own."""
    found = parser(prog, help, (), ())
    for names, attribute in VALUES + values:
        found.add_argument(*names, dest=attribute)
    for names, attribute in LISTS + lists:
        found.add_argument(*names, dest=attribute, action="append", default=[])
    for names, attribute in FLAGS + flags:
        found.add_argument(*names, dest=attribute, action="store_true")
    return found


def without_descending(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--sort -FIELD` in one word: argparse takes -FIELD for an option."""
    found = list(arguments)
    if "--sort" in found[:-1]:
        at = found.index("--sort")
        found[at:at + 2] = [f"--sort={found[at + 1]}"]
    return found


def number_form(options: argparse.Namespace, config: Config) -> NumberForm:
    """How numbers are shown."""
    unit = options.units
    if unit is not None:
        if len(unit) != 1 or unit.upper() not in _UNITS:
            raise UsageError(f"--units: expected one of K, M, G, T, P, got {unit[:40]!r}")
        unit = unit.upper()
    # As with sacct, --units wins over --noconvert.
    return NumberForm(config["report.units"], unit, options.noconvert and unit is None,
                      not (options.parsable or options.parsable2))


def limit_of(options: argparse.Namespace) -> int:
    """How many rows are wanted."""
    if options.limit is None:
        return _NO_LIMIT
    return whole_number("--limit", options.limit, 999_999_999)


def notes_on_room(fields: Sequence[str]) -> list[str]:
    """A line for standard error where a table on a terminal has no room for `fields`; else []."""
    return [f"no room for {', '.join(fields)} (-l shows all fields, -o chooses)"
            ] if fields and sys.stdout.isatty() else []
