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
from iostats.cli.parser import (
    choose_table_width,
    make_parser,
    parse_whole_number,
    run_role,
    write_output,
)
from iostats.cli.site_client import ask_site, check_format
from iostats.report import json_and_csv, listing
from iostats.report.listing import ALL, NumberForm, check_delimiter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from iostats.base.config import Config
    from iostats.cli import parsed_options as parsed
    from iostats.report.listing import Cell, FieldColumn, FieldTable
    from iostats.wire.method_name import MethodName

    RowT = TypeVar("RowT", bound=listing.Row)
    AnswerOfRows = TypeVar("AnswerOfRows", bound=Mapping[str, object])
    OptionsT = TypeVar("OptionsT")

_UNITS = "KMGTP"
_NO_LIMIT = 10**9

ListOptions = tuple[tuple[tuple[str, ...], str], ...]      # ((names, the attribute), ...)
TIMES: ListOptions = ((("-S", "--starttime", "--since"), "since"),
                      (("-E", "--endtime", "--until"), "until"))
VALUES: ListOptions = (
    (("--sort",), "sort"), (("--limit",), "limit"), (("--delimiter",), "delimiter"),
    (("--units",), "units"), (("--config",), "config"))
LISTS: ListOptions = ((("-o", "--format"), "format"),)    # repeated options add up, as with sacct
FLAGS: ListOptions = (
    (("-l", "--long"), "long"), (("-e", "--helpformat"), "helpformat"),
    (("--reverse",), "reverse"), (("-n", "--noheader"), "noheader"),
    (("-p", "--parsable"), "parsable"), (("-P", "--parsable2"), "parsable2"),
    (("--noconvert",), "noconvert"), (("--json",), "json"))

# Lines of the help texts on the options that all of them have.
FORM_HELP = """\
  -n, --noheader        no heading
  -p, --parsable        | after every field
  -P, --parsable2       | between fields
  --delimiter TEXT      with -p and -P: TEXT instead of |
  --units UNIT          bytes in K, M, G, T or P
  --noconvert           bytes as plain numbers
"""
BY_FILE_SYSTEM: ListOptions = ((("-f", "--fs"), "file_system"),)


def run_list_command(name: str, help_text: str, operands: str,
                     run: Callable[[OptionsT], int], arguments: Sequence[str] | None,
                     values: ListOptions = BY_FILE_SYSTEM, flags: ListOptions = ()) -> int:
    """
    Parse the arguments of `iostats NAME`, and run it; the exit status.

    `operands`: the attribute of the arguments that are no options; `arguments`: sys.argv's if None.
    """
    list_parser = make_list_parser(f"iostats {name}", help_text, values, (), flags)
    list_parser.add_argument(operands, nargs="*")
    words = join_sort_option(sys.argv[1:] if arguments is None else arguments)

    def parse_and_run() -> int:
        options: Any = list_parser.parse_intermixed_args(words)
        return run(options)
    return run_role(parse_and_run)


def select_file_system(options: parsed.ByFileSystem) -> list[str]:
    """The parameter `file_systems` of a query: that of --fs, or none for all."""
    return [options.file_system] if options.file_system else []


def make_list_parser(prog: str, help_text: str, values: ListOptions = (), lists: ListOptions = (),
                     flags: ListOptions = ()) -> argparse.ArgumentParser:
    """A parser for these options, and the command's own."""
    list_parser = make_parser(prog, help_text)
    for names, attribute in VALUES + values:
        list_parser.add_argument(*names, dest=attribute)
    for names, attribute in LISTS + lists:
        list_parser.add_argument(*names, dest=attribute, action="append", default=[])
    for names, attribute in FLAGS + flags:
        list_parser.add_argument(*names, dest=attribute, action="store_true")
    return list_parser


def join_sort_option(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--sort -FIELD` as one word: argparse takes -FIELD for an option."""
    joined = list(arguments)
    if "--sort" in joined[:-1]:
        at = joined.index("--sort")
        joined[at:at + 2] = [f"--sort={joined[at + 1]}"]
    return joined


def make_number_form(options: parsed.ListOptions, config: Config) -> NumberForm:
    """The format of numbers."""
    unit = options.units
    if unit is not None:
        if len(unit) != 1 or unit.upper() not in _UNITS:
            raise UsageError(f"--units: expected one of K, M, G, T, P, got {unit[:40]!r}")
        unit = unit.upper()
    # As with sacct, --units wins over --noconvert.
    return NumberForm(config.report.units, unit, options.noconvert and unit is None,
                      not (options.parsable or options.parsable2))


def parse_delimiter(options: parsed.ListOptions) -> str:
    """The text between fields with -p and -P."""
    return check_delimiter("|" if options.delimiter is None else options.delimiter)


def parse_limit(options: parsed.ListOptions) -> int:
    """The number of rows of --limit."""
    if options.limit is None:
        return _NO_LIMIT
    return parse_whole_number("--limit", options.limit, 999_999_999)


def describe_hidden_fields(fields: Sequence[str]) -> list[str]:
    """A line for standard error if a table on a terminal has no room for `fields`; else []."""
    return [f"no room for {', '.join(fields)} (-l shows all fields, -o chooses)"
            ] if fields and sys.stdout.isatty() else []


def format_list(rows: Sequence[listing.Row], columns: list[FieldColumn], cell: Cell,
                dispensable: Sequence[str], options: parsed.ListOptions, empty: str, more: int,
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
        print(f"iostats: {note}", file=sys.stderr)


def print_answer(options: parsed.ListOptions, table: FieldTable, default: str,
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
