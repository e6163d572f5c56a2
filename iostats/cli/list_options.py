"""
Options that `iostats jobs`, `nodes`, `capacity`, `targets` and `quota` share: those of sacct, as
far as they fit; and what the last three do with them.
"""

from __future__ import annotations

import sys
from operator import getitem
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base.errors import DONE, UsageError
from iostats.base.messages import print_message
from iostats.cli import CONFIG, Options, flag, operands, option, repeated
from iostats.cli.parser import (
    choose_table_width,
    parse_options,
    parse_whole_number,
    run_role,
    write_output,
)
from iostats.cli.site_client import ask_site, check_format
from iostats.report import json_and_csv, listing
from iostats.report.listing import ALL, NumberForm, check_delimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from iostats.base.config import Config
    from iostats.report.listing import Cell, FieldColumn, FieldTable
    from iostats.wire.method_name import MethodName

    RowT = TypeVar("RowT", bound=listing.Row)
    AnswerOfRows = TypeVar("AnswerOfRows", bound=Mapping[str, object])
    CommandT = TypeVar("CommandT", bound=Options)

_UNITS = "KMGTP"
_NO_LIMIT = 10**9


class ListOptions(Options):
    """The options of all lists: `jobs`, `nodes`, `capacity`, `targets`, `quota`."""

    format = repeated("-o, --format FIELDS", "these fields", "shown")     # repeated options add up
    long = flag("-l, --long", "-o ALL", "shown")
    helpformat = flag("-e, --helpformat", "list the fields", "shown")
    sort = option("--sort FIELD", "the smallest first; -FIELD: the largest", "shown")
    reverse = flag("--reverse", "reverse the order", "shown")
    limit = option("--limit N", "the first N in that order", "shown")
    noheader = flag("-n, --noheader", "no heading", "shown")
    parsable = flag("-p, --parsable", "| after every field", "shown")
    parsable2 = flag("-P, --parsable2", "| between fields", "shown")
    delimiter = option("--delimiter TEXT", "with -p and -P: TEXT instead of |", "shown")
    units = option("--units UNIT", "bytes in K, M, G, T or P", "shown")
    noconvert = flag("--noconvert", "bytes as plain numbers", "shown")
    json = flag("--json", "one JSON document (docs/reference/wire.md)", "shown")
    config = CONFIG


class ByFileSystem(Options):
    """The option --fs."""

    file_system = option("-f, --fs NAME", "of this file system only", "common")


class TargetOptions(ListOptions, ByFileSystem):
    """The options of `capacity` and `targets`."""

    targets = operands("TARGET", "such as scratch-OST0007", "common")


def run_list_command(command: type[CommandT], run: Callable[[CommandT], int],
                     arguments: Sequence[str] | None) -> int:
    """Parse the arguments, sys.argv's if None, and run the command; the exit status."""
    words = join_sort_option(sys.argv[1:] if arguments is None else arguments)
    return run_role(lambda: run(parse_options(command, words)))


def select_file_system(options: ByFileSystem) -> list[str]:
    """The parameter `file_systems` of a query: that of --fs, or none for all."""
    return [options.file_system] if options.file_system else []


def join_sort_option(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--sort -FIELD` as one word: argparse takes -FIELD for an option."""
    joined = list(arguments)
    if "--sort" in joined[:-1]:
        at = joined.index("--sort")
        joined[at:at + 2] = [f"--sort={joined[at + 1]}"]
    return joined


def make_number_form(options: ListOptions, config: Config) -> NumberForm:
    """The format of numbers."""
    unit = options.units
    if unit is not None:
        if len(unit) != 1 or unit.upper() not in _UNITS:
            raise UsageError(f"--units: expected one of K, M, G, T, P, got {unit[:40]!r}")
        unit = unit.upper()
    # As with sacct, --units wins over --noconvert.
    return NumberForm(config.report.units, unit, options.noconvert and unit is None,
                      not (options.parsable or options.parsable2))


def parse_delimiter(options: ListOptions) -> str:
    """The text between fields with -p and -P."""
    return check_delimiter("|" if options.delimiter is None else options.delimiter)


def parse_limit(options: ListOptions) -> int:
    """The number of rows of --limit."""
    if options.limit is None:
        return _NO_LIMIT
    return parse_whole_number("--limit", options.limit, 999_999_999)


def describe_hidden_fields(fields: Sequence[str]) -> list[str]:
    """A line for standard error if a table on a terminal has no room for `fields`; else []."""
    return [f"no room for {', '.join(fields)} (-l shows all fields, -o chooses)"
            ] if fields and sys.stdout.isatty() else []


def format_list(rows: Sequence[listing.Row], columns: list[FieldColumn], cell: Cell,
                dispensable: Sequence[str], options: ListOptions, empty: str, more: int,
                notes: Callable[[int], Iterable[str]], heading_alone: bool = True,
                ) -> Iterator[str]:
    """
    Lines for people: the table, `empty` if it has no rows, how many `more` there are, and notes.

    Without --format and --long, columns that do not fit are left out, and named on standard error.
    `notes`: lines for this width.  `heading_alone`: whether a table without rows has its heading.
    """
    width, without = choose_table_width(), list[str]()
    if not (options.format or options.long):
        columns, without = listing.fit_columns(rows, columns, cell, width, dispensable)
    if rows or heading_alone:
        yield from listing.format_table(rows, columns, cell, not options.noheader)
    if not rows:
        yield f"({empty})\n"
    if more > 0:
        yield f"({more} more)\n"
    for line in notes(width):
        yield line + "\n"
    for note in describe_hidden_fields(without):
        print_message(note)


def print_answer(options: ListOptions, table: FieldTable, default: str,
                 method: MethodName[AnswerOfRows], params: Mapping[str, object],
                 rows_of: Callable[[AnswerOfRows], list[RowT]],
                 make_cell: Callable[[NumberForm], Cell], dispensable: Sequence[str], empty: str,
                 notes: Callable[[AnswerOfRows, list[RowT], int], Iterable[str]],
                 key: Callable[[RowT, str], object] = getitem) -> int:
    """
    Ask the site's server, and print the rows of the answer; the exit status.

    `default`: the columns; `notes(answer, rows, width)`: lines below the table; `key(row, name)`:
    the value that rows are sorted by; rows without it are last.
    """
    if options.helpformat:
        write_output([table.help()])
        return DONE
    config = site.load(options.config)
    columns = table.parse_columns(",".join(options.format) or (ALL if options.long else default))
    form, order = make_number_form(options, config), options.sort and table.parse_sort(options.sort)
    delimiter = parse_delimiter(options)
    answer = ask_site(config, method, params)
    with check_format(f"the answer to {method}"):
        if options.json:
            write_output([json_and_csv.format_json({"schema": 1, **answer})])
            return DONE
        rows = rows_of(answer)
        if order:
            name, descending = order
            keys: Any = {id(row): key(row, name) for row in rows}
            comparable = [row for row in rows if keys[id(row)] is not None]
            rows = [*sorted(comparable, key=lambda row: keys[id(row)], reverse=descending),
                    *(row for row in rows if keys[id(row)] is None)]
        if options.reverse:
            rows.reverse()
        count, rows = len(rows), rows[:parse_limit(options)]
        if options.parsable or options.parsable2:
            write_output(listing.format_parsable(rows, columns, make_cell(form),
                                                 not options.noheader,
                                                 delimiter, not options.parsable2))
        else:
            write_output(format_list(rows, columns, make_cell(form), dispensable, options, empty,
                                     count - len(rows), lambda width: notes(answer, rows, width)))
    return DONE
